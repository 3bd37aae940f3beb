"""Figure 5: the same curves with softmax over the context (Sec. 7.1)."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.capacity.thresholds import TARGET
from manyheads.papers.panel import SOFTMAX, Panel, base, complete
from manyheads.papers.pictures import curves
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

TITLE = "Softmax over the context: F1 over the key budget"
ROOMY = (64, 32)  # where the paper sees no advantage of several heads
ADVANTAGE = 1.1  # one head needs this much more budget than the best, or does not get there at all


def runs(scale: Scale) -> list[Run]:
    """Six panels, and the same problems under max to compare the thresholds with."""
    return [run for panel in (*SOFTMAX, *map(_under_max, SOFTMAX)) for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Two rows of three panels."""
    return curves(complete(SOFTMAX, rows, scale), rows, scale, columns=3)


def caption(rows: Rows, scale: Scale) -> str:
    """The thresholds under both rules."""
    parts = []
    for panel in complete(SOFTMAX, rows, scale):
        soft, hard = panel.threshold(rows, scale).key_budget, _under_max(panel).threshold(rows, scale).key_budget
        parts.append(f"({panel.items}, {panel.d_model}): {_or_none(soft)} against {_or_none(hard)} under max")
    return (
        f"D_K* with {len(SOFTMAX[0].seeds(scale))} seeds: {'; '.join(parts)}. In the paper the curves lie further to "
        f"the right than under max, and several heads do better than one everywhere but at {ROOMY}."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 12, in its two halves."""
    advantage = "softmax: multi-head advantage wherever m ≫ d_model, not at (64, 32)"
    right = "softmax: the 0.99 threshold lies further right than under max"
    panels = complete(SOFTMAX, rows, scale)
    if len(panels) < len(SOFTMAX):
        why = f"{len(panels)} of {len(SOFTMAX)} panels were run"
        return [missing("12a", advantage, why), missing("12b", right, why)]
    found = {panel: _advantage(panel, rows, scale) for panel in panels}
    crowded = [panel for panel in panels if (panel.items, panel.d_model) != ROOMY]
    measured = "; ".join(f"({p.items}, {p.d_model}): {_shown(found[p])}" for p in panels)
    holds = all(_is_advantage(found[panel]) for panel in crowded) and not any(
        _is_advantage(found[panel]) for panel in panels if panel not in crowded
    )
    shifts = [
        (panel, soft, hard)
        for panel in panels
        if (soft := panel.threshold(rows, scale).key_budget)
        and (hard := _under_max(panel).threshold(rows, scale).key_budget)
    ]
    shown = "; ".join(f"({p.items}, {p.d_model}): {soft} against {hard}" for p, soft, hard in shifts)
    return [
        judged(
            "12a",
            advantage,
            measured,
            holds,
            f"D_K of one head at 0.99 over the smallest; an advantage is {ADVANTAGE:g} or more",
        ),
        judged(
            "12b",
            right,
            shown or "no threshold in the window",
            bool(shifts) and all(soft > hard for _, soft, hard in shifts),
        ),
    ]


def _under_max(panel: Panel) -> Panel:
    return base(panel.items, panel.d_model)


def _advantage(panel: Panel, rows: Rows, scale: Scale) -> float | None:
    """D_K of one head over that of the best head count, at F1 = 0.99; infinite where one head never gets there."""
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
