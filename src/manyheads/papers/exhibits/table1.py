"""Table 1: the key width of one head at the threshold, d_k* = D_K*/h*."""

from __future__ import annotations

import statistics

from matplotlib.figure import Figure

from manyheads.drawing.style import look, panels
from manyheads.papers.exhibits import fig9
from manyheads.papers.panel import BASE
from manyheads.papers.pictures import found_thresholds
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "The width of one head at the threshold"
PAPER = {
    (64, 16): 5,
    (64, 32): 6,
    (64, 64): 5,
    (128, 16): 11,
    (128, 32): 21,
    (128, 64): 7,
    (256, 16): 6,
    (256, 32): 16,
    (256, 64): 24,
    (512, 16): 7,
    (512, 32): 9,
    (512, 64): 14,
}
FACTOR = 2
runs = fig9.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """The table, measured beside the paper's."""
    found = {(panel.items, panel.d_model): one for panel, one in found_thresholds(BASE, rows, scale)}
    with look():
        figure, ((axes,),) = panels(1, 1)
        axes.axis("off")
        cells = []
        for items in (64, 128, 256, 512):
            here = [(found.get((items, d)), PAPER[items, d]) for d in (16, 32, 64)]
            cells.append([str(items), *(f"{'–' if one is None else one.key_width}  ({paper})" for one, paper in here)])
        table = axes.table(cells, colLabels=["m", "$d_{model}$ = 16", "32", "64"], loc="center", cellLoc="center")
        table.scale(1, 1.7)
        axes.set_title("$d_k^*$ measured (the paper's)")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The range and the median."""
    widths = [one.key_width or 0 for _, one in found_thresholds(BASE, rows, scale)]
    if not widths:
        return "No threshold was found."
    return (
        f"Measured: {min(widths)} to {max(widths)}, median {statistics.median(widths):g}. The paper says 5 to 24 with "
        f"median 11; the median of its own table is {statistics.median(PAPER.values()):g}."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 2."""
    says = "d_k* over (m; d_model = 16, 32, 64): 64: 5, 6, 5 · 128: 11, 21, 7 · 256: 6, 16, 24 · 512: 7, 9, 14"
    found = {(panel.items, panel.d_model): one.key_width or 0 for panel, one in found_thresholds(BASE, rows, scale)}
    if len(found) < len(PAPER):
        return [missing("2", says, f"{len(found)} of {len(PAPER)} thresholds were measured")]
    shown = " · ".join(f"{m}: " + ", ".join(str(found[m, d]) for d in (16, 32, 64)) for m in (64, 128, 256, 512))
    near = sum(1 / FACTOR <= found[at] / PAPER[at] <= FACTOR for at in PAPER)
    why = f"{near} of {len(PAPER)} within a factor of {FACTOR}; they depend on the grid, which the paper does not state"
    return [judged("2", says, shown, near == len(PAPER), why)]
