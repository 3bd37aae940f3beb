"""Pictures of a plan: the capacity map, and the key budget against the number of heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads.draw.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION, look, panels


@dataclass(frozen=True, eq=False)
class CapacityMap:
    """For each key budget, the relations over d_model by the bound, the law and the guarantee."""

    items: int
    d_models: Float64[ndarray, " d"]
    key_budgets: tuple[int, ...]
    impossible: Float64[ndarray, "budgets d"]  # beyond: no layer of 16-bit weights
    likely: Float64[ndarray, "budgets d"]  # the degrees-of-freedom law at its best split
    guaranteed: Float64[ndarray, " budgets"]  # a head for each relation


@dataclass(frozen=True, eq=False)
class HeadCurve:
    """For one problem, the smallest key budget over the number of heads."""

    title: str
    heads: Float64[ndarray, " h"]
    law: Float64[ndarray, " h"]  # infinite where no width is enough
    predicted: float
    low: float
    high: float
    bit_bound: float
    paper_law: float
    recommended: tuple[int, int]  # heads, key budget


COLOURS = (BLUE, GREEN, ORANGE, VERMILLION, GREY)


def draw_capacity_map(rows: CapacityMap) -> Figure:
    """Relations against d_model: for each D_K a line (law) inside the band from guarantee to impossibility."""
    with look():
        figure, axes = panels(1, 1)
        figure.set_size_inches(6.6, 4.4)
        axis: Axes = axes[0, 0]
        for index, budget in enumerate(rows.key_budgets):
            colour = COLOURS[index % len(COLOURS)]
            axis.fill_between(
                rows.d_models, rows.guaranteed[index], rows.impossible[index], color=colour, alpha=0.10, linewidth=0
            )
            axis.plot(rows.d_models, rows.likely[index], color=colour)
            axis.plot(rows.d_models, rows.impossible[index], color=colour, linewidth=0.8, linestyle="--")
            axis.annotate(
                f"D_K {budget}",
                (rows.d_models[-1], rows.likely[index][-1]),
                xytext=(4, 0),
                textcoords="offset points",
                color=colour,
                va="center",
                fontsize=9,
            )
        axis.plot([], [], color=BLACK, label="likely: degrees-of-freedom law")
        axis.plot([], [], color=BLACK, linewidth=0.8, linestyle="--", label="impossible above: 16 bits a weight")
        axis.fill_between([], [], [], color=BLACK, alpha=0.10, label="band from guaranteed (m' = D_K) to impossible")
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="d_model",
            ylabel="relations m'",
            title=f"What one layer holds among {rows.items:,} items",
        )
        axis.set_xticks(rows.d_models[:: max(1, len(rows.d_models) // 6)])
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(lambda value, _: "")
        axis.legend(loc="upper left")
    return figure


def draw_head_curve(rows: HeadCurve) -> Figure:
    """D_K against heads for one problem, with what is impossible, predicted and recommended."""
    with look():
        figure, axes = panels(1, 1)
        figure.set_size_inches(6.6, 4.4)
        axis: Axes = axes[0, 0]
        top = 2.2 * max(rows.high, rows.recommended[1], rows.paper_law)
        axis.axhspan(0, rows.bit_bound, color=VERMILLION, alpha=0.15, linewidth=0)
        axis.axhspan(rows.low, rows.high, color=GREEN, alpha=0.15, linewidth=0, label="predicted D_K*, 9 of 10")
        axis.axhline(rows.predicted, color=GREEN)
        axis.axhline(rows.paper_law, color=GREY, linestyle=":", label="the paper's law")
        shown = np.where(rows.law <= top, rows.law, np.nan)
        axis.plot(rows.heads, shown, color=BLUE, marker="o", label="degrees-of-freedom law")
        axis.plot(*rows.recommended, color=BLACK, marker="*", markersize=13, linestyle="none", label="recommended")
        axis.annotate(
            f"impossible below {rows.bit_bound:.3g}, 16 bits a weight",
            (rows.heads[0], rows.bit_bound),
            xytext=(2, 3),
            textcoords="offset points",
            color=VERMILLION,
            fontsize=9,
        )
        axis.set(xscale="log", xlabel="heads", ylabel="key budget D_K", title=rows.title, ylim=(0, top))
        ticks: Sequence[float] = [count for count in (1, 2, 4, 8, 16, 32, 64, 128, 256) if count <= rows.heads[-1]]
        axis.set_xticks(ticks)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(lambda value, _: "")
        axis.legend(loc="upper right")
    return figure
