"""Figure 4: D_K* and h* along the diagonal m/d_model = 8."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import fit_through_origin
from manyheads.drawing.style import BLUE, GREY, SKY, look, panels
from manyheads.papers.panel import DIAGONAL
from manyheads.papers.pictures import found_thresholds, head_spread, spread
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

TITLE = "The diagonal m/d_model = 8"
FROM = 512  # "roughly this behaviour from m ≥ 512 onward"


def runs(scale: Scale) -> list[Run]:
    """The six problems of the diagonal."""
    return [run for panel in DIAGONAL for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """D_K* as a line on the left axis, h* as bars on the right."""
    found = found_thresholds(DIAGONAL, rows, scale)
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(6.4, 4.0)
        places = np.arange(len(found))
        bars = axes.twinx()
        if found:
            bars.bar(
                places, [one.heads or 0 for _, one in found], width=0.5, color=SKY, alpha=0.45, label="$h^*$ (right)"
            )
            head_errors = list(zip(*(head_spread(one) for _, one in found), strict=True))
            bars.errorbar(
                places,
                [one.heads or 0 for _, one in found],
                yerr=head_errors,
                fmt="none",
                ecolor=GREY,
                capsize=3,
                elinewidth=1,
            )
            errors = list(zip(*(spread(one) for _, one in found), strict=True))
            budgets = [one.key_budget or 0 for _, one in found]
            axes.errorbar(places, budgets, yerr=errors, color=BLUE, marker="o", capsize=3, label="$D_K^*$ (left)")
            late = [
                (place, panel, one) for place, (panel, one) in zip(places, found, strict=True) if panel.items >= FROM
            ]
            if len(late) > 1:
                slope = _slope([(panel.items, one.key_budget or 0) for _, panel, one in late])
                y = [slope * math.log2(panel.items) for _, panel, _ in late]
                axes.plot(
                    [place for place, _, _ in late], y, color=GREY, linestyle="--", label=f"{slope:.2f} · log$_2$ m"
                )
        axes.set_zorder(bars.get_zorder() + 1)
        axes.patch.set_visible(False)
        bars.grid(visible=False)
        bars.spines["right"].set_visible(True)
        axes.set_ylim(bottom=0)
        bars.set_ylim(0, max([one.heads_high or 1 for _, one in found], default=1) * 2)
        axes.set_xticks(places, [f"{panel.items}\n{panel.d_model}" for panel, _ in found])
        axes.set_xlabel("items m over $d_{model}$")
        axes.set_ylabel("$D_K^*$")
        bars.set_ylabel("$h^*$")
        handles = [*axes.get_legend_handles_labels()[0], *bars.get_legend_handles_labels()[0]]
        axes.legend(handles, [handle.get_label() for handle in handles], loc="upper left")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The numbers in a row."""
    found = found_thresholds(DIAGONAL, rows, scale)
    shown = "; ".join(f"m = {panel.items}: D_K* = {one.key_budget}, h* = {one.heads}" for panel, one in found)
    return (
        f"{shown or 'No threshold was found'}. With m/d_model fixed the law leaves log m alone: the paper sees D_K* "
        f"follow it from m = {FROM} on, and h* near 8; the dashed line is that law through our points from there on."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 7."""
    says = "along m/d_model = 8, D_K* grows like log m from m = 512 on, h* stays about proportional to 8"
    found = [(panel, one) for panel, one in found_thresholds(DIAGONAL, rows, scale) if panel.items >= FROM]
    if len(found) < 3:
        return [missing("7", says, f"{len(found)} of 4 problems with m ≥ 512 were measured")]
    slope = _slope([(panel.items, one.key_budget or 0) for panel, one in found])
    off = max(abs((one.key_budget or 0) / (slope * math.log2(panel.items)) - 1) for panel, one in found)
    heads = [one.heads or 0 for _, one in found]
    sizes = ", ".join(str(panel.items) for panel, _ in found)
    measured = f"D_K* ≈ {slope:.2f}·log2 m to within {off:.0%} at m = {sizes}; h* = {', '.join(map(str, heads))}"
    holds = off <= 0.15 and max(heads) <= 2 * min(heads)
    return [
        judged(
            "7", says, measured, holds, "yardstick: the line through the origin to within 15 %, h* within a factor of 2"
        )
    ]


def _slope(pairs: list[tuple[int, int]]) -> float:
    items, budgets = zip(*pairs, strict=True)
    return fit_through_origin(np.log2(np.array(items, dtype=float)), np.array(budgets, dtype=float)).slope
