"""Figure 2: the head count h* that attains D_K*."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.capacity import Threshold
from manyheads.drawing.style import BLUE, GREEN, VERMILLION, look, panels
from manyheads.papers.exhibits import fig9
from manyheads.papers.exhibits.fig3 import Found
from manyheads.papers.panel import BASE, HEADS
from manyheads.papers.pictures import found_thresholds, head_spread, legend, power_axis
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "The head count that needs the smallest key budget"
LINES = {16: (VERMILLION, "o"), 32: (BLUE, "s"), 64: (GREEN, "D")}
runs = fig9.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """h* over the items, a line for each d_model; bars reach the head counts that no paired test tells from h*."""
    found = found_thresholds(BASE, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        for offset, (d_model, (colour, marker)) in enumerate(LINES.items()):
            line = [(panel, one) for panel, one in found if panel.d_model == d_model]
            if not line:
                continue
            errors = list(zip(*(head_spread(one) for _, one in line), strict=True))
            axes.errorbar(
                [panel.items * (0.97 + 0.03 * offset) for panel, _ in line],
                [one.heads or 0 for _, one in line],
                yerr=errors,
                color=colour,
                marker=marker,
                capsize=3,
                elinewidth=1,
                label=f"$d_{{model}}$ = {d_model}",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        power_axis(axes.xaxis, (64, 128, 256, 512))
        power_axis(axes.yaxis, HEADS)
        axes.set_xlabel("items m")
        axes.set_ylabel("$h^*$")
        legend(axes, loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The extremes."""
    found = found_thresholds(BASE, rows, scale)
    if not found:
        return "No threshold was found."
    most = max(found, key=lambda pair: pair[1].heads or 0)
    return (
        f"h* goes up to {most[1].heads} (m = {most[0].items}, d_model = {most[0].d_model}). Bars: head counts with a "
        "tested D_K within 10 % of D_K* whose F1 a paired t-test does not tell from that of h*. The paper's lines rise "
        f"to the right and as d_model shrinks; of the neighbours here, {_rising(found)} do not fall."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 8."""
    says = "h* grows with m and as d_model shrinks"
    found = found_thresholds(BASE, rows, scale)
    pairs = _neighbours(found)
    if not pairs:
        return [missing("8", says, "no two neighbouring thresholds")]
    within = sum((small.heads_low or 0) <= (large.heads_high or 0) for small, large in pairs)
    measured = f"h* does not fall in {_rising(found)} neighbouring pairs of the grid, within its ranges in {within}"
    return [
        judged("8", says, measured, within == len(pairs), "yardstick: no pair contradicts it beyond the ranges of h*")
    ]


def _neighbours(found: Found) -> list[tuple[Threshold, Threshold]]:
    """Thresholds of which the second has twice the items of the first, or half its d_model."""
    at = {(panel.items, panel.d_model): one for panel, one in found}
    pairs = [(at[m, d], at[2 * m, d]) for m, d in at if (2 * m, d) in at]
    return pairs + [(at[m, 2 * d], at[m, d]) for m, d in at if (m, 2 * d) in at]


def _rising(found: Found) -> str:
    pairs = _neighbours(found)
    return f"{sum((small.heads or 0) <= (large.heads or 0) for small, large in pairs)} of {len(pairs)}"
