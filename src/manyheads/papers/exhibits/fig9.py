"""Figure 9: F1 against the key budget for every problem of the base grid."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import Point
from manyheads.capacity.thresholds import TARGET
from manyheads.papers.panel import BASE, base, complete
from manyheads.papers.pictures import curves
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

TITLE = "The base grid: F1 over the key budget"
SINGLE = (base(512, 64), base(256, 32))
NARROW = 2.0


def runs(scale: Scale) -> list[Run]:
    """Every run of the base grid."""
    return [run for panel in BASE for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Four rows of three panels, d_model growing to the right, items downwards."""
    return curves(complete(BASE, rows, scale), rows, scale, columns=3)


def caption(rows: Rows, scale: Scale) -> str:
    """How many panels there are, and how steep the curves."""
    widths, panels = _windows(rows, scale), complete(BASE, rows, scale)
    if not widths:
        return "No curve reaches F1 = 0.99."
    return (
        f"{len(panels)} of {len(BASE)} problems. From F1 = 0.5 to 0.99 the key budget grows by a factor of "
        f"{np.median(widths):.2f} in the median over the {len(widths)} curves that get there. The paper calls "
        "this a narrow window for every problem and head count, and gives no number."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 1 and 6."""
    return [_narrow(rows, scale), _single(rows, scale)]


def _narrow(rows: Rows, scale: Scale) -> Verdict:
    says = "F1 rises from failure to success in a narrow window of D_K for every (m, d_model, h)"
    widths = _windows(rows, scale)
    if not widths:
        return missing("1", says, "no curve passes 0.99 yet")
    measured = (
        f"D_K at F1 = 0.99 is {np.median(widths):.2f} times D_K at F1 = 0.5 in the median of {len(widths)} curves, "
        f"{max(widths):.2f} times at most"
    )
    return judged(
        "1", says, measured, float(np.median(widths)) <= NARROW, f"yardstick: a factor of {NARROW:g} in the median"
    )


def _windows(rows: Rows, scale: Scale) -> list[float]:
    """D_K where a curve passes 0.99 over D_K where it passes 0.5, for every curve that does both."""
    found = []
    for panel in complete(BASE, rows, scale):
        points = panel.points(rows, scale)
        for heads in {point.heads for point in points}:
            line = [point for point in points if point.heads == heads]
            half, full = crossing(line, 0.5), crossing(line, TARGET)
            if half is not None and full is not None:
                found.append(full / half)
    return found


def crossing(line: list[Point], level: float) -> float | None:
    """Where the mean first passes the level, between points on a logarithmic axis; None where it never does."""
    for before, after in pairwise(sorted(line, key=lambda point: point.key_budget)):
        if before.mean < level <= after.mean:
            share = (level - before.mean) / (after.mean - before.mean)
            return float(before.key_budget * (after.key_budget / before.key_budget) ** share)
    return None


def _single(rows: Rows, scale: Scale) -> Verdict:
    says = "a single head does not reach 0.99 within the scanned D_K at (512, 64) and (256, 32)"
    best = {}
    for panel in complete(SINGLE, rows, scale):
        line = [point for point in panel.points(rows, scale) if point.heads == 1]
        best[panel] = max(line, key=lambda point: point.mean)
    if len(best) < len(SINGLE):
        return missing("6", says, "one of the two panels was not run")
    measured = "; ".join(
        f"({p.items}, {p.d_model}): at most {at.mean:.3f}, at D_K = {at.key_budget}" for p, at in best.items()
    )
    return judged(
        "6", says, measured, all(at.mean < TARGET for at in best.values()), "scanned up to 2.4·m·log2 m/d_model"
    )
