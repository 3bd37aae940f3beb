"""Figure 3: D_K* against m·log m/d_model, the paper's capacity law."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import Fit, Threshold, fit_through_origin
from manyheads.drawing.style import BLUE, GREY, ORANGE, VERMILLION, counting_axis, look, panels
from manyheads.papers.panel import THRESHOLDS, Panel
from manyheads.papers.pictures import found_thresholds, legend, spread
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE
from manyheads.training import Run

TITLE = "The capacity law"
PAPER_R2 = 0.944
PAPER_SLOPE_WIDE, PAPER_R2_WIDE = 0.966, 0.992
TOLERANCE = 0.15

Found = list[tuple[Panel, Threshold]]


def runs(scale: Scale) -> list[Run]:
    """The base grid, the diagonal and (1024, 32)."""
    return [run for panel in THRESHOLDS for run in panel.runs(scale)]


def is_narrow(panel: Panel) -> bool:
    """The three points that the paper leaves out of its second fit, with d_model small against log m."""
    return panel.d_model == 16 and panel.items > 64


def fit(found: Found, log: str = "log2") -> Fit:
    """The line through the origin."""
    x = np.array([panel.law(log) for panel, _ in found])
    return fit_through_origin(x, np.array([float(one.key_budget or 0) for _, one in found]))


def draw(rows: Rows, scale: Scale) -> Figure:
    """Both axes logarithmic, so that small problems are seen; a line through the origin keeps its slope of 1."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(6.2, 4.4)
        for name, chosen, colour, marker in (
            ("$d_{model}$ = 16, m > 64", [pair for pair in found if is_narrow(pair[0])], VERMILLION, "D"),
            ("all others", [pair for pair in found if not is_narrow(pair[0])], BLUE, "o"),
        ):
            if not chosen:
                continue
            errors = list(zip(*(spread(one) for _, one in chosen), strict=True))
            x, y = [panel.law() for panel, _ in chosen], [one.key_budget or 0 for _, one in chosen]
            axes.errorbar(x, y, yerr=errors, fmt=marker, color=colour, capsize=3, elinewidth=1, label=name)
        if len(found) > 1:
            ends = np.array(
                [min(panel.law() for panel, _ in found) * 0.8, max(panel.law() for panel, _ in found) * 1.25]
            )
            line = fit(found)
            axes.plot(
                ends,
                line.slope * ends,
                color=BLUE,
                linewidth=1.4,
                label=f"fit: {line.slope:.2f} x, R² = {line.r_squared:.3f}",
            )
            axes.plot(
                ends,
                PERMUTATION_SLOPE * ends,
                color=GREY,
                linestyle="--",
                linewidth=1.2,
                label=f"the paper: {PERMUTATION_SLOPE} x, R² = {PAPER_R2}",
            )
            wide = [pair for pair in found if not is_narrow(pair[0])]
            if 1 < len(wide) < len(found):
                axes.plot(
                    ends,
                    fit(wide).slope * ends,
                    color=ORANGE,
                    linewidth=1.2,
                    label=f"without the diamonds: {fit(wide).slope:.2f} x",
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        counting_axis(axes.xaxis)
        counting_axis(axes.yaxis)
        axes.set_xlabel("x = m · log$_2$ m / $d_{model}$")
        axes.set_ylabel("$D_K^*$")
        legend(axes, loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """Both logarithms, both kinds of R²."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return "Too few thresholds for a fit."
    two, natural = fit(found), fit(found, "ln")
    low, high = two.slope_interval
    return (
        f"{len(found)} problems. D_K* ≈ {two.slope:.3f}·m·log2 m/d_model (95 %: {low:.3f} to {high:.3f}; "
        f"R² {two.r_squared:.3f}, uncentred {two.r_squared_uncentred:.3f}), or {natural.slope:.3f} with the natural "
        f"logarithm. The paper has {PERMUTATION_SLOPE} with R² {PAPER_R2}, on a grid that it does not state. Bars: "
        "optimistic and conservative D_K*."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 3 and 4."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    wide = [pair for pair in found if not is_narrow(pair[0])]
    return [
        _verdict("3", "D_K* ≈ 1.19·m·log m/d_model, R² = 0.944", found, len(THRESHOLDS), PERMUTATION_SLOPE, PAPER_R2),
        _verdict(
            "4",
            "without the three points d_model = 16, m > 64: slope 0.966, R² = 0.992",
            wide,
            sum(not is_narrow(panel) for panel in THRESHOLDS),
            PAPER_SLOPE_WIDE,
            PAPER_R2_WIDE,
        ),
    ]


def _verdict(claim: str, says: str, found: Found, wanted: int, slope: float, r_squared: float) -> Verdict:
    if len(found) < 3:
        return missing(claim, says, f"{len(found)} of {wanted} thresholds were measured")
    line, natural = fit(found), fit(found, "ln")
    measured = (
        f"slope {line.slope:.3f} (95 %: {line.slope_interval[0]:.3f} to {line.slope_interval[1]:.3f}), "
        f"R² {line.r_squared:.3f} (uncentred {line.r_squared_uncentred:.3f}) over {len(found)} of {wanted} problems; "
        f"natural log: slope {natural.slope:.3f}"
    )
    holds = abs(line.slope / slope - 1) <= TOLERANCE and line.r_squared >= r_squared - 0.05
    why = f"yardstick: slope within {TOLERANCE:.0%}, R² no more than 0.05 lower"
    return judged(claim, says, measured, holds, why)
