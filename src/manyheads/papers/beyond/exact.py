"""Past the paper: D_K* for exact recovery, all m² pairs and hence every context right, beside F1 ≥ 0.99."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from manyheads.capacity import Goal, Threshold, points, threshold
from manyheads.drawing.style import BLUE, ORANGE, VERMILLION, counting_axis, look, panels
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.beyond.grid import problems, runs
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.pictures import spread
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.threshold_search import Hunt, panel_hunt
from manyheads.papers.verdict import Verdict
from manyheads.training import Run

__all__ = ["TITLE", "caption", "claims", "draw", "hunts", "runs"]

TITLE = "Every pair right"
EXACT = Goal(exact=True)
NEVER = 1.0  # no F1 is above it: such a run trains to its step limit


@dataclass(frozen=True)
class Recovery:
    """The thresholds of one problem; None where its runs are missing, and empty ones where nothing works."""

    panel: Panel
    f1: Threshold | None  # the paper's goal and stop, searched over every key width
    stopped: Threshold | None  # exact recovery by the very runs of the paper's kind of grid, which stop above 0.995
    trained: Threshold | None  # exact recovery by runs that go on to the step limit, searched


def to_the_limit(panel: Panel, scale: Scale) -> Run:
    """The paper's training without its early stop, which leaves the last wrong pairs as they are."""
    paper = panel.run(1, 1, 0, scale)
    return replace(paper, protocol=replace(paper.protocol, stop_above=NEVER))


def f1_hunt(panel: Panel, scale: Scale) -> Hunt:
    """The paper's goal over the same head counts as exact recovery."""
    return panel_hunt(panel, scale, heads=HEADS)


def exact_hunt(panel: Panel, scale: Scale) -> Hunt:
    """Exact recovery, powers of two for the head counts, every key width."""
    return panel_hunt(panel, scale, heads=HEADS, like=to_the_limit(panel, scale), exact=True)


def hunts(scale: Scale) -> list[Hunt]:
    """Both goals at every problem."""
    return [hunt(panel, scale) for panel in problems(scale) for hunt in (f1_hunt, exact_hunt)]


def recoveries(rows: Rows, scale: Scale) -> list[Recovery]:
    """What was found at each problem."""
    made = []
    for panel in problems(scale):
        f1, exact = f1_hunt(panel, scale).follow(rows), exact_hunt(panel, scale).follow(rows)
        made.append(
            Recovery(
                panel,
                None if f1.missing else f1.threshold,
                exact_on_grid(panel, rows, scale) if panel.complete(rows, scale) else None,
                None if exact.missing else exact.threshold,
            )
        )
    return made


def exact_on_grid(panel: Panel, rows: Rows, scale: Scale) -> Threshold:
    """The smallest key budget of the paper's kind of grid at which half of its runs have every pair right."""
    found = [(run, EXACT.score(rows[run.id])) for run in panel.runs(scale)]
    made = points([(run.heads, run.key_width, run.seed, score) for run, score in found if score is not None])
    whole = [point for point in made if len(point.scores) == len(panel.seeds(scale))]
    return threshold(whole, target=EXACT.target)


def draw(rows: Rows, scale: Scale) -> Figure:
    """The three thresholds of every problem, side by side, in the order of the paper's x."""
    found = sorted(recoveries(rows, scale), key=lambda one: (one.panel.law(), one.panel.items))
    series = (
        ("F1 ≥ 0.99", [one.f1 for one in found], BLUE, "o"),
        ("exact, stopped as in the paper", [one.stopped for one in found], ORANGE, "s"),
        ("exact, trained to the step limit", [one.trained for one in found], VERMILLION, "D"),
    )
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(8.4, 4.2)
        for place, (name, values, colour, marker) in enumerate(series):
            shown = [(x + 0.22 * (place - 1), one) for x, one in enumerate(values) if one and one.key_budget]
            if not shown:
                continue
            errors = list(zip(*(spread(one) for _, one in shown), strict=True))
            y = [one.key_budget or 0 for _, one in shown]
            axes.errorbar(
                [x for x, _ in shown], y, yerr=errors, fmt=marker, color=colour, capsize=2.5, elinewidth=1, label=name
            )
        for place, (_, values, colour, _) in enumerate(series):
            for x, one in enumerate(values):
                if one is not None and one.key_budget is None:
                    at = (x + 0.22 * (place - 1), 0.02)
                    axes.annotate(
                        "none",
                        at,
                        xycoords=axes.get_xaxis_transform(),
                        color=colour,
                        fontsize=8,
                        rotation=90,
                        ha="center",
                    )
        axes.set_yscale("log")
        counting_axis(axes.yaxis)
        axes.set_xticks(range(len(found)), [f"{one.panel.items}\n{one.panel.d_model}" for one in found])
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("items m over $d_{model}$")
        axes.set_ylabel("$D_K^*$")
        axes.set_title("none: looked for up to $2.4\\,m\\log_2 m/d_{model}$", fontsize=10)
        axes.set_xlim(-0.6, len(found) - 0.4)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """How much more exact recovery takes, with the paper's early stop and without."""
    found = recoveries(rows, scale)
    grid = {one.panel: min(coarse.values()) for one in found if (coarse := _coarse(one.panel, rows, scale))}
    stopped = [
        (one.stopped.key_budget or 0) / grid[one.panel]
        for one in found
        if one.stopped and one.stopped.key_budget and one.panel in grid
    ]
    trained = [
        (one.trained.key_budget or 0) / (one.f1.key_budget or 1)
        for one in found
        if one.f1 and one.trained and one.f1.key_budget and one.trained.key_budget
    ]
    never = [one.panel for one in found if one.stopped is not None and one.stopped.key_budget is None]
    parts = [
        "A key budget recovers exactly when at least half of the seeds have every one of the m² pairs right, so that "
        "no context is ever decided wrongly; F1 ≥ 0.99 is asked of the mean."
    ]
    if stopped or never:
        where = ", ".join(f"({panel.items}, {panel.d_model})" for panel in never)
        parts.append(
            f"By the very runs of the paper's kind of grid, which stop above 0.995, exact recovery has a threshold at "
            f"{len(stopped)} of {len(stopped) + len(never)} problems"
            + (f", {_range(stopped)} times that of F1" if stopped else "")
            + (f"; none up to 2.4·m·log2 m/d_model at {where}" if where else "")
            + "."
        )
    if trained:
        parts.append(
            f"Trained to the step limit instead, it takes {_range(trained)} times the D_K* of F1 ≥ 0.99 (both over "
            f"every key width, h a power of two, {len(trained)} problems)."
        )
    left = sum(one.trained is None for one in found)
    if left:
        parts.append(f"The search at {left} of {len(found)} problems has not come to its end.")
    return " ".join(parts)


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Nothing of the paper's: it goes past it."""
    return []


def _coarse(panel: Panel, rows: Rows, scale: Scale) -> dict[int, int]:
    return beyond_grid.smallest_on_grid(panel, rows, scale)


def _range(shares: list[float]) -> str:
    return f"{min(shares):.2f} to {max(shares):.2f} ({statistics.median(shares):.2f} in the median)"
