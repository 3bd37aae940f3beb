"""Figure 1: F1 against the key budget at m = 256, d_model = 32, a line for each head count."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.papers.exhibits import fig9
from manyheads.papers.exhibits.fig8 import INFERRED
from manyheads.papers.panel import base
from manyheads.papers.pictures import curves
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict
from manyheads.training import Run

TITLE = "One problem: F1 over the key budget"
PANEL = base(256, 32)


def runs(scale: Scale) -> list[Run]:
    """All head counts and key budgets of the one panel."""
    return PANEL.runs(scale)


def draw(rows: Rows, scale: Scale) -> Figure:
    """Lines with 95 % intervals."""
    return curves([PANEL], rows, scale, columns=1)


def caption(rows: Rows, scale: Scale) -> str:
    """What the curves say."""
    found = PANEL.threshold(rows, scale)
    single = max((point.mean for point in PANEL.points(rows, scale) if point.heads == 1), default=float("nan"))
    return (
        f"m = 256, d_model = 32, {len(PANEL.seeds(scale))} seeds. The mean F1 first reaches 0.99 at "
        f"D_K = {found.key_budget} with {found.heads} heads; one head gets no further than {single:.3f} here. "
        f"The paper's threshold is {INFERRED[PANEL.items, PANEL.d_model]} by the likeliest reading of its Table 1, "
        "with one head below 0.99 throughout."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 1 is judged on all panels, with Figure 9."""
    return fig9.claims(rows, scale)
