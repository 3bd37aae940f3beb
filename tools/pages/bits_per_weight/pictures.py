"""Bits per weight against log2 of the number of graphs: certified and trained layers, one head, and other papers."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from manyheads.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, look, panels
from tools.pages.bits_per_weight.text import ONE_HEAD, PERMUTATIONS, REAL, REGULAR, SHARED, points
from tools.pages.rows import Row, Tables, matching

MARKS = (
    (PERMUTATIONS, "certified_bits", BLUE, "o", "permutations, certified"),
    (PERMUTATIONS, "trained_bits", BLUE, "x", "permutations, trained"),
    (REGULAR, "certified_bits", GREEN, "D", "regular graphs, certified"),
    (REGULAR, "trained_bits", GREEN, "+", "regular graphs, trained"),
    (SHARED, "certified_bits", PURPLE, "s", "shared keys, certified"),
    (ONE_HEAD, "certified_bits", ORANGE, "^", "one head at its transition"),
    (REAL, "certified_bits", BLACK, "*", "real relations, certified"),
)


def figures(tables: Tables) -> dict[str, Figure]:
    """The picture of the page."""
    return {"bits-per-weight": draw_bits(points(tables), tables["bits-per-weight-neighbours"])}


def draw_bits(found: Sequence[Row], neighbours: Sequence[Row]) -> Figure:
    """A mark for each layer, a line for each figure of another paper, and the most that is possible."""
    with look():
        figure, ((axis,),) = panels(1, 1, (7.6, 5.2))
        for group, name, colour, marker, label in MARKS:
            there = [point for point in matching(found, group=group) if point[name]]
            x, y = [point["log2_graphs"] for point in there], [point[name] for point in there]
            axis.scatter(x, y, color=colour, marker=marker, s=42, label=label if there else None, zorder=3)
        axis.scatter(
            [point["log2_graphs"] for point in found],
            [point["most_bits"] for point in found],
            color=VERMILLION,
            marker="_",
            s=60,
            label="no layer holds more, proved",
        )
        for bits in sorted({float(row["bits"]) for row in neighbours}):
            works = " · ".join(row["work"].split(",")[0] for row in neighbours if row["bits"] == bits)
            axis.axhline(bits, color=GREY, linestyle="--", linewidth=1)
            axis.annotate(
                works, (0.0, bits), xycoords=("axes fraction", "data"), xytext=(3, 3), textcoords="offset points",
                va="bottom", fontsize=8, color=GREY,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="log2 of the number of graphs", ylabel="bits per weight")
        axis.set_yticks([0.2, 0.5, 1, 2, 5, 10, 20])
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")
        figure.legend(loc="outside lower center", ncols=3)
    return figure
