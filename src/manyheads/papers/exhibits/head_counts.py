"""Figures 2, 10 and 13: the best head count h* against m and d_model, against m/d_model, and against the degree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from manyheads.bounds.laws import HEADS_INTERCEPT, HEADS_SLOPE
from manyheads.capacity import Regression, StoredProblem, Threshold, affine_regression
from manyheads.drawing.capacity import head_errors, mark_points
from manyheads.drawing.style import BLUE, GREEN, GREY, VERMILLION, legend, look, panels, power_axis
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.panel import (
    BASE,
    HEADS,
    REGULAR,
    THRESHOLDS,
    PanelThresholds,
    found_thresholds,
    panel_runs,
    threshold_points,
)
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing

LINES = {16: (VERMILLION, "o"), 32: (BLUE, "s"), 64: (GREEN, "D")}  # by d_model
BESIDE = 0.35  # on the axis of m/d_model, between problems whose m/d_model is the same
PAPER_R2 = 0.824  # of Figure 10


# Figure 2


def draw_by_items(rows: Rows, scale: Scale) -> Figure:
    """h* against m, a line for each d_model; bars: the head counts that a paired test cannot tell from h*."""
    found = found_thresholds(BASE, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        for offset, (d_model, (colour, marker)) in enumerate(LINES.items()):
            line = [(panel, one) for panel, one in found if panel.d_model == d_model]
            if not line:
                continue
            axes.errorbar(
                [panel.items * (0.97 + 0.03 * offset) for panel, _ in line],
                [one.heads or 0 for _, one in line],
                yerr=head_errors([one for _, one in line]),
                color=colour,
                marker=marker,
                capsize=3,
                elinewidth=1,
                label=f"$d_{{model}}$ = {d_model}",
            )
        axes.set(xscale="log", yscale="log")
        power_axis(axes.xaxis, (64, 128, 256, 512))
        power_axis(axes.yaxis, HEADS)
        axes.set(xlabel="items m", ylabel="$h^*$")
        legend(axes, loc="upper left")
    return figure


def caption_by_items(rows: Rows, scale: Scale) -> str:
    """The largest h*, and the share of neighbouring problems in the paper's order."""
    found = found_thresholds(BASE, rows, scale)
    if not found:
        return "No threshold was found."
    most = max(found, key=lambda pair: pair[1].heads or 0)
    return (
        f"h* goes up to {most[1].heads} (m = {most[0].items}, d_model = {most[0].d_model}). Bars: head counts with a "
        "tested D_K within 10 % of D_K* whose F1 a paired t-test does not tell from that of h*. The paper's lines rise "
        f"to the right and as d_model shrinks; of the neighbours here, {_rising(found)} do not fall."
    )


def claims_by_items(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 8."""
    says = "h* grows with m and as d_model shrinks"
    found = found_thresholds(BASE, rows, scale)
    pairs = _neighbours(found)
    if not pairs:
        return [missing("8", says, "no two neighbouring thresholds")]
    within = sum((small.heads_low or 0) <= (large.heads_high or 0) for small, large in pairs)
    measured = f"h* does not fall in {_rising(found)} neighbouring pairs of the grid, within its ranges in {within}"
    why = "yardstick: no pair contradicts it beyond the ranges of h*"
    return [judged("8", says, measured, within == len(pairs), why)]


def _neighbours(found: PanelThresholds) -> list[tuple[Threshold, Threshold]]:
    """Pairs of thresholds: the second has twice the items of the first, or half its d_model."""
    at = {(panel.items, panel.d_model): one for panel, one in found}
    pairs = [(at[m, d], at[2 * m, d]) for m, d in at if (2 * m, d) in at]
    return pairs + [(at[m, 2 * d], at[m, d]) for m, d in at if (m, 2 * d) in at]


def _rising(found: PanelThresholds) -> str:
    pairs = _neighbours(found)
    return f"{sum((small.heads or 0) <= (large.heads or 0) for small, large in pairs)} of {len(pairs)}"


# Figure 10


def draw_by_compression(rows: Rows, scale: Scale) -> Figure:
    """h* with its ranges against m/d_model, our line and the paper's."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1, (7.6, 4.2))
        if found:
            errors = head_errors([one for _, one in found])
            x, y = _side_by_side([panel.compression for panel, _ in found]), [one.heads or 0 for _, one in found]
            axes.errorbar(x, y, yerr=errors, fmt="o", color=BLUE, capsize=3, elinewidth=1)
        if len(found) > 2:
            ends, line = np.array([1.0, 33.0]), _fit(found)
            label = f"{line.slope:.2f} x {_signed(line.intercept)}, R² = {line.r_squared:.3f}"
            axes.plot(ends, line.slope * ends + line.intercept, color=BLUE, label=label)
            label = f"the paper: {HEADS_SLOPE} x {_signed(HEADS_INTERCEPT)}, R² = {PAPER_R2}"
            axes.plot(ends, HEADS_SLOPE * ends + HEADS_INTERCEPT, color=GREY, linestyle="--", label=label)
        axes.set_ylim(bottom=0)
        axes.set(xlabel="compression m/$d_{model}$", ylabel="$h^*$")
        legend(axes, loc="upper left")
    return figure


def _side_by_side(values: Sequence[float]) -> list[float]:
    """The same values, those that are equal moved apart by BESIDE, so that no point hides another."""
    number, seen = Counter(values), Counter[float]()
    places = []
    for value in values:
        places.append(value + BESIDE * (seen[value] - (number[value] - 1) / 2))
        seen[value] += 1
    return places


def mark_compression(figure: Figure, problems: Sequence[StoredProblem], name: str) -> None:
    """Draw measured h* against m'/d_model into Figure 10."""
    shown = [(one.threshold, at) for one in problems if (at := one.measured) is not None]
    x, y = [at.relations / at.d_model for _, at in shown], [at.heads for _, at in shown]
    mark_points(figure.axes[0], x, y, errors=head_errors([one for one, _ in shown]), label=name)


def caption_by_compression(rows: Rows, scale: Scale) -> str:
    """The fit, with its interval."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return "Too few thresholds for a fit."
    line = _fit(found)
    paper = f"{HEADS_SLOPE}·m/d_model {_signed(HEADS_INTERCEPT)}"
    return (
        f"h* ≈ {line.slope:.2f}·m/d_model {_signed(line.intercept)} over {len(found)} problems ({_slope(line)}). The "
        f"line is not tied to the origin, since h ≥ 1; the paper's is {paper}. Bars: the head counts that no test "
        "tells from h*. Problems with the same m/d_model are drawn side by side."
    )


def claims_by_compression(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 5."""
    says = "h* ≈ 1.65·m/d_model − 6.64, R² = 0.824"
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return [missing("5", says, f"{len(found)} of {len(THRESHOLDS)} thresholds were measured")]
    line = _fit(found)
    measured = f"{line.slope:.2f}·m/d_model {_signed(line.intercept)}, R² {line.r_squared:.3f} ({_slope(line)})"
    low, high = line.slope_interval
    holds = low <= HEADS_SLOPE <= high and line.r_squared >= 0.7
    return [judged("5", says, measured, holds, "yardstick: the paper's slope lies in our interval, R² ≥ 0.7")]


def _fit(found: PanelThresholds) -> Regression:
    x = np.array([panel.compression for panel, _ in found])
    return affine_regression(x, np.array([float(one.heads or 0) for _, one in found]))


def _slope(line: Regression) -> str:
    return f"slope 95 %: {line.slope_interval[0]:.2f} to {line.slope_interval[1]:.2f}"


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'} {abs(value):.2f}"


# Figure 13


def draw_by_degree(rows: Rows, scale: Scale) -> Figure:
    """h* with its range, and r·m/d_model, against the degree r."""
    found = found_thresholds(REGULAR, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        if found:
            degrees, errors = [panel.degree for panel, _ in found], head_errors([one for _, one in found])
            heads = [one.heads or 0 for _, one in found]
            axes.errorbar(degrees, heads, yerr=errors, color=BLUE, marker="o", capsize=3, label="$h^*$")
            ratios = [panel.relations / panel.d_model for panel, _ in found]
            axes.plot(degrees, ratios, color=GREY, linestyle="--", label="r · m/$d_{model}$")
            axes.set(xscale="log", yscale="log")
            power_axis(axes.xaxis, degrees)
            power_axis(axes.yaxis, (*HEADS, 128))
        axes.set(xlabel="degree r", ylabel="heads")
        legend(axes, loc="upper left")
    return figure


def caption_by_degree(rows: Rows, scale: Scale) -> str:
    """h* of each degree."""
    found = found_thresholds(REGULAR, rows, scale)
    return (
        "h* = "
        + ", ".join(f"{one.heads} at r = {panel.degree}" for panel, one in found)
        + "; 64 heads are the most tried. In the paper h* is about linear in r and within a factor 2 of the dashes."
    )


def claims_by_degree(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 10."""
    says = "the best head count grows about linearly with r, within a factor 2 of r·m/d_model"
    found = found_thresholds(REGULAR, rows, scale)
    if len(found) < 3:
        return [missing("10", says, f"{len(found)} of {len(REGULAR)} thresholds were measured")]
    within = [0.5 <= (one.heads or 0) / (panel.relations / panel.d_model) <= 2 for panel, one in found]
    ranges = [
        (one.heads_low or 0) <= 2 * panel.relations / panel.d_model
        and (one.heads_high or 0) >= panel.relations / panel.d_model / 2
        for panel, one in found
    ]
    measured = (
        f"h* within a factor of 2 at {sum(within)} of {len(found)} degrees, its range touches it at {sum(ranges)}"
    )
    return [judged("10", says, measured, all(ranges), "yardstick: the range of h* meets the factor 2 at every degree")]


FIGURE_2 = Exhibit(
    "The head count that needs the smallest key budget",
    partial(panel_runs, BASE),
    draw_by_items,
    caption_by_items,
    claims_by_items,
    points=threshold_points(BASE),
)
FIGURE_10 = Exhibit(
    "Head count against compression",
    partial(panel_runs, THRESHOLDS),
    draw_by_compression,
    caption_by_compression,
    claims_by_compression,
    points=threshold_points(THRESHOLDS),
    mark=mark_compression,
)
FIGURE_13 = Exhibit(
    "Head count against density",
    partial(panel_runs, REGULAR),
    draw_by_degree,
    caption_by_degree,
    claims_by_degree,
    points=threshold_points(REGULAR),
)
