"""Figures 3 and 4 and Table 2: D_K* against m·log m/d_model, the diagonal m/d_model = 8, and the step limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manyheads.capacity import Regression, StoredProblem, regression_through_origin
from manyheads.drawing.capacity import budget_errors, head_errors, mark_points
from manyheads.drawing.style import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, counting_axis, legend, look, panels
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.panel import (
    DIAGONAL,
    THRESHOLDS,
    Panel,
    PanelThresholds,
    found_thresholds,
    panel_runs,
    threshold_points,
)
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE
from manyheads.tables import markdown_table
from manyheads.training import step_limit

PAPER_R2 = 0.944
PAPER_SLOPE_WIDE, PAPER_R2_WIDE = 0.966, 0.992
TOLERANCE = 0.15  # relative, of the slope
FROM = 512  # "roughly this behaviour from m ≥ 512 onward"


# Figure 3


def is_narrow(panel: Panel) -> bool:
    """Whether the paper leaves this point out of its second fit: three points with d_model small against log m."""
    return panel.d_model == 16 and panel.items > 64


def fit_law(found: PanelThresholds, log: str = "log2") -> Regression:
    """The line through the origin: D_K* against m·log m/d_model, with log2 or ln."""
    x = np.array([panel.law(log) for panel, _ in found])
    return regression_through_origin(x, np.array([float(one.key_budget or 0) for _, one in found]))


def draw_law(rows: Rows, scale: Scale) -> Figure:
    """Both axes are logarithmic to show small problems; a line through the origin has slope 1 there."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    wide = [pair for pair in found if not is_narrow(pair[0])]
    with look():
        figure, ((axes,),) = panels(1, 1, (6.2, 4.4))
        for name, chosen, colour, marker in (
            ("$d_{model}$ = 16, m > 64", [pair for pair in found if is_narrow(pair[0])], VERMILLION, "D"),
            ("all others", wide, BLUE, "o"),
        ):
            if not chosen:
                continue
            errors = budget_errors([one for _, one in chosen])
            x, y = [panel.law() for panel, _ in chosen], [one.key_budget or 0 for _, one in chosen]
            axes.errorbar(x, y, yerr=errors, fmt=marker, color=colour, capsize=3, elinewidth=1, label=name)
        if len(found) > 1:
            laws = [panel.law() for panel, _ in found]
            ends, line = np.array([min(laws) * 0.8, max(laws) * 1.25]), fit_law(found)
            label = f"fit: {line.slope:.2f} x, R² = {line.r_squared:.3f}"
            axes.plot(ends, line.slope * ends, color=BLUE, linewidth=1.4, label=label)
            label = f"the paper: {PERMUTATION_SLOPE} x, R² = {PAPER_R2}"
            axes.plot(ends, PERMUTATION_SLOPE * ends, color=GREY, linestyle="--", linewidth=1.2, label=label)
            if 1 < len(wide) < len(found):
                slope = fit_law(wide).slope
                label = f"without the diamonds: {slope:.2f} x"
                axes.plot(ends, slope * ends, color=ORANGE, linewidth=1.2, label=label)
        axes.set(xscale="log", yscale="log")
        counting_axis(axes.xaxis)
        counting_axis(axes.yaxis)
        axes.set(xlabel="x = m · log$_2$ m / $d_{model}$", ylabel="$D_K^*$")
        legend(axes, loc="upper left")
    return figure


def mark_law(figure: Figure, problems: Sequence[StoredProblem], name: str) -> None:
    """Draw measured D_K* against m'·log2 m/d_model into Figure 3."""
    shown = [(one.threshold, at) for one in problems if (at := one.measured) is not None]
    x = [at.relations * math.log2(at.items) / at.d_model for _, at in shown]
    errors = budget_errors([one for one, _ in shown])
    mark_points(figure.axes[0], x, [at.key_budget for _, at in shown], errors=errors, label=name)


def caption_law(rows: Rows, scale: Scale) -> str:
    """The slope for both logarithms, and both kinds of R²."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return "Too few thresholds for a fit."
    two, natural = fit_law(found), fit_law(found, "ln")
    low, high = two.slope_interval
    return (
        f"{len(found)} problems. D_K* ≈ {two.slope:.3f}·m·log2 m/d_model (95 %: {low:.3f} to {high:.3f}; "
        f"R² {two.r_squared:.3f}, uncentred {two.r_squared_uncentred:.3f}), or {natural.slope:.3f} with the natural "
        f"logarithm. The paper has {PERMUTATION_SLOPE} with R² {PAPER_R2}, on a grid that it does not state. Bars: "
        "optimistic and conservative D_K*."
    )


def claims_law(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 3 and 4."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    wide = [pair for pair in found if not is_narrow(pair[0])]
    says = "without the three points d_model = 16, m > 64: slope 0.966, R² = 0.992"
    wanted = sum(not is_narrow(panel) for panel in THRESHOLDS)
    return [
        _law_verdict(
            "3", "D_K* ≈ 1.19·m·log m/d_model, R² = 0.944", found, len(THRESHOLDS), PERMUTATION_SLOPE, PAPER_R2
        ),
        _law_verdict("4", says, wide, wanted, PAPER_SLOPE_WIDE, PAPER_R2_WIDE),
    ]


def _law_verdict(claim: str, says: str, found: PanelThresholds, wanted: int, slope: float, r_squared: float) -> Verdict:
    if len(found) < 3:
        return missing(claim, says, f"{len(found)} of {wanted} thresholds were measured")
    line, natural = fit_law(found), fit_law(found, "ln")
    measured = (
        f"slope {line.slope:.3f} (95 %: {line.slope_interval[0]:.3f} to {line.slope_interval[1]:.3f}), "
        f"R² {line.r_squared:.3f} (uncentred {line.r_squared_uncentred:.3f}) over {len(found)} of {wanted} problems; "
        f"natural log: slope {natural.slope:.3f}"
    )
    holds = abs(line.slope / slope - 1) <= TOLERANCE and line.r_squared >= r_squared - 0.05
    why = f"yardstick: slope within {TOLERANCE:.0%}, R² no more than 0.05 lower"
    return judged(claim, says, measured, holds, why)


# Figure 4


def draw_diagonal(rows: Rows, scale: Scale) -> Figure:
    """D_K* as a line on the left axis, h* as bars on the right."""
    found = found_thresholds(DIAGONAL, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1, (6.4, 4.0))
        places, thresholds = np.arange(len(found)), [one for _, one in found]
        bars = axes.twinx()
        if found:
            heads, errors = [one.heads or 0 for one in thresholds], head_errors(thresholds)
            bars.bar(places, heads, width=0.5, color=SKY, edgecolor=BLUE, linewidth=0.8, label="$h^*$ (right)")
            bars.errorbar(places, heads, yerr=errors, fmt="none", ecolor=BLACK, capsize=4, elinewidth=1.2)
            budgets, errors = [one.key_budget or 0 for one in thresholds], budget_errors(thresholds)
            axes.errorbar(places, budgets, yerr=errors, color=VERMILLION, marker="o", capsize=4, label="$D_K^*$ (left)")
            late = [place for place, (panel, _) in enumerate(found) if panel.items >= FROM]
            if len(late) > 1:
                slope = _log_slope([found[place] for place in late])
                y = [slope * math.log2(found[place][0].items) for place in late]
                label = f"law c · log$_2$ m, c = {slope:.2f} fitted from m = {FROM} on (left)"
                axes.plot(late, y, color=BLACK, linestyle="--", label=label)
        axes.set_zorder(bars.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.grid(visible=False)  # it would lie above the bars
        bars.grid(visible=False)
        bars.yaxis.set_major_locator(MaxNLocator(integer=True))
        bars.spines["right"].set_visible(True)
        highest = max([one.high or one.key_budget or 1 for one in thresholds], default=1)
        axes.set_ylim(0, 1.35 * highest)  # room for the legend
        bars.set_ylim(0, max([one.heads_high or 1 for one in thresholds], default=1) * 2.6)
        axes.set_xticks(places, [f"{panel.items}\n{panel.d_model}" for panel, _ in found])
        axes.set(xlabel="items m over $d_{model}$", ylabel="$D_K^*$")
        bars.set_ylabel("$h^*$")
        handles = [*axes.get_legend_handles_labels()[0], *bars.get_legend_handles_labels()[0]]
        axes.legend(handles, [handle.get_label() for handle in handles], loc="upper left")
    return figure


def mark_diagonal(figure: Figure, problems: Sequence[StoredProblem], name: str) -> None:
    """Draw measured D_K* of problems with m'/d_model = 8 into Figure 4, between its places."""
    measured = [(one.threshold, at) for one in problems if (at := one.measured) is not None]
    shown = [(one, at) for one, at in measured if at.relations == at.items == 8 * at.d_model]
    axes = figure.axes[0]
    if not shown or not len(axes.get_xticks()):
        return
    first = int(axes.get_xticklabels()[0].get_text().split()[0])  # items at place 0; they double from place to place
    x, errors = [math.log2(at.items / first) for _, at in shown], budget_errors([one for one, _ in shown])
    mark_points(axes, x, [at.key_budget for _, at in shown], errors=errors, label=name)


def caption_diagonal(rows: Rows, scale: Scale) -> str:
    """D_K* and h* of each problem."""
    found = found_thresholds(DIAGONAL, rows, scale)
    shown = "; ".join(f"m = {panel.items}: D_K* = {one.key_budget}, h* = {one.heads}" for panel, one in found)
    return (
        f"{shown or 'No threshold was found'}. With m/d_model fixed the law is proportional to log m: the paper sees "
        f"D_K* follow it from m = {FROM} on, and h* near 8. The dashed line is the fit of that law to our points from "
        f"m = {FROM} on."
    )


def claims_diagonal(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 7."""
    says = "along m/d_model = 8, D_K* grows like log m from m = 512 on, h* stays about proportional to 8"
    found = [(panel, one) for panel, one in found_thresholds(DIAGONAL, rows, scale) if panel.items >= FROM]
    if len(found) < 3:
        return [missing("7", says, f"{len(found)} of 4 problems with m ≥ 512 were measured")]
    slope = _log_slope(found)
    off = max(abs((one.key_budget or 0) / (slope * math.log2(panel.items)) - 1) for panel, one in found)
    heads = [one.heads or 0 for _, one in found]
    sizes = ", ".join(str(panel.items) for panel, _ in found)
    measured = f"D_K* ≈ {slope:.2f}·log2 m to within {off:.0%} at m = {sizes}; h* = {', '.join(map(str, heads))}"
    holds = off <= 0.15 and max(heads) <= 2 * min(heads)
    why = "yardstick: the line through the origin to within 15 %, h* within a factor of 2"
    return [judged("7", says, measured, holds, why)]


def _log_slope(found: PanelThresholds) -> float:
    """The slope of D_K* against log2 m."""
    x = np.log2(np.array([panel.items for panel, _ in found], dtype=float))
    return regression_through_origin(x, np.array([one.key_budget or 0 for _, one in found], dtype=float)).slope


# Table 2


def table_steps(rows: Rows, scale: Scale) -> list[str]:
    """The table of step limits: the paper's, the one used here, and the mean number of steps of the runs."""
    lines = []
    for panel in THRESHOLDS:
        made = rows.of(panel.runs(scale))
        if not made:
            continue
        limit = step_limit(items=panel.items, d_model=panel.d_model)
        early = sum(row.status == "converged" for row in made) / len(made)
        mean = sum(row.steps for row in made) / len(made)
        sizes = f"({panel.items}, {panel.d_model})"
        lines.append((sizes, f"{limit:,}", f"{scale.limit(limit):,}", f"{mean:,.0f}", f"{early:.0%}"))
    headings = ("(m, d_model)", "the paper's limit", "limit here", "mean steps", "stopped early")
    return [markdown_table(headings, lines)]


def caption_steps(rows: Rows, scale: Scale) -> str:
    """The number of runs and steps, and the share of runs that stopped early."""
    made = rows.of(panel_runs(THRESHOLDS, scale))
    if not made:
        return "Nothing was run."
    early = sum(row.status == "converged" for row in made) / len(made)
    million = sum(row.steps for row in made) / 1e6
    return (
        f"{len(made):,} runs made {million:,.0f} million steps; {early:.0%} stopped early, above 0.995. The limits are "
        f"the paper's own{', cut to the sketch' if scale.quick else ''}; the paper does not say how many steps its "
        "runs made. (1024, 32) is absent from the paper's table: 80,000 was taken."
    )


FIGURE_3 = Exhibit(
    "The capacity law",
    partial(panel_runs, THRESHOLDS),
    draw_law,
    caption_law,
    claims_law,
    points=threshold_points(THRESHOLDS),
    mark=mark_law,
)
FIGURE_4 = Exhibit(
    "The diagonal m/d_model = 8",
    partial(panel_runs, DIAGONAL),
    draw_diagonal,
    caption_diagonal,
    claims_diagonal,
    points=threshold_points(DIAGONAL),
    mark=mark_diagonal,
)
TABLE_2 = Exhibit(
    "Step limits, and the steps that were made",
    partial(panel_runs, THRESHOLDS),
    draw=None,
    caption=caption_steps,
    tables=table_steps,
)
