"""Figure 13: h* of regular graphs against their degree."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.drawing.style import BLUE, GREY, look, panels
from manyheads.papers.exhibits import fig12
from manyheads.papers.panel import HEADS, REGULAR
from manyheads.papers.pictures import found_thresholds, head_spread, legend, power_axis
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "Head count against density"
runs = fig12.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """h* with its range beside r·m/d_model."""
    found = found_thresholds(REGULAR, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        if found:
            errors = list(zip(*(head_spread(one) for _, one in found), strict=True))
            degrees = [panel.degree for panel, _ in found]
            axes.errorbar(
                degrees,
                [one.heads or 0 for _, one in found],
                yerr=errors,
                color=BLUE,
                marker="o",
                capsize=3,
                label="$h^*$",
            )
            axes.plot(
                degrees,
                [panel.relations / panel.d_model for panel, _ in found],
                color=GREY,
                linestyle="--",
                label="r · m/$d_{model}$",
            )
            axes.set_xscale("log")
            axes.set_yscale("log")
            power_axis(axes.xaxis, degrees)
            power_axis(axes.yaxis, (*HEADS, 128))
        axes.set_xlabel("degree r")
        axes.set_ylabel("heads")
        legend(axes, loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """h* degree by degree."""
    found = found_thresholds(REGULAR, rows, scale)
    return (
        "h* = "
        + ", ".join(f"{one.heads} at r = {panel.degree}" for panel, one in found)
        + "; 64 heads are the most tried. In the paper h* is about linear in r and within a factor 2 of the dashes."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
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
