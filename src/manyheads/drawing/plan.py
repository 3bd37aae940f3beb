"""Pictures of a plan: the capacity map, and the key budget against the number of heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    counting_axis,
    look,
    panels,
    power_axis,
)
from manyheads.tables import counted
from manyheads.text import drawn_text


@dataclass(frozen=True, eq=False)
class CapacityMap:
    """For each key budget, the number of relations against d_model: by the bounds, by the law, and guaranteed."""

    items: int
    d_models: Float64[ndarray, " d"]
    key_budgets: tuple[int, ...]
    impossible: Float64[ndarray, "budgets d"]  # no layer of 16-bit weights holds more
    unconditional: Float64[ndarray, "budgets d"]  # no layer holds more, whatever its weights
    likely: Float64[ndarray, "budgets d"]  # the degrees-of-freedom law at its best split
    guaranteed: Float64[ndarray, " budgets"]  # a head for each relation

    def picture(self) -> Figure:
        """A panel for each key budget."""
        return draw_capacity_map(self)


@dataclass(frozen=True, eq=False)
class HeadCurve:
    """For one problem, the smallest key budget against the number of heads."""

    title: str
    heads: Float64[ndarray, " h"]
    law: Float64[ndarray, " h"]  # infinite if no width is enough
    advised: Float64[ndarray, " h"]  # recommended D_K for this number of heads; infinite if no width is enough
    predicted: float
    low: float
    high: float
    bit_bound: float
    paper_law: float
    recommended: tuple[int, int]  # heads, key budget


@dataclass(frozen=True, eq=False)
class SplitCurve:
    """For one architecture, the relations that a layer holds against the number of heads, at the same query budget."""

    title: str
    heads: Float64[ndarray, " h"]
    held: Float64[ndarray, " h"]  # each head with its own keys
    model: tuple[int, int]  # heads and relations of the model itself
    key_heads: int  # of the model


def draw_capacity_map(rows: CapacityMap) -> Figure:
    """The relations that a layer holds against d_model, a panel for each of four key budgets.

    Four areas: guaranteed, within the law, above the law, impossible with 16 bits; and the line above which nothing is
    possible with any real weights.
    """
    with look():
        figure, axes = panels(2, 2, (7.6, 6.2))
        pairs = rows.items * (rows.items - 1)
        bottom, top = 0.5 * rows.guaranteed.min(), min(2 * rows.impossible.max(), pairs)
        for index, (axis, budget) in enumerate(zip(axes.flat, rows.key_budgets, strict=True)):
            x, sure = rows.d_models, np.full(len(rows.d_models), rows.guaranteed[index])
            likely, limit = np.maximum(rows.likely[index], sure), rows.impossible[index]
            axis.fill_between(x, bottom, sure, color=GREEN, alpha=0.55, linewidth=0, label="guaranteed, m' = D_K")
            axis.fill_between(x, sure, likely, color=GREEN, alpha=0.22, linewidth=0, label="likely, by the law")
            axis.fill_between(x, likely, limit, color=ORANGE, alpha=0.25, linewidth=0, label="above the law")
            axis.fill_between(x, limit, top, color=VERMILLION, alpha=0.45, linewidth=0, label="impossible, 16 bits")
            axis.plot(x, likely, color=GREEN)
            proved = np.where(rows.unconditional[index] < pairs, rows.unconditional[index], np.nan)
            axis.plot(x, proved, color=BLACK, linestyle="--", label="impossible above, any real weights")
            axis.set(xscale="log", yscale="log", ylim=(bottom, top), xlim=(x[0], x[-1]), title=f"D_K = {budget}")
            # a tick for every second power of two: more of them collide in wide maps
            power_axis(axis.xaxis, [4**power for power in range(2, 12) if x[0] <= 4**power <= x[-1]])
        for axis in axes[:, 0]:
            axis.set_ylabel("relations m'")
        for axis in axes[1]:
            axis.set_xlabel("d_model")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3)
        figure.suptitle(f"What one layer holds among {rows.items:,} items", x=0.01, ha="left", fontsize=11)
    return figure


def draw_head_curve(rows: HeadCurve) -> Figure:
    """D_K against the number of heads for one problem: impossible, predicted and recommended budgets."""
    with look():
        figure, axes = panels(1, 1, (8.4, 4.2))
        axis: Axes = axes[0, 0]
        highest = min(rows.advised[np.isfinite(rows.advised)].max(), 2.0 * rows.recommended[1])
        top = 1.1 * max(rows.high, highest, rows.paper_law)
        axis.axhspan(0, rows.bit_bound, color=VERMILLION, alpha=0.15, linewidth=0)
        axis.axhspan(rows.low, rows.high, color=GREEN, alpha=0.15, linewidth=0, label="predicted D_K*, 9 of 10")
        axis.axhline(rows.predicted, color=GREEN)
        axis.axhline(rows.paper_law, color=GREY, linestyle=":", label="the paper's law")
        for budgets, colour, marker, name in (
            (rows.advised, BLACK, ".", "advised for each number of heads"),
            (rows.law, BLUE, "o", "degrees-of-freedom law"),
        ):
            shown = np.where(np.isfinite(budgets), budgets, np.nan)
            axis.plot(rows.heads, shown, color=colour, marker=marker, label=name)
        axis.plot(*rows.recommended, color=BLACK, marker="*", markersize=13, linestyle="none", label="recommended")
        axis.annotate(
            f"impossible below {rows.bit_bound:.3g}, 16 bits a weight",
            (rows.heads[0], rows.bit_bound),
            xytext=(2, 3),
            textcoords="offset points",
            color=VERMILLION,
            fontsize=9,
        )
        axis.set(xscale="log", xlabel="heads", ylabel="key budget D_K", title=drawn_text(rows.title), ylim=(0, top))
        ticks: Sequence[float] = [count for count in (1, 2, 4, 8, 16, 32, 64, 128, 256) if count <= rows.heads[-1]]
        axis.set_xticks(ticks)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_formatter(lambda value, _: "")
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_splits(rows: SplitCurve) -> Figure:
    """The relations that one layer holds by the law against its number of heads; the model and the best split."""
    with look():
        figure, axes = panels(1, 1, (6.6, 4.2))
        axis: Axes = axes[0, 0]
        axis.plot(rows.heads, rows.held, color=BLUE, marker="o", label="likely, own keys for each head")
        best = int(rows.held.argmax())
        label = f"best split: {counted(int(rows.heads[best]), 'head')}"
        axis.plot(rows.heads[best], rows.held[best], color=GREEN, marker="D", markersize=9, linestyle="", label=label)
        label = f"the model: {counted(rows.model[0], 'head')}, {rows.key_heads} for keys"
        axis.plot(*rows.model, color=BLACK, marker="*", markersize=13, linestyle="none", label=label)
        axis.set(xscale="log", xlabel="heads, at the same query budget", ylabel="relations m'")
        axis.set_title(drawn_text(rows.title))
        axis.set_ylim(bottom=0)  # room for the legend
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        counting_axis(axis.xaxis)
        axis.legend(loc="lower left")
    return figure
