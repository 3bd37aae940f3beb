"""Figure 8: D_K* over the base grid, with its optimistic and conservative values."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.drawing.style import look, panels
from manyheads.papers.exhibits import fig9
from manyheads.papers.panel import BASE
from manyheads.papers.pictures import found_thresholds
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "D_K* over the base grid"
# The likeliest reading of Table 1 (d_k* times a power of two); inferred, not published.
INFERRED = {
    (64, 16): 20,
    (128, 16): 88,
    (256, 16): 192,
    (512, 16): 448,
    (64, 32): 6,
    (128, 32): 21,
    (256, 32): 64,
    (512, 32): 144,
    (64, 64): 5,
    (128, 64): 7,
    (256, 64): 24,
    (512, 64): 56,
}
runs = fig9.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """A table of numbers, shaded by size: D_K* in the middle, its range in the corners, as the paper prints it."""
    found = {(panel.items, panel.d_model): one for panel, one in found_thresholds(BASE, rows, scale)}
    sizes, widths = (64, 128, 256, 512), (16, 32, 64)
    with look():
        figure, ((axes,),) = panels(1, 1)
        shades = [[(found[m, d].key_budget or 0) if (m, d) in found else float("nan") for d in widths] for m in sizes]
        axes.imshow(shades, cmap="Blues", norm="log", aspect="auto", vmax=2000)
        axes.grid(visible=False)
        for row, items in enumerate(sizes):
            for column, d_model in enumerate(widths):
                one = found.get((items, d_model))
                if one is None:
                    axes.text(column, row, "–", ha="center", va="center")
                    continue
                axes.text(column, row, str(one.key_budget), ha="center", va="center", fontsize=13, weight="bold")
                axes.text(column - 0.44, row + 0.40, _end(one.low), ha="left", va="bottom", fontsize=8)
                axes.text(column + 0.44, row - 0.40, _end(one.high), ha="right", va="top", fontsize=8)
        axes.set_xticks(range(len(widths)), [str(d) for d in widths])
        axes.set_yticks(range(len(sizes)), [str(m) for m in sizes])
        axes.set_xlabel("$d_{model}$")
        axes.set_ylabel("items m")
        axes.set_title("$D_K^*$; corners: optimistic, conservative")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """How the thresholds compare with the inferred reading of Table 1."""
    found = found_thresholds(BASE, rows, scale)
    ratios = [(one.key_budget or 0) / INFERRED[panel.items, panel.d_model] for panel, one in found]
    if not ratios:
        return "No threshold was found."
    return (
        f"{len(found)} of {len(BASE)} problems have a threshold in the window. Measured D_K* over the likeliest "
        f"reading of the paper's Table 1: {min(ratios):.2f} to {max(ratios):.2f}."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """D_K* grows with m and falls with d_model (Sec. 6.1), part of claim 8's evidence."""
    says = "D_K* grows rapidly with m and decreases rapidly with d_model"
    found = {(panel.items, panel.d_model): one.key_budget or 0 for panel, one in found_thresholds(BASE, rows, scale)}
    pairs = [((m, d), (2 * m, d)) for m, d in found if (2 * m, d) in found] + [
        ((m, 2 * d), (m, d)) for m, d in found if (m, 2 * d) in found
    ]
    if not pairs:
        return [missing("8a", says, "no two neighbouring thresholds")]
    holds = [found[small] < found[large] for small, large in pairs]
    return [
        judged("8a", says, f"{sum(holds)} of {len(holds)} neighbouring pairs of the grid in this order", all(holds))
    ]


def _end(budget: int | None) -> str:
    return "–" if budget is None else str(budget)
