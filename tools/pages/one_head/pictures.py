"""The picture of the page: both sides of the transition against the law, and every decision around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.drawing.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    counting_axis,
    look,
    panels,
    power_axis,
)
from tools.pages.one_head.text import TITLES, law, transitions
from tools.pages.rows import Row, Tables, matching

DEGREES = {"permutation": 1, "regular:2": 2, "regular:4": 4}
COLOURS = {"permutation": BLUE, "regular:2": ORANGE, "regular:4": GREEN, "wordnet": PURPLE}
VERDICTS = {"excluded": (VERMILLION, "v"), "undecided": (GREY, "x"), "held": (BLUE, "^")}


def figures(tables: Tables) -> dict[str, Figure]:
    """The picture of the page."""
    return {"one-head": draw_transition(tables["one-head"])}


def draw_transition(rows: Sequence[Row]) -> Figure:
    """Left: the transition of each family against m. Right: every decision against d over the law."""
    with look():
        figure, ((left, right),) = panels(1, 2)
        _sides(left, rows)
        _decisions(right, rows)
        handles, labels = left.get_legend_handles_labels()
        further, names = right.get_legend_handles_labels()
        figure.legend([*handles, *further], [*labels, *names], loc="outside lower center", ncols=4)
    return figure


def _sides(axis: Axes, rows: Sequence[Row]) -> None:
    """A bar from the largest d excluded to the smallest d held, over the seeds, and the law."""
    sizes = sorted({row["items"] for row in rows})
    for family, colour in COLOURS.items():
        own = [one for one in transitions(rows) if one.family == family]
        if family in DEGREES:
            m = np.geomspace(sizes[0], sizes[-1], 50)
            laws = [law(int(items), int(items) * DEGREES[family]) for items in m]
            axis.plot(m, laws, color=colour, linestyle="--", linewidth=1.2)
        places = sorted({one.items for one in own})
        ends: list[list[Any]] = [[one for one in own if one.items == items] for items in places]
        low = [min(min(one.excluded, one.held) for one in seeds) for seeds in ends]
        high = [max(max(one.excluded, one.held) for one in seeds) for seeds in ends]
        centre = (np.array(low) + np.array(high)) / 2
        reach = (np.array(high) - np.array(low)) / 2
        axis.errorbar(places, centre, yerr=reach, color=colour, fmt="o", capsize=3, label=TITLES[family])
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="items $m$",
        ylabel="$d_{model}$",
        title="where one head ends; dashed: the law",
    )
    power_axis(axis.xaxis, sizes)
    counting_axis(axis.yaxis)


def _decisions(axis: Axes, rows: Sequence[Row]) -> None:
    """Every decision over Gaussian rows; a line of points for each size and family."""
    own = [row for row in rows if row["family"] in DEGREES]
    sizes = sorted({row["items"] for row in own})
    for verdict, (colour, marker) in VERDICTS.items():
        points = matching(own, verdict=verdict)
        x = [row["d_model"] / law(row["items"], row["relations"]) for row in points]
        y = [sizes.index(row["items"]) + 0.25 * (list(DEGREES).index(row["family"]) - 1) for row in points]
        axis.scatter(x, y, color=colour, marker=marker, s=14, linewidths=0.8, label=verdict)
    axis.axvline(1, color=GREY, linestyle="--", linewidth=1.2, label="law $d^2 = m^2 g^*(m'/m^2)$")
    axis.set(xlabel="$d_{model}$ / law", ylabel="items $m$", title="every decision, Gaussian rows")
    axis.set_yticks(range(len(sizes)), [str(size) for size in sizes])
