"""Pictures of a capacity: the score against the key budget, a line for each head count, and the thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray

from manyheads.bounds import freedom_key_width, paper_key_budget
from manyheads.capacity import Capacity, Goal, Point, Threshold
from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.style import (
    BLACK,
    GREY,
    LINES,
    MARKERS,
    counting_axis,
    look,
    panels,
    shared_legend,
)
from manyheads.text import drawn_text

HEAD_COUNTS = (1, 2, 4, 8, 16, 32, 64)  # powers of two, as in the paper
HEAD_LOOKS = dict(zip(HEAD_COUNTS, zip(LINES, MARKERS, strict=True), strict=True))


def draw_capacity(capacity: Capacity) -> Figure:
    """The score against D_K with 95 % intervals, the goal, D_K* with its range, and the predictions of the laws."""
    task = capacity.task
    with look():
        figure, ((axes,),) = panels(1, 1, (8.4, 4.4))
        for position, heads in enumerate(sorted({point.heads for point in capacity.curve})):
            _curve(axes, capacity, heads, LINES[position % len(LINES)], MARKERS[position % len(MARKERS)])
        if any(0 < len(point.scores) < capacity.seeds for point in capacity.curve):
            axes.plot(
                [], [], color=GREY, marker="o", markerfacecolor="white", linestyle="", label="the first seeds only"
            )
        axes.axhline(capacity.goal.target, color=GREY, linestyle=":", linewidth=1.2, label=f"goal: {capacity.goal}")
        _laws(axes, capacity)
        _threshold(axes, capacity)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(left=0)
        axes.set_ylim(top=1.02)
        counted = "heads" if capacity.key_heads is None else "key heads"
        axes.set_xlabel(f"key budget $D_K$ = {counted} · key width")
        axes.set_ylabel("share of seeds that recover every pair" if capacity.goal.exact else "mean test micro-F1")
        title = f"{task.items} items, $d_{{model}}$ = {task.d_model}, {drawn_text(task.label)}, rule {capacity.rule}"
        title += "" if capacity.key_heads is None else f", key heads {drawn_text(str(capacity.key_heads))}"
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _curve(axes: Axes, capacity: Capacity, heads: int, colour: str, marker: str) -> None:
    points = [point for point in capacity.curve if point.heads == heads and point.scores]
    whole = [point for point in points if len(point.scores) == capacity.seeds]
    draw_curve(axes, whole, colour=colour, marker=marker, label=_heads(heads), interval=capacity.goal.interval)
    # A point that was given up after its first seeds has no interval, and its mean is over fewer seeds.
    for point in points:
        if point not in whole:
            axes.plot(point.key_budget, point.mean, color=colour, marker=marker, markerfacecolor="white", alpha=0.6)


def _threshold(axes: Axes, capacity: Capacity) -> None:
    found = capacity.threshold
    if found.key_budget is None:
        return
    low, high = found.low or found.key_budget, found.high or max(point.key_budget for point in capacity.curve)
    axes.axvspan(low, high, color=BLACK, alpha=0.08, linewidth=0, label=f"95 % range, {low} to {found.high or '?'}")
    label = f"$D_K^*$ = {found.key_budget} at {_heads(found.heads or 0)}"
    axes.axvline(found.key_budget, color=BLACK, linewidth=1.2, label=label)


def _laws(axes: Axes, capacity: Capacity) -> None:
    items, relations, d_model = capacity.task.items, capacity.task.relations, capacity.task.d_model
    sizes = {"items": items, "relations": relations, "d_model": d_model}
    predicted = []  # weights over d_model, and D_K, for each head count
    for heads, groups in {(point.heads, point.groups) for point in capacity.curve}:
        width = freedom_key_width(**sizes, heads=heads, key_heads=groups)
        predicted += [] if width is None else [((heads + groups) * width, groups * width)]
    freedom = None if not predicted else min(predicted)[1]
    # the paper's law is about heads with keys of their own
    paper = None if capacity.key_heads else float(paper_key_budget(**sizes, slope=capacity.task.slope))
    # The lines may coincide with D_K*, so their names are in the legend and not beside them.
    for name, budget, dashes in (("degrees-of-freedom law", freedom, "--"), ("the paper's law", paper, "-.")):
        if budget is not None:
            axes.axvline(budget, color=GREY, linestyle=dashes, linewidth=1.4, label=f"{name}: {budget:.0f}")


def draw_curves(
    problems: Sequence[tuple[str, Sequence[Point]]], *, columns: int, label: str, target: float | None = TARGET
) -> Figure:
    """One panel for each problem: the mean score against the key budget, a line for each head count, 95 % intervals.

    Args:
        problems: pairs of a title and the measured points.
        columns: panels in a row.
        label: of the vertical axis.
        target: the score that is wanted, drawn as a dotted line; None for a score that is no share.
    """
    with look():
        figure, grid = panels(max(1, -(-len(problems) // columns)), columns)
        for axes, (title, points) in zip(grid.flat, problems, strict=False):
            curve_panel(axes, points, target=target)
            axes.set_title(title)
        for axes in list(grid.flat)[len(problems) :]:
            axes.set_visible(False)
        label_curves(grid, label)
        shared_legend(figure, grid.flat, order=_legend_order)
    return figure


def label_curves(grid: ndarray, label: str) -> None:
    """Label the axes of a (rows, columns) array of panels, at its lower and left edge."""
    for axes in grid[-1]:
        axes.set_xlabel("key budget $D_K = h·d_k$")
    for axes in grid[:, 0]:
        axes.set_ylabel(label)


def curve_panel(axes: Axes, points: Sequence[Point], *, target: float | None = TARGET) -> None:
    """The curves of one problem, a line for each head count (a power of two up to 64)."""
    for heads in sorted({point.heads for point in points}):
        line = [point for point in points if point.heads == heads]
        colour, marker = HEAD_LOOKS[heads]
        interval = attrgetter("interval") if target is None else Goal().interval
        draw_curve(axes, line, colour=colour, marker=marker, label=_heads(heads), interval=interval)
    if target is not None:
        axes.axhline(target, color=GREY, linestyle=":", linewidth=1.2, label=f"F1 = {target:g}")
        axes.set_ylim(0, 1.03)
    axes.set_xscale("log")
    counting_axis(axes.xaxis)


def draw_curve(
    axes: Axes,
    points: Sequence[Point],
    *,
    colour: str,
    marker: str,
    label: str,
    interval: Callable[[Point], tuple[float, float]] = attrgetter("interval"),
) -> None:
    """A line through the means with their 95 % intervals, which are pale so that other curves stay visible.

    Args:
        axes: The panel.
        points: The points of one line.
        colour: The colour of the line.
        marker: The marker of the points.
        label: The name of the line in the legend.
        interval: Returns the interval of a point; the paper's t-interval if not given.
    """
    budgets, means = [point.key_budget for point in points], [point.mean for point in points]
    axes.plot(budgets, means, color=colour, marker=marker, label=label)
    several = [point for point in points if len(point.scores) > 1]  # a single seed has no interval
    below = [point.mean - interval(point)[0] for point in several]
    above = [max(0.0, interval(point)[1] - point.mean) for point in several]
    budgets, means = [point.key_budget for point in several], [point.mean for point in several]
    axes.errorbar(budgets, means, yerr=[below, above], fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.4, zorder=1)


def mark_points(
    axes: Axes, x: Sequence[float], y: Sequence[int], *, errors: Sequence[Sequence[int]], label: str
) -> None:
    """Stars with error bars on a finished panel, named in its legend."""
    if x:
        axes.errorbar(x, y, yerr=errors, fmt="*", color=BLACK, markersize=11, capsize=3, elinewidth=1, label=label)
        known: dict[str, Artist] = {}
        if (old := axes.get_legend()) is not None:  # its handles may be of other axes
            handles = [handle for handle in old.legend_handles if handle is not None]
            known = dict(zip((text.get_text() for text in old.get_texts()), handles, strict=True))
        known |= {str(name): handle for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
        with look():
            axes.legend(list(known.values()), list(known), loc="upper left")


def budget_errors(found: Sequence[Threshold]) -> list[tuple[int, ...]]:
    """Error bars of D_K*: the distances to the lower and to the upper end of its range; 0 if an end is unknown."""
    lows, highs = [], []
    for one in found:
        assert one.key_budget is not None
        lows.append(one.key_budget - min(one.low or one.key_budget, one.key_budget))
        highs.append(max(one.high or one.key_budget, one.key_budget) - one.key_budget)
    return [tuple(lows), tuple(highs)]


def head_errors(found: Sequence[Threshold]) -> list[tuple[int, ...]]:
    """Error bars of h*: the distances to the lower and to the upper end of its range."""
    lows, highs = [], []
    for one in found:
        assert one.heads is not None
        assert one.heads_low is not None
        assert one.heads_high is not None
        lows.append(one.heads - one.heads_low)
        highs.append(one.heads_high - one.heads)
    return [tuple(lows), tuple(highs)]


def _legend_order(name: str) -> float:
    """Head counts in their order, then all other lines."""
    first = name.split()[0]
    return float(first) if first.isdigit() else float("inf")


def _heads(count: int) -> str:
    return f"{count} head{'s' if count > 1 else ''}"
