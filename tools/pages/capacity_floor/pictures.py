"""The capacity floor: the smallest certified key budget beside the paper's thresholds and the degrees of freedom.

A row is a point of `text.summarise`: `family`, `items`, `d_model`, `degree`, `x` = m'·log2 m/d_model, `floor` with
`lowest` and `highest` over the seeds, `paper` (the paper's D_K*, or None), `measured` (our own D_K*, or None), `law`
and `freedom`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.drawing.style import BLUE, GREEN, GREY, ORANGE, VERMILLION, counting_axis, look, panels
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE
from tools.pages.capacity_floor.text import summarise
from tools.pages.rows import Tables

Row = Mapping[str, Any]
BESIDE = (
    ("paper", VERMILLION, "s", "paper's $D_K^*$, inferred"),
    ("measured", GREEN, "D", "our $D_K^*$, the same protocol"),
    ("freedom", ORANGE, "^", "degrees of freedom"),
)


def figures(tables: Tables) -> dict[str, Figure]:
    """The picture of the page."""
    return {"capacity-floor": draw_floor(summarise(tables["capacity_floor"]))}


def draw_floor(points: Sequence[Row]) -> Figure:
    """Permutations on the left, r-regular graphs on the right, both over m'·log2 m/d_model."""
    with look():
        figure, ((permutations, regular),) = panels(1, 2)
        _panel(
            permutations,
            [point for point in points if point["family"] in ("base", "diagonal")],
            slope=PERMUTATION_SLOPE,
        )
        permutations.set(title=f"permutations, law {PERMUTATION_SLOPE:g}", ylabel="key budget $D_K$")
        _panel(regular, [point for point in points if point["family"] == "regular"], slope=RELATION_SLOPE)
        regular.set(title=f"r-regular, m = 128, $d_{{model}}$ = 32, law {RELATION_SLOPE:g}")
        figure.legend(*permutations.get_legend_handles_labels(), loc="outside lower center", ncols=3)
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
    for name, colour, marker, label in BESIDE:
        there = [point for point in points if point[name]]
        x_there, y_there = [point["x"] for point in there], [point[name] for point in there]
        axis.scatter(x_there, y_there, color=colour, marker=marker, s=26, label=label if there else None)
    floor = [point["floor"] for point in points]
    below = [value - point["lowest"] for value, point in zip(floor, points, strict=True)]
    above = [point["highest"] - value for value, point in zip(floor, points, strict=True)]
    axis.errorbar(
        x, floor, yerr=(below, above), color=BLUE, fmt="o", capsize=2.5, label="certified floor, median and range"
    )
    axis.set(xscale="log", yscale="log", xlabel="$m' \\log_2 m \\,/\\, d_{model}$")
    counting_axis(axis.xaxis)
    counting_axis(axis.yaxis)
