"""Figure 11: regular graphs of degree 2 and 4, F1 over the key budget (App. A.3)."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.capacity.thresholds import TARGET
from manyheads.papers.panel import REGULAR, Panel, complete
from manyheads.papers.pictures import curves
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.training import Run

TITLE = "Regular graphs: F1 over the key budget"
CHOSEN = tuple(panel for panel in REGULAR if panel.degree in (2, 4))


def runs(scale: Scale) -> list[Run]:
    """Degrees 2 and 4."""
    return [run for panel in CHOSEN for run in panel.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Two panels."""
    return curves(complete(CHOSEN, rows, scale), rows, scale, columns=2)


def caption(rows: Rows, scale: Scale) -> str:
    """The best of few heads and of several."""
    parts = [f"r = {panel.degree}: {_shown(panel, rows, scale)}" for panel in complete(CHOSEN, rows, scale)]
    return (
        f"Highest mean F1 in the window: {'; '.join(parts)}. In the paper one head stops well below 1 at r = 2, "
        "two heads at r = 4, and 4 to 8 heads jump to about 1."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 11."""
    says = "r = 2: one head plateaus well below 1; r = 4: two heads do too; 4–8 heads jump to about 1"
    panels = complete(CHOSEN, rows, scale)
    if len(panels) < len(CHOSEN):
        return [missing("11", says, f"{len(panels)} of {len(CHOSEN)} degrees were run")]
    highest = {panel.degree: _highest(panel, rows, scale) for panel in panels}
    holds = (
        highest[2][1] < TARGET
        and highest[4][2] < TARGET
        and all(max(best[4], best[8]) >= TARGET for best in highest.values())
    )
    measured = "; ".join(f"r = {panel.degree}: {_shown(panel, rows, scale)}" for panel in panels)
    return [judged("11", says, measured, holds, "highest mean F1 of each head count in the window")]


def _highest(panel: Panel, rows: Rows, scale: Scale) -> dict[int, float]:
    points = panel.points(rows, scale)
    return {heads: max(p.mean for p in points if p.heads == heads) for heads in {point.heads for point in points}}


def _shown(panel: Panel, rows: Rows, scale: Scale) -> str:
    best = _highest(panel, rows, scale)
    return ", ".join(f"h = {heads} {best[heads]:.3f}" for heads in (1, 2, 4, 8) if heads in best)
