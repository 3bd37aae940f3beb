"""What the paper's figures have in common: curves over the key budget, thresholds with their ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from manyheads.capacity import Point, Threshold
from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.curves import curve
from manyheads.drawing.style import GREY, counting_axis, look, panels
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale

MARKERS = dict(zip(HEADS, "osD^vPX", strict=True))
# head counts have an order, so their colours have one
COLOURS = {heads: to_hex(mpl.colormaps["viridis"](place / len(HEADS))) for place, heads in enumerate(HEADS)}


def curves(
    chosen: Sequence[Panel],
    rows: Rows,
    scale: Scale,
    *,
    columns: int,
    score: str = "micro_f1",
    target: float | None = TARGET,
) -> Figure:
    """One panel for each problem: the mean score over the key budget, a line for each head count, 95 % intervals."""
    with look():
        figure, grid = panels(max(1, -(-len(chosen) // columns)), columns)
        for axes, panel in zip(grid.flat, chosen, strict=False):
            curve_panel(axes, panel.points(rows, scale, score), target=target)
            axes.set_title(str(panel))
        for axes in list(grid.flat)[len(chosen) :]:
            axes.set_visible(False)
        for axes in grid[-1]:
            axes.set_xlabel("key budget $D_K = h·d_k$")
        for axes in grid[:, 0]:
            axes.set_ylabel("mean test micro-F1" if score == "micro_f1" else "mean test squared error")
        handles = {
            label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        order = sorted(handles, key=lambda label: int(label.split()[0]))
        figure.legend([handles[label] for label in order], order, loc="outside right center")
    return figure


def curve_panel(axes: Axes, points: Sequence[Point], *, target: float | None = TARGET) -> None:
    """The curves of one problem."""
    for heads in sorted({point.heads for point in points}):
        line = [point for point in points if point.heads == heads]
        label = f"{heads} head{'s' if heads > 1 else ''}"
        curve(axes, line, colour=COLOURS[heads], marker=MARKERS[heads], label=label, shares=target is not None)
    if target is not None:
        axes.axhline(target, color=GREY, linestyle=":", linewidth=1)
        axes.set_ylim(0, 1.03)
    axes.set_xscale("log")
    counting_axis(axes.xaxis)


def power_axis(axis: Axis, values: Sequence[int]) -> None:
    """A logarithmic axis with ticks at these values only."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def spread(found: Threshold) -> tuple[int, int]:
    """How far D_K*'s range reaches below and above it; an end that was not found has no bar."""
    assert found.key_budget is not None
    low = found.key_budget if found.low is None else min(found.low, found.key_budget)
    high = found.key_budget if found.high is None else max(found.high, found.key_budget)
    return found.key_budget - low, high - found.key_budget


def head_spread(found: Threshold) -> tuple[int, int]:
    """How far h*'s range reaches below and above it."""
    assert found.heads is not None
    assert found.heads_low is not None
    assert found.heads_high is not None
    return found.heads - found.heads_low, found.heads_high - found.heads


def found_thresholds(
    chosen: Sequence[Panel], rows: Rows, scale: Scale, *, keep: Callable[[Panel], bool] = lambda _: True
) -> list[tuple[Panel, Threshold]]:
    """The panels that were run to the end and have a threshold in their window."""
    complete = [panel for panel in chosen if keep(panel) and panel.complete(rows, scale)]
    found = [(panel, panel.threshold(rows, scale)) for panel in complete]
    return [(panel, one) for panel, one in found if one.key_budget is not None]


def legend(axes: Axes, *, loc: Literal["upper left", "lower left", "beside"]) -> None:
    """The legend of what was drawn, if anything was."""
    if not axes.get_legend_handles_labels()[1]:
        return
    if loc == "beside":
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        axes.legend(loc=loc)


def mark_quick(figure: Figure, scale: Scale) -> None:
    """What was made in a hurry says so."""
    if scale.quick:
        figure.text(0.5, 0.5, "quick", fontsize=70, color=GREY, alpha=0.12, ha="center", va="center", rotation=25)
