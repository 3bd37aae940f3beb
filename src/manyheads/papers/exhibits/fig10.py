"""Figure 10: h* against the compression m/d_model."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import Fit, fit_affine
from manyheads.drawing.style import BLUE, GREY, look, panels
from manyheads.papers.exhibits import fig3
from manyheads.papers.exhibits.fig3 import Found
from manyheads.papers.panel import THRESHOLDS
from manyheads.papers.pictures import found_thresholds, head_spread, legend
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "Head count against compression"
PAPER_SLOPE, PAPER_INTERCEPT, PAPER_R2 = 1.65, -6.64, 0.824
runs = fig3.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """Points with the ranges of h*, our line and the paper's."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        if found:
            errors = list(zip(*(head_spread(one) for _, one in found), strict=True))
            x, y = [panel.compression for panel, _ in found], [one.heads or 0 for _, one in found]
            axes.errorbar(x, y, yerr=errors, fmt="o", color=BLUE, capsize=3, elinewidth=1)
        if len(found) > 2:
            ends, line = np.array([1.0, 33.0]), _fit(found)
            axes.plot(
                ends,
                line.slope * ends + line.intercept,
                color=BLUE,
                label=f"{line.slope:.2f} x {_signed(line.intercept)}, R² = {line.r_squared:.3f}",
            )
            axes.plot(
                ends,
                PAPER_SLOPE * ends + PAPER_INTERCEPT,
                color=GREY,
                linestyle="--",
                label="the paper: 1.65 x − 6.64, R² = 0.824",
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel("compression m/$d_{model}$")
        axes.set_ylabel("$h^*$")
        legend(axes, loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The fit, with its intervals."""
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return "Too few thresholds for a fit."
    line = _fit(found)
    paper = f"{PAPER_SLOPE}·m/d_model {_signed(PAPER_INTERCEPT)}"
    return (
        f"h* ≈ {line.slope:.2f}·m/d_model {_signed(line.intercept)} over {len(found)} problems ({_slope(line)}). The "
        f"line is not tied to the origin, since h ≥ 1; the paper's is {paper}. Bars: the head counts no test tells "
        "from h*."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 5."""
    says = "h* ≈ 1.65·m/d_model − 6.64, R² = 0.824"
    found = found_thresholds(THRESHOLDS, rows, scale)
    if len(found) < 3:
        return [missing("5", says, f"{len(found)} of {len(THRESHOLDS)} thresholds were measured")]
    line = _fit(found)
    measured = f"{line.slope:.2f}·m/d_model {_signed(line.intercept)}, R² {line.r_squared:.3f} ({_slope(line)})"
    low, high = line.slope_interval
    holds = low <= PAPER_SLOPE <= high and line.r_squared >= 0.7
    return [judged("5", says, measured, holds, "yardstick: the paper's slope lies in our interval, R² ≥ 0.7")]


def _fit(found: Found) -> Fit:
    x = np.array([panel.compression for panel, _ in found])
    return fit_affine(x, np.array([float(one.heads or 0) for _, one in found]))


def _slope(line: Fit) -> str:
    return f"slope 95 %: {line.slope_interval[0]:.2f} to {line.slope_interval[1]:.2f}"


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'} {abs(value):.2f}"
