"""Figure 6: the value channel (Sec. 7.2): squared error of the retrieved message over the key budget."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.capacity import Point
from manyheads.drawing.style import GREY, counting_axis
from manyheads.papers.panel import Panel, complete, shares
from manyheads.papers.pictures import curves
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

TITLE = "The value channel: squared error over the key budget"
WINDOW = shares(0.5, 6.0, 12)
TIGHT, ROOMY = (Panel(64, d_model, objective="values", window=WINDOW, paper_seeds=3) for d_model in (16, 32))


def runs(scale: Scale) -> list[Run]:
    """Both problems."""
    return [run for panel in (TIGHT, ROOMY) for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """d_model = 16 and 32 side by side; the dotted line is the error of answering zero."""
    chosen = complete((TIGHT, ROOMY), rows, scale)
    figure = curves(chosen, rows, scale, columns=2, score="mse", target=None)
    for axes, panel in zip(figure.axes, chosen, strict=False):
        zero = [value for _, value in rows.scores(panel.runs(scale), "zero_mse")]
        axes.axhline(sum(zero) / len(zero), color=GREY, linestyle=":", linewidth=1)
        axes.set_yscale("log")
        counting_axis(axes.yaxis)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The lowest error of each head count."""
    parts = []
    for panel in complete((TIGHT, ROOMY), rows, scale):
        lows = _lowest(panel.points(rows, scale, "mse"))
        parts.append(
            f"d_model = {panel.d_model}: " + ", ".join(f"h = {h} {low:.3g}" for h, low in sorted(lows.items()))
        )
    return (
        "Lowest mean squared error of each head count. "
        + "; ".join(parts)
        + ". d_msg = d_model; dotted: answering zero. The paper sees one head stay at a high error at d_model = 16 and "
        "keep up at d_model = 32, and gives no numbers."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 13 and 14."""
    tight = "value channel, m = 64, d_model = 16: h = 1 plateaus at a high MSE, h ≥ 4 drives it down sharply"
    roomy = (
        "value channel, m = 64, d_model = 32: h = 1 competitive, h = 16 worse at low D_K, h = 4, 8 lowest in the end"
    )
    return [_tight(rows, scale, tight), _roomy(rows, scale, roomy)]


def _tight(rows: Rows, scale: Scale, says: str) -> Verdict:
    if not TIGHT.complete(rows, scale):
        return missing("13", says, "not run")
    lows = _lowest(TIGHT.points(rows, scale, "mse"))
    several = min(low for heads, low in lows.items() if heads >= 4)
    measured = f"lowest MSE: h = 1 {lows[1]:.3g}, best of h ≥ 4 {several:.3g}, a factor of {lows[1] / several:.1f}"
    return judged("13", says, measured, lows[1] >= 3 * several, "yardstick: a factor of 3 between the lowest errors")


def _roomy(rows: Rows, scale: Scale, says: str) -> Verdict:
    if not ROOMY.complete(rows, scale):
        return missing("14", says, "not run")
    points = ROOMY.points(rows, scale, "mse")
    lows = _lowest(points)
    low_budget = min(point.key_budget for point in points if point.heads == 16)
    start = {heads: _near(points, heads, low_budget) for heads in (1, 4, 16) if heads in lows}
    last = min(lows, key=lambda heads: lows[heads])
    measured = (
        f"at D_K ≈ {low_budget}: "
        + ", ".join(f"h = {h} {mse:.3g}" for h, mse in start.items())
        + "; lowest in the end: "
        f"h = {last} ({lows[last]:.3g}), h = 1 {lows[1]:.3g}"
    )
    holds = lows[1] <= 3 * lows[last] and start[16] > start[1] and last in (4, 8)
    return judged(
        "14",
        says,
        measured,
        holds,
        "yardstick: h = 1 within a factor of 3 of the lowest; h = 16 worse than h = 1 at its first D_K",
    )


def _near(points: list[Point], heads: int, budget: int) -> float:
    line = [point for point in points if point.heads == heads]
    return min(line, key=lambda point: abs(point.key_budget - budget)).mean


def _lowest(points: list[Point]) -> dict[int, float]:
    return {heads: min(p.mean for p in points if p.heads == heads) for heads in {point.heads for point in points}}
