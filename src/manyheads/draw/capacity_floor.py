"""The capacity floor: the smallest certified key budget beside the paper's thresholds and the degrees of freedom.

A row is a point of the summary: `family`, `items`, `d_model`, `degree`, `x` = m'·log2 m/d_model, `floor` with `lowest`
and `highest` over the seeds, `paper` (None where the paper names no value), `law` and `freedom`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.draw.style import BLUE, GREY, ORANGE, VERMILLION, counting_axis, look, panels

Row = Mapping[str, Any]
PERMUTATIONS, REGULAR = 1.19, 0.46  # the slopes of the paper's laws


def draw_floor(points: Sequence[Row]) -> Figure:
    """Permutations on the left, r-regular graphs on the right, both over m'·log2 m/d_model."""
    with look():
        figure, ((permutations, regular),) = panels(1, 2)
        _panel(permutations, [point for point in points if point["family"] in ("base", "diagonal")], slope=PERMUTATIONS)
        permutations.set(title=f"permutations, law {PERMUTATIONS:g}", ylabel="key budget $D_K$")
        _panel(regular, [point for point in points if point["family"] == "regular"], slope=REGULAR)
        regular.set(title=f"r-regular, m = 128, $d_{{model}}$ = 32, law {REGULAR:g}")
        figure.legend(*permutations.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _panel(axis: Axes, points: Sequence[Row], *, slope: float) -> None:
    if not points:
        axis.text(0.5, 0.5, "no rows yet", transform=axis.transAxes, ha="center")
        return
    points = sorted(points, key=lambda point: float(point["x"]))
    x = [point["x"] for point in points]
    axis.plot(
        x,
        [slope * value for value in x],
        color=GREY,
        linestyle="--",
        linewidth=1.2,
        label="paper's law",
    )
    published = [point for point in points if point["paper"] is not None]
    axis.scatter(
        [p["x"] for p in published],
        [p["paper"] for p in published],
        color=VERMILLION,
        marker="s",
        s=26,
        label="paper's $D_K^*$, inferred",
    )
    free = [point for point in points if point["freedom"]]
    axis.scatter(
        [p["x"] for p in free], [p["freedom"] for p in free], color=ORANGE, marker="^", s=26, label="degrees of freedom"
    )
    floor = [point["floor"] for point in points]
    below = [value - point["lowest"] for value, point in zip(floor, points, strict=True)]
    above = [point["highest"] - value for value, point in zip(floor, points, strict=True)]
    axis.errorbar(
        x, floor, yerr=(below, above), color=BLUE, fmt="o", capsize=2.5, label="certified floor, median and range"
    )
    axis.set(xscale="log", yscale="log", xlabel="$m' \\log_2 m \\,/\\, d_{model}$")
    counting_axis(axis.xaxis)
    counting_axis(axis.yaxis)
