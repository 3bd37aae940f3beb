"""Figure 12: D_K* of regular graphs against r·m·log2 m/d_model."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import Fit, fit_through_origin
from manyheads.drawing.style import BLUE, GREY, counting_axis, look, panels
from manyheads.papers.exhibits.fig3 import Found
from manyheads.papers.panel import REGULAR
from manyheads.papers.pictures import found_thresholds, legend, spread
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.problem.graph_kinds import RELATION_SLOPE
from manyheads.training import Run

TITLE = "Relations, not items: the capacity law over degrees"
FITTED = 16  # the paper's claim covers r ≤ 16


def runs(scale: Scale) -> list[Run]:
    """Degrees 1 to 32."""
    return [run for panel in REGULAR for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Points named by their degree, our line and the paper's."""
    found = found_thresholds(REGULAR, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(5.6, 4.0)
        if found:
            errors = list(zip(*(spread(one) for _, one in found), strict=True))
            x, y = [panel.law() for panel, _ in found], [one.key_budget or 0 for _, one in found]
            axes.errorbar(x, y, yerr=errors, fmt="o", color=BLUE, capsize=3, elinewidth=1)
            for panel, one in found:
                place = (panel.law(), one.key_budget or 0)
                below = place[1] < RELATION_SLOPE * place[0]  # where the lines run above the point
                axes.annotate(
                    f"r = {panel.degree}",
                    place,
                    xytext=(6, -12) if below else (-6, 6),
                    textcoords="offset points",
                    ha="left" if below else "right",
                    fontsize=8.5,
                )
        if len(found) > 1:
            ends = np.array(
                [min(panel.law() for panel, _ in found) * 0.8, max(panel.law() for panel, _ in found) * 1.25]
            )
            line = _fit(found)
            axes.plot(
                ends, line.slope * ends, color=BLUE, linewidth=1.4, label=f"fit, r ≤ {FITTED}: {line.slope:.2f} x"
            )
            axes.plot(
                ends,
                RELATION_SLOPE * ends,
                color=GREY,
                linestyle="--",
                linewidth=1.2,
                label=f"the paper: {RELATION_SLOPE} x",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        counting_axis(axes.xaxis)
        counting_axis(axes.yaxis)
        axes.set_xlabel("x = (r · m/$d_{model}$) · log$_2$ m")
        axes.set_ylabel("$D_K^*$")
        legend(axes, loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """D_K* over x, degree by degree."""
    found = found_thresholds(REGULAR, rows, scale)
    shares = ", ".join(f"{(one.key_budget or 0) / panel.law():.2f} at r = {panel.degree}" for panel, one in found)
    return (
        f"m = 128, d_model = 32, D_K*/x: {shares}. The paper has one constant, {RELATION_SLOPE}, for all of "
        f"r ≤ {FITTED}: the key budget follows the relations, whether many items have few or few have many."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 9."""
    nine = "r-regular, r ∈ {1, 2, 4, 8, 16}: D_K* ≈ 0.46·(r·m/d_model)·log2 m, one constant for all r"
    found = [(panel, one) for panel, one in found_thresholds(REGULAR, rows, scale) if panel.degree <= FITTED]
    if len(found) < 3:
        return [missing("9", nine, f"{len(found)} of 5 thresholds were measured")]
    shares = [(one.key_budget or 0) / panel.law() for panel, one in found]
    line = _fit(found)
    measured = (
        f"slope {line.slope:.3f}, R² {line.r_squared:.3f}; D_K*/x from {min(shares):.2f} to {max(shares):.2f} "
        f"over r = 1 … {FITTED}"
    )
    holds = abs(line.slope / RELATION_SLOPE - 1) <= 0.15 and line.r_squared >= 0.9
    why = "yardstick: slope within 15 %, R² ≥ 0.9; the paper's own value at r = 1 (Table 1) is 0.75 x"
    return [judged("9", nine, measured, holds, why)]


def _fit(found: Found) -> Fit:
    chosen = [(panel, one) for panel, one in found if panel.degree <= FITTED]
    return fit_through_origin(
        np.array([panel.law() for panel, _ in chosen]), np.array([float(one.key_budget or 0) for _, one in chosen])
    )
