"""Past the paper: D_K* over every key width and every head count, beside the paper's kind of grid."""

from __future__ import annotations

import statistics

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.style import BLUE, ORANGE, look, panels
from manyheads.papers.panel import BASE, HEADS, Panel
from manyheads.papers.pictures import power_axis
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.threshold_search import Hunt, Trail, panel_hunt
from manyheads.papers.verdict import Verdict
from manyheads.training import Run, step_limit

TITLE = "Every key width and every head count"
EVERY = tuple(range(1, 2 * max(HEADS) + 1))  # not powers of two alone, and past the 64 at which the paper ends
LONGEST = 30_000  # steps: the search at (512, 16), which may take 80,000, is as long as all the others together
PROBLEMS = tuple(panel for panel in BASE if step_limit(items=panel.items, d_model=panel.d_model) <= LONGEST)
LEFT_OUT = tuple(panel for panel in BASE if panel not in PROBLEMS)
QUICK_ITEMS = 64


def problems(scale: Scale) -> list[Panel]:
    """The base grid but for what trains too long; a sketch has the smallest problems only."""
    most = min(scale.most_items, QUICK_ITEMS if scale.quick and scale.up_to is None else scale.most_items)
    return [panel for panel in PROBLEMS if panel.items <= most]


def runs(scale: Scale) -> list[Run]:
    """The paper's kind of grid, which the searches are shown beside."""
    return [run for panel in problems(scale) for run in panel.runs(scale)]


def hunts(scale: Scale) -> list[Hunt]:
    """A search for each problem."""
    return [panel_hunt(panel, scale, heads=EVERY) for panel in problems(scale)]


def trails(rows: Rows, scale: Scale) -> list[tuple[Panel, Trail]]:
    """The searches that came to their end and found something."""
    made = [(panel, hunt.follow(rows)) for panel, hunt in zip(problems(scale), hunts(scale), strict=True)]
    return [(panel, trail) for panel, trail in made if trail.threshold.key_budget is not None]


def draw(rows: Rows, scale: Scale) -> Figure:
    """The smallest key budget that works, over the head count: a panel for each problem."""
    found = trails(rows, scale)
    columns = min(3, max(1, len(found)))
    with look():
        figure, grid = panels(max(1, -(-len(found) // columns)), columns)
        for axes, (panel, trail) in zip(grid.flat, found, strict=False):
            _panel(axes, panel, trail, rows, scale)
        for axes in list(grid.flat)[len(found) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("smallest $D_K$ that works")
        for axes in grid[-1]:
            axes.set_xlabel("heads h")
        figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _panel(axes: Axes, panel: Panel, trail: Trail, rows: Rows, scale: Scale) -> None:
    best, coarse, fine = trail.threshold, smallest_on_grid(panel, rows, scale), trail.smallest()
    assert best.key_budget is not None
    assert best.heads is not None
    axes.axhspan(
        best.key_budget, 1.1 * best.key_budget, color=BLUE, alpha=0.10, linewidth=0, label="looked at for every h"
    )
    axes.plot(
        list(coarse), list(coarse.values()), color=ORANGE, marker="s", linewidth=1, label="the paper's kind of grid"
    )
    axes.plot(list(fine), list(fine.values()), color=BLUE, marker="o", linestyle="", label="every h, every $d_k$")
    axes.plot(
        [best.heads], [best.key_budget], color=BLUE, marker="*", markersize=13, linestyle="", label="$D_K^*$ and $h^*$"
    )
    axes.set_xscale("log")
    power_axis(axes.xaxis, HEADS)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0.85, 1.2 * max([*fine, *coarse]))
    # the bottom of the valley: where the grid's line leaves it, the top cuts it off
    axes.set_ylim(0.8 * best.key_budget, 2 * best.key_budget)
    axes.set_title(f"{panel}: $D_K^*$ = {best.key_budget} at h = {best.heads}", fontsize=10)


def smallest_on_grid(panel: Panel, rows: Rows, scale: Scale) -> dict[int, int]:
    """By head count, the smallest key budget of the paper's kind of grid at which the mean F1 reaches 0.99."""
    works = [point for point in panel.points(rows, scale) if point.mean >= TARGET]
    return {
        heads: min(point.key_budget for point in works if point.heads == heads)
        for heads in sorted({point.heads for point in works})
    }


def caption(rows: Rows, scale: Scale) -> str:
    """Both thresholds of every problem, and what the finer search changes."""
    found = [(panel, trail.threshold, smallest_on_grid(panel, rows, scale)) for panel, trail in trails(rows, scale)]
    if not found:
        return "No search has come to its end."
    told = [
        f"({panel.items}, {panel.d_model}): {one.key_budget} at {one.heads} × {one.key_width}, grid "
        f"{min(coarse.values()) if coarse else 'none'}"
        for panel, one, coarse in found
    ]
    shares = [(one.key_budget or 0) / min(coarse.values()) for _, one, coarse in found if coarse]
    odd = sum(one.heads not in HEADS for _, one, _ in found)
    gain = (
        f" The search needs {min(shares):.2f} to {max(shares):.2f} of the grid's D_K*, {statistics.median(shares):.2f} "
        f"in the median; at {odd} of {len(found)} problems h* is no power of two."
        if shares
        else ""
    )
    missing = len(problems(scale)) - len(found)
    absent = f" {missing} of {len(problems(scale))} problems have no threshold yet." if missing else ""
    seeds, without = len(found[0][0].seeds(scale)), ", ".join(f"({one.items}, {one.d_model})" for one in LEFT_OUT)
    return (
        f"D_K* over every head count from 1 to {max(EVERY)} and every key width, {seeds} seeds. {'; '.join(told)}."
        f"{gain}{absent} A head count is followed up to 10 % above D_K*: beyond that it can no longer be the best. "
        f"Not searched: {without}, whose runs may take more than {LONGEST:,} steps."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Nothing of the paper's: it goes past it."""
    return []
