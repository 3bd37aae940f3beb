"""Claim 22: the thresholds of regular graphs between the construction's key budget and the lower bound (App. A.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.figure import Figure

from manyheads.bounds import graph_bit_key_budget
from manyheads.bounds.upper import bounded_skew_key_budget, rank_one_key_budget
from manyheads.capacity import Threshold
from manyheads.drawing.style import BLUE, GREEN, GREY, VERMILLION, counting_axis, look, panels
from manyheads.papers.exhibits import fig12
from manyheads.papers.panel import REGULAR, Panel
from manyheads.papers.pictures import found_thresholds, power_axis, spread
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "Regular graphs between the construction and the lower bound"
SLIGHTLY = 0.5  # "slightly below" is taken to mean between this share of the construction's budget and all of it
JUDGED = 16  # the degree that App. A.3 speaks of
BITS = 32.0
runs = fig12.runs


@dataclass(frozen=True)
class Bounds:
    """Both sides of D_K for a regular graph, and the upper bound that leaves no constant open."""

    construction: float  # Corollary B.10 with C = 1: ⌈m'/d⌉·⌈ln m⌉
    lower: float  # Sec. 9's bit budget over all graphs with so many relations, with the bits that weights here have
    proved: float  # a head of width 1 for each relation: certain to work, whatever the embedding

    @property
    def gap(self) -> float:
        """How many times the lower bound the construction asks for."""
        return self.construction / self.lower


def bounds_of(panel: Panel) -> Bounds:
    """The bounds at a panel's problem."""
    return Bounds(
        float(
            bounded_skew_key_budget(items=panel.items, relations=panel.relations, d_model=panel.d_model, constant=1.0)
        ),
        float(graph_bit_key_budget(items=panel.items, relations=panel.relations, d_model=panel.d_model, bits=BITS)),
        float(rank_one_key_budget(panel.relations)),
    )


def draw(rows: Rows, scale: Scale) -> Figure:
    """D_K over the degree on the left, all over the lower bound on the right."""
    found = found_thresholds(REGULAR, rows, scale)
    degrees, bounds = [panel.degree for panel in REGULAR], [bounds_of(panel) for panel in REGULAR]
    with look():
        figure, ((budgets, gaps),) = panels(1, 2)
        for axes, unit in ((budgets, [1.0] * len(bounds)), (gaps, [one.lower for one in bounds])):
            by_degree = dict(zip(degrees, unit, strict=True))
            lines = (
                ("a head for each relation", [one.proved for one in bounds], GREY, ":"),
                ("construction, C = 1", [one.construction for one in bounds], VERMILLION, "-"),
                (f"lower bound, {BITS:g} bits a weight", [one.lower for one in bounds], GREEN, "-"),
            )
            for name, values, colour, style in lines:
                shares = [value / one for value, one in zip(values, unit, strict=True)]
                axes.plot(degrees, shares, color=colour, linestyle=style, label=name)
            if found:
                x = [panel.degree for panel, _ in found]
                y = [(one.key_budget or 0) / by_degree[panel.degree] for panel, one in found]
                spreads = [[end / by_degree[panel.degree] for end in spread(one)] for panel, one in found]
                errors = list(zip(*spreads, strict=True))
                axes.errorbar(
                    x, y, yerr=errors, color=BLUE, marker="o", capsize=3, elinewidth=1, label="measured $D_K^*$"
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            power_axis(axes.xaxis, degrees)
            counting_axis(axes.yaxis)
            axes.set_xlabel("degree r")
        budgets.set_ylabel("key budget $D_K$")
        gaps.set_ylabel("$D_K$ by the lower bound")
        budgets.set_title("m = 128, $d_{model}$ = 32")
        gaps.set_title("in units of the lower bound")
        handles, names = budgets.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """Both shares, degree by degree."""
    found = found_thresholds(REGULAR, rows, scale)
    shares = ", ".join(f"{_share(panel, one):.2f} at r = {panel.degree}" for panel, one in found)
    first, last = bounds_of(REGULAR[0]), bounds_of(REGULAR[-1])
    return (
        "Construction: ⌈m'/d_model⌉·⌈C·ln m⌉ with the constant, which the paper leaves open, at 1; lower bound: the "
        f"bit budget with {BITS:g} bits a weight. Measured D_K* over the construction's: {shares or 'not measured'}. "
        f"The construction asks for {first.gap:.0f} times the lower bound at r = 1 and {last.gap:.0f} times at r = "
        f"{REGULAR[-1].degree}; with no open constant, only a head of width 1 for each relation is certain to work."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 22, in its two halves."""
    below = "r = 16: thresholds lie slightly below the construction's budget"
    grows = "the gap between upper and lower bound grows with r"
    gaps = [bounds_of(panel).gap for panel in REGULAR]
    shown = ", ".join(f"{gap:.0f} at r = {panel.degree}" for panel, gap in zip(REGULAR, gaps, strict=True))
    rises = all(before < after for before, after in pairwise(gaps))
    found = [(panel, one) for panel, one in found_thresholds(REGULAR, rows, scale) if panel.degree == JUDGED]
    if not found:
        return [missing("22a", below, "no threshold at r = 16 was measured"), missing("22b", grows, "not run")]
    ((panel, one),) = found
    budget, share = bounds_of(panel).construction, _share(panel, one)
    measured = f"D_K* = {one.key_budget} against {budget:.0f}, a share of {share:.2f}"
    why = (
        f"yardstick: between {SLIGHTLY:g} and 1 of ⌈m'/d_model⌉·⌈C·ln m⌉ with C = 1, which no proof allows: "
        "at (128, 32) no C is large enough for blocks of d_model"
    )
    return [
        judged("22a", below, measured, SLIGHTLY <= share < 1, why),
        judged(
            "22b", grows, f"construction by lower bound: {shown}", rises, f"arithmetic: C = 1, {BITS:g} bits a weight"
        ),
    ]


def _share(panel: Panel, one: Threshold) -> float:
    return (one.key_budget or math.nan) / bounds_of(panel).construction
