"""Beyond the paper: D_K* for exact recovery, all m² pairs and so every context right, compared with F1 ≥ 0.99."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from manyheads.capacity import Goal, Threshold, points, threshold
from manyheads.drawing.capacity import budget_errors
from manyheads.drawing.style import BLUE, ORANGE, VERMILLION, counting_axis, look, panels
from manyheads.papers.beyond.grid import problems, runs, smallest_on_grid
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import BEYOND, Exhibit
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.rows import Rows
from manyheads.papers.threshold_search import ThresholdSearch, panel_search
from manyheads.training import Run

EXACT = Goal(exact=True)
NEVER = 1.0  # no F1 exceeds it, so the run trains to its step limit


@dataclass(frozen=True)
class Recovery:
    """The thresholds of one problem; None if runs are missing, a threshold without a budget if no budget works."""

    panel: Panel
    f1: Threshold | None  # the paper's goal and early stop, searched over every key width
    stopped: Threshold | None  # exact recovery by the runs of the paper's kind of grid, which stop above F1 = 0.995
    trained: Threshold | None  # exact recovery by runs that train to the step limit, searched over every key width


def to_the_limit(panel: Panel, scale: Scale) -> Run:
    """The paper's training without its early stop; the early stop leaves the last wrong pairs wrong."""
    paper = panel.run(1, 1, 0, scale)
    return replace(paper, protocol=replace(paper.protocol, stop_above=NEVER))


def f1_search(panel: Panel, scale: Scale) -> ThresholdSearch:
    """The paper's goal over the same head counts as exact recovery."""
    return panel_search(panel, scale, heads=HEADS)


def exact_search(panel: Panel, scale: Scale) -> ThresholdSearch:
    """Exact recovery, powers of two for the head counts, every key width."""
    return panel_search(panel, scale, heads=HEADS, like=to_the_limit(panel, scale), exact=True)


def searches(scale: Scale) -> list[ThresholdSearch]:
    """Both goals at every problem."""
    return [search(panel, scale) for panel in problems(scale) for search in (f1_search, exact_search)]


def recoveries(rows: Rows, scale: Scale) -> list[Recovery]:
    """The thresholds of each problem."""
    made = []
    for panel in problems(scale):
        f1, exact = f1_search(panel, scale).follow(rows), exact_search(panel, scale).follow(rows)
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
    """The smallest key budget of the paper's kind of grid at which half of the seeds have every pair right."""
    found = [(run, EXACT.score(rows[run.id])) for run in panel.runs(scale)]
    made = points([(run.heads, run.key_width, run.seed, score) for run, score in found if score is not None])
    whole = [point for point in made if len(point.scores) == len(panel.seeds(scale))]
    return threshold(whole, target=EXACT.target)


def draw(rows: Rows, scale: Scale) -> Figure:
    """The three thresholds of every problem, in the order of the paper's x."""
    found = sorted(recoveries(rows, scale), key=lambda one: (one.panel.law(), one.panel.items))
    series = (
        ("F1 ≥ 0.99", [one.f1 for one in found], BLUE, "o"),
        ("exact, stopped as in the paper", [one.stopped for one in found], ORANGE, "s"),
        ("exact, trained to the step limit", [one.trained for one in found], VERMILLION, "D"),
    )
    with look():
        figure, ((axes,),) = panels(1, 1, (8.4, 4.2))
        for place, (name, values, colour, marker) in enumerate(series):
            shown = [(x + 0.22 * (place - 1), one) for x, one in enumerate(values) if one and one.key_budget]
            if not shown:
                continue
            errors = budget_errors([one for _, one in shown])
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
        axes.set(xlabel="items m over $d_{model}$", ylabel="$D_K^*$")
        axes.set_title("none: searched up to $2.4\\,m\\log_2 m/d_{model}$", fontsize=10)
        axes.set_xlim(-0.6, len(found) - 0.4)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The key budget of exact recovery over that of F1 ≥ 0.99, with the paper's early stop and without."""
    found = recoveries(rows, scale)
    grid = {one.panel: min(coarse.values()) for one in found if (coarse := smallest_on_grid(one.panel, rows, scale))}
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
        "A key budget recovers exactly if at least half of the seeds have all m² pairs right: then no context is "
        "decided wrongly. F1 ≥ 0.99 is required of the mean over the seeds."
    ]
    if stopped or never:
        where = ", ".join(f"({panel.items}, {panel.d_model})" for panel in never)
        parts.append(
            f"With the runs of the paper's kind of grid, which stop above 0.995, exact recovery has a threshold at "
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
        parts.append(f"The search at {left} of {len(found)} problems has not ended.")
    return " ".join(parts)


def _range(shares: list[float]) -> str:
    return f"{min(shares):.2f} to {max(shares):.2f} ({statistics.median(shares):.2f} in the median)"


BEYOND_EXACT = Exhibit("Every pair right", runs, draw, caption, searches=searches, collection=BEYOND)
