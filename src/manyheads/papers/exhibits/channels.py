"""Figures 5 and 6: softmax over the context in place of max (Sec. 7.1), and the value channel (Sec. 7.2)."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.capacity import Point
from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.capacity import draw_curves
from manyheads.drawing.style import GREY, counting_axis, look, shared_legend
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.panel import SOFTMAX, Panel, base, complete, panel_runs, shares
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

ROOMY_SIZE = (64, 32)  # where the paper sees no advantage of several heads
ADVANTAGE = 1.1  # several heads have an advantage if one head needs this multiple of the smallest budget, or fails
VALUE_WINDOW = shares(0.5, 6.0, 12)
TIGHT, ROOMY = (Panel(64, d_model, objective="values", window=VALUE_WINDOW, paper_seeds=3) for d_model in (16, 32))


# Figure 5


def softmax_runs(scale: Scale) -> list[Run]:
    """Six problems under softmax, and the same problems under max."""
    return panel_runs((*SOFTMAX, *map(_under_max, SOFTMAX)), scale)


def draw_softmax(rows: Rows, scale: Scale) -> Figure:
    """F1 against the key budget: two rows of three panels."""
    problems = [(str(panel), panel.points(rows, scale)) for panel in complete(SOFTMAX, rows, scale)]
    return draw_curves(problems, columns=3, label="mean test micro-F1")


def caption_softmax(rows: Rows, scale: Scale) -> str:
    """The thresholds under both rules."""
    parts = []
    for panel in complete(SOFTMAX, rows, scale):
        soft, hard = panel.threshold(rows, scale).key_budget, _under_max(panel).threshold(rows, scale).key_budget
        parts.append(f"({panel.items}, {panel.d_model}): {_or_none(soft)} against {_or_none(hard)} under max")
    return (
        f"D_K* with {len(SOFTMAX[0].seeds(scale))} seeds: {'; '.join(parts)}. In the paper the curves lie further to "
        f"the right than under max, and several heads do better than one everywhere but at {ROOMY_SIZE}."
    )


def claims_softmax(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 12a and 12b."""
    advantage = "softmax: multi-head advantage wherever m ≫ d_model, not at (64, 32)"
    right = "softmax: the 0.99 threshold lies further right than under max"
    panels = complete(SOFTMAX, rows, scale)
    if len(panels) < len(SOFTMAX):
        why = f"{len(panels)} of {len(SOFTMAX)} panels were run"
        return [missing("12a", advantage, why), missing("12b", right, why)]
    found = {panel: _advantage(panel, rows, scale) for panel in panels}
    measured = "; ".join(f"({p.items}, {p.d_model}): {_shown(found[p])}" for p in panels)
    holds = all(_is_advantage(found[p]) is ((p.items, p.d_model) != ROOMY_SIZE) for p in panels)
    shifts = [
        (panel, soft, hard)
        for panel in panels
        if (soft := panel.threshold(rows, scale).key_budget)
        and (hard := _under_max(panel).threshold(rows, scale).key_budget)
    ]
    shown = "; ".join(f"({p.items}, {p.d_model}): {soft} against {hard}" for p, soft, hard in shifts)
    further = bool(shifts) and all(soft > hard for _, soft, hard in shifts)
    why = f"D_K of one head at 0.99 over the smallest; an advantage is {ADVANTAGE:g} or more"
    return [
        judged("12a", advantage, measured, holds, why),
        judged("12b", right, shown or "no threshold in the window", further),
    ]


def _under_max(panel: Panel) -> Panel:
    return base(panel.items, panel.d_model)


def _advantage(panel: Panel, rows: Rows, scale: Scale) -> float | None:
    """D_K of one head over that of the best head count, at F1 = 0.99; infinite if one head never gets there."""
    passing = [point for point in panel.points(rows, scale) if point.mean >= TARGET]
    if not passing:
        return None
    single = [point.key_budget for point in passing if point.heads == 1]
    return min(single, default=float("inf")) / min(point.key_budget for point in passing)


def _is_advantage(ratio: float | None) -> bool:
    return ratio is not None and ratio >= ADVANTAGE


def _shown(ratio: float | None) -> str:
    if ratio is None:
        return "no head count gets there"
    return "one head never gets there" if ratio == float("inf") else f"{ratio:.2f}"


def _or_none(budget: int | None) -> str:
    return "none in the window" if budget is None else str(budget)


# Figure 6


def value_runs(scale: Scale) -> list[Run]:
    """Both problems of the value channel."""
    return panel_runs((TIGHT, ROOMY), scale)


def draw_values(rows: Rows, scale: Scale) -> Figure:
    """The squared error of the retrieved message at d_model = 16 and 32; dotted: the error of answering zero."""
    chosen = complete((TIGHT, ROOMY), rows, scale)
    problems = [(str(panel), panel.points(rows, scale, "mse")) for panel in chosen]
    figure = draw_curves(problems, columns=2, label="mean test squared error", target=None)
    for axes, panel in zip(figure.axes, chosen, strict=False):
        zero = [value for _, value in rows.scores(panel.runs(scale), "zero_mse")]
        axes.axhline(sum(zero) / len(zero), color=GREY, linestyle=":", linewidth=1.2, label="answering zero")
        axes.set_yscale("log")
        counting_axis(axes.yaxis)
    if chosen:
        figure.legends[0].remove()  # that of the curves, without the dotted line
        with look():
            shared_legend(figure, figure.axes)
    return figure


def caption_values(rows: Rows, scale: Scale) -> str:
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


def claims_values(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 13 and 14."""
    return [_tight(rows, scale), _roomy(rows, scale)]


def _tight(rows: Rows, scale: Scale) -> Verdict:
    says = "value channel, m = 64, d_model = 16: h = 1 plateaus at a high MSE, h ≥ 4 drives it down sharply"
    if not TIGHT.complete(rows, scale):
        return missing("13", says, "not run")
    lows = _lowest(TIGHT.points(rows, scale, "mse"))
    several = min(low for heads, low in lows.items() if heads >= 4)
    measured = f"lowest MSE: h = 1 {lows[1]:.3g}, best of h ≥ 4 {several:.3g}, a factor of {lows[1] / several:.1f}"
    return judged("13", says, measured, lows[1] >= 3 * several, "yardstick: a factor of 3 between the lowest errors")


def _roomy(rows: Rows, scale: Scale) -> Verdict:
    says = "value channel, m = 64, d_model = 32: h = 1 competitive, h = 16 worse at low D_K, h = 4, 8 lowest in the end"
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
        + f"; lowest in the end: h = {last} ({lows[last]:.3g}), h = 1 {lows[1]:.3g}"
    )
    holds = lows[1] <= 3 * lows[last] and start[16] > start[1] and last in (4, 8)
    why = "yardstick: h = 1 within a factor of 3 of the lowest; h = 16 worse than h = 1 at its first D_K"
    return judged("14", says, measured, holds, why)


def _near(points: list[Point], heads: int, budget: int) -> float:
    """The mean error of a head count at its key budget nearest to this one."""
    line = [point for point in points if point.heads == heads]
    return min(line, key=lambda point: abs(point.key_budget - budget)).mean


def _lowest(points: list[Point]) -> dict[int, float]:
    return {heads: min(p.mean for p in points if p.heads == heads) for heads in {point.heads for point in points}}


FIGURE_5 = Exhibit(
    "Softmax over the context: F1 over the key budget", softmax_runs, draw_softmax, caption_softmax, claims_softmax
)
FIGURE_6 = Exhibit(
    "The value channel: squared error over the key budget", value_runs, draw_values, caption_values, claims_values
)
