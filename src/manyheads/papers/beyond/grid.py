"""Beyond the paper: D_K* over every key width and every head count, compared with the paper's kind of grid."""

from __future__ import annotations

import statistics

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.style import BLUE, ORANGE, look, panels, power_axis
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import BEYOND, Exhibit
from manyheads.papers.panel import BASE, HEADS, Panel
from manyheads.papers.rows import Rows
from manyheads.papers.threshold_search import SearchTrail, ThresholdSearch, panel_search
from manyheads.training import Run, step_limit

EVERY = tuple(range(1, 2 * max(HEADS) + 1))  # every head count to 128; the paper has powers of two up to 64
LONGEST = 30_000  # steps. At (512, 16) the limit is 80,000: that search takes as long as all the others together
PROBLEMS = tuple(panel for panel in BASE if step_limit(items=panel.items, d_model=panel.d_model) <= LONGEST)
LEFT_OUT = tuple(panel for panel in BASE if panel not in PROBLEMS)
QUICK_ITEMS = 64


def problems(scale: Scale) -> list[Panel]:
    """The base grid without the problems that train too long; a quick reproduction has the smallest problems only."""
    most = min(scale.most_items, QUICK_ITEMS if scale.quick and scale.up_to is None else scale.most_items)
    return [panel for panel in PROBLEMS if panel.items <= most]


def runs(scale: Scale) -> list[Run]:
    """The runs of the paper's kind of grid, for comparison."""
    return [run for panel in problems(scale) for run in panel.runs(scale)]


def searches(scale: Scale) -> list[ThresholdSearch]:
    """A search for each problem."""
    return [panel_search(panel, scale, heads=EVERY) for panel in problems(scale)]


def trails(rows: Rows, scale: Scale) -> list[tuple[Panel, SearchTrail]]:
    """The searches that have ended and found a threshold."""
    made = [(panel, search.follow(rows)) for panel, search in zip(problems(scale), searches(scale), strict=True)]
    return [(panel, trail) for panel, trail in made if trail.threshold.key_budget is not None]


def draw(rows: Rows, scale: Scale) -> Figure:
    """The smallest key budget that works, against the head count: a panel for each problem."""
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


def _panel(axes: Axes, panel: Panel, trail: SearchTrail, rows: Rows, scale: Scale) -> None:
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
    # Show the lowest part of the curves; higher points of the grid are cut off.
    axes.set_ylim(0.8 * best.key_budget, 2 * best.key_budget)
    axes.set_title(f"{panel}\n$D_K^*$ = {best.key_budget} at h = {best.heads}")


def smallest_on_grid(panel: Panel, rows: Rows, scale: Scale) -> dict[int, int]:
    """By head count, the smallest key budget of the paper's kind of grid at which the mean F1 reaches 0.99."""
    works = [point for point in panel.points(rows, scale) if point.mean >= TARGET]
    return {
        heads: min(point.key_budget for point in works if point.heads == heads)
        for heads in sorted({point.heads for point in works})
    }


def caption(rows: Rows, scale: Scale) -> str:
    """Both thresholds of every problem, and the ratio of the two."""
    found = [(panel, trail.threshold, smallest_on_grid(panel, rows, scale)) for panel, trail in trails(rows, scale)]
    if not found:
        return "No search has ended."
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
        f"{gain}{absent} A head count is searched up to 10 % above D_K*: with a larger budget it cannot be the best. "
        f"Not searched: {without}, whose runs may take more than {LONGEST:,} steps."
    )


BEYOND_GRID = Exhibit("Every key width and every head count", runs, draw, caption, searches=searches, collection=BEYOND)
