"""Figures 1, 8 and 9 and Table 1: the base grid, m from 64 to 512 and d_model from 16 to 64 (Sec. 6)."""

from __future__ import annotations

import statistics
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from manyheads.capacity import Point
from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.capacity import draw_curves
from manyheads.drawing.style import look, panels
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.one_head import beside_failure, trials
from manyheads.papers.panel import (
    BASE,
    Panel,
    base,
    bits_caption,
    complete,
    found_thresholds,
    panel_runs,
    threshold_points,
)
from manyheads.papers.rows import Rows
from manyheads.papers.trial import Work
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.sweep.store.record import Storable
from manyheads.tables import markdown_table
from manyheads.training import Run

F1_LABEL = "mean test micro-F1"
EXAMPLE = base(256, 32)  # the panel of Figure 1
SINGLE = (base(512, 64), base(256, 32))  # where one head fails, by claim 6
NARROW = 2.0  # the largest median factor between D_K at F1 = 0.5 and at 0.99 that counts as narrow
SIZES, WIDTHS = (64, 128, 256, 512), (16, 32, 64)
# Table 1 of the paper: d_k* by (m, d_model).
PAPER_WIDTHS = {
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
# The likeliest reading of Table 1: d_k* times a power of two. Inferred, not published.
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
FACTOR = 2  # the largest factor between a measured and a published d_k* that counts as agreement


# Figure 1


def example_runs(scale: Scale) -> list[Storable]:
    """The runs of the example, and whether one head can hold its problems."""
    return [*EXAMPLE.runs(scale), *trials([EXAMPLE], scale)]


def draw_example(rows: Rows, scale: Scale) -> Figure:
    """F1 against the key budget at m = 256, d_model = 32, a line for each head count."""
    return draw_curves([(_title(EXAMPLE, rows, scale), EXAMPLE.points(rows, scale))], columns=1, label=F1_LABEL)


def caption_example(rows: Rows, scale: Scale) -> str:
    """The threshold, and the highest F1 of one head."""
    found = EXAMPLE.threshold(rows, scale)
    single = max((point.mean for point in EXAMPLE.points(rows, scale) if point.heads == 1), default=float("nan"))
    return (
        f"m = 256, d_model = 32, {len(EXAMPLE.seeds(scale))} seeds. The mean F1 first reaches 0.99 at "
        f"D_K = {found.key_budget} with {found.heads} heads; one head gets no further than {single:.3f} here"
        f"{_beside(rows, scale)}. The paper's threshold is {INFERRED[EXAMPLE.items, EXAMPLE.d_model]} by the likeliest "
        "reading of its Table 1, with one head below 0.99 throughout."
    )


def _title(panel: Panel, rows: Rows, scale: Scale) -> str:
    """The problem; where one head does not get there by training, whether it could."""
    found = beside_failure(panel, rows, scale)
    return f"{panel}\none head: {found.title}" if found else str(panel)


def _beside(rows: Rows, scale: Scale) -> str:
    found = beside_failure(EXAMPLE, rows, scale)
    return f": {found.words}" if found else ""


# Figure 8


def draw_budgets(rows: Rows, scale: Scale) -> Figure:
    """D_K* by m and d_model, shaded by size; its optimistic and conservative values in the corners, as in the paper."""
    found = {(panel.items, panel.d_model): one for panel, one in found_thresholds(BASE, rows, scale)}
    with look():
        figure, ((axes,),) = panels(1, 1)
        shades = [[(found[m, d].key_budget or 0) if (m, d) in found else float("nan") for d in WIDTHS] for m in SIZES]
        axes.imshow(shades, cmap="Blues", norm="log", aspect="auto", vmax=2000)
        axes.grid(visible=False)
        for row, items in enumerate(SIZES):
            for column, d_model in enumerate(WIDTHS):
                one = found.get((items, d_model))
                if one is None:
                    axes.text(column, row, "–", ha="center", va="center")
                    continue
                axes.text(column, row, str(one.key_budget), ha="center", va="center", fontsize=13, weight="bold")
                axes.text(column - 0.44, row + 0.40, str(one.low or "–"), ha="left", va="bottom", fontsize=8)
                axes.text(column + 0.44, row - 0.40, str(one.high or "–"), ha="right", va="top", fontsize=8)
        axes.set_xticks(range(len(WIDTHS)), [str(d) for d in WIDTHS])
        axes.set_yticks(range(len(SIZES)), [str(m) for m in SIZES])
        axes.set(xlabel="$d_{model}$", ylabel="items m")
        axes.set_title("$D_K^*$; corners: optimistic, conservative")
    return figure


def caption_budgets(rows: Rows, scale: Scale) -> str:
    """The measured thresholds over the inferred reading of Table 1."""
    found = found_thresholds(BASE, rows, scale)
    ratios = [(one.key_budget or 0) / INFERRED[panel.items, panel.d_model] for panel, one in found]
    if not ratios:
        return "No threshold was found."
    return (
        f"{len(found)} of {len(BASE)} problems have a threshold in the window. Measured D_K* over the likeliest "
        f"reading of the paper's Table 1: {min(ratios):.2f} to {max(ratios):.2f}. {bits_caption(found)}"
    )


def claims_budgets(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 8a: D_K* grows with m and falls with d_model (Sec. 6.1)."""
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


# Figure 9


def grid_runs(scale: Scale) -> list[Storable]:
    """The base grid, and whether one head can hold its problems."""
    return [*panel_runs(BASE, scale), *trials(BASE, scale)]


def draw_grid(rows: Rows, scale: Scale) -> Figure:
    """F1 against the key budget: four rows of three panels, d_model grows to the right and m downwards."""
    problems = [(_title(panel, rows, scale), panel.points(rows, scale)) for panel in complete(BASE, rows, scale)]
    return draw_curves(problems, columns=3, label=F1_LABEL)


def caption_grid(rows: Rows, scale: Scale) -> str:
    """The number of panels, and the steepness of the curves."""
    widths, shown = _windows(rows, scale), complete(BASE, rows, scale)
    told = any(beside_failure(panel, rows, scale) for panel in shown)
    if not widths:
        return "No curve reaches F1 = 0.99."
    return (
        f"{len(shown)} of {len(BASE)} problems. From F1 = 0.5 to 0.99 the key budget grows by a factor of "
        f"{np.median(widths):.2f} in the median over the {len(widths)} curves that get there. The paper calls "
        "this a narrow window for every problem and head count, and gives no number."
        + (
            " Where one head stays below 0.99, the title says whether it is impossible or was not found."
            if told
            else ""
        )
    )


def claims_grid(rows: Rows, scale: Scale) -> list[Verdict]:
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
    """D_K at F1 = 0.99 over D_K at F1 = 0.5, for every curve that passes both."""
    found = []
    for panel in complete(BASE, rows, scale):
        points = panel.points(rows, scale)
        for heads in {point.heads for point in points}:
            line = [point for point in points if point.heads == heads]
            half, full = _crossing(line, 0.5), _crossing(line, TARGET)
            if half is not None and full is not None:
                found.append(full / half)
    return found


def _crossing(line: list[Point], level: float) -> float | None:
    """The key budget at which the mean first passes a level, interpolated on a logarithmic axis; None if never."""
    for before, after in pairwise(sorted(line, key=lambda point: point.key_budget)):
        if before.mean < level <= after.mean:
            share = (level - before.mean) / (after.mean - before.mean)
            return float(before.key_budget * (after.key_budget / before.key_budget) ** share)
    return None


def single_runs(scale: Scale) -> list[Storable]:
    """The runs that claim 6 needs: one head at the two problems that it names, and whether one head can hold them."""
    return [*(run for panel in SINGLE for run in _one_head_runs(panel, scale)), *trials(SINGLE, scale)]


def _one_head_runs(panel: Panel, scale: Scale) -> list[Run]:
    return [run for run in panel.runs(scale) if run.heads == 1]


def _single(rows: Rows, scale: Scale) -> Verdict:
    says = "a single head does not reach 0.99 within the scanned D_K at (512, 64) and (256, 32)"
    best = {}
    for panel in SINGLE:
        line = [point for point in panel.points(rows, scale) if point.heads == 1]
        if line and rows.have_all(_one_head_runs(panel, scale)):
            best[panel] = max(line, key=lambda point: point.mean)
    if len(best) < len(SINGLE):
        return missing("6", says, "one of the two panels was not run")
    measured = "; ".join(
        f"({p.items}, {p.d_model}): at most {at.mean:.3f}, at D_K = {at.key_budget}"
        + (f" ({found.words})" if (found := beside_failure(p, rows, scale)) else "")
        for p, at in best.items()
    )
    return judged(
        "6", says, measured, all(at.mean < TARGET for at in best.values()), "scanned up to 2.4·m·log2 m/d_model"
    )


# Table 1


def table_widths(rows: Rows, scale: Scale) -> list[str]:
    """The table of d_k* = D_K*/h*: measured, and the paper's in brackets."""
    found = {(panel.items, panel.d_model): one.key_width for panel, one in found_thresholds(BASE, rows, scale)}
    lines = [(str(m), *(f"{found.get((m, d)) or 'none'} ({PAPER_WIDTHS[m, d]})" for d in WIDTHS)) for m in SIZES]
    return [markdown_table(("m", *(f"d_model = {d}" for d in WIDTHS)), lines)]


def caption_widths(rows: Rows, scale: Scale) -> str:
    """The range and the median of d_k*."""
    widths = [one.key_width or 0 for _, one in found_thresholds(BASE, rows, scale)]
    if not widths:
        return "No threshold was found."
    return (
        f"d_k* measured, and the paper's in brackets. Measured: {min(widths)} to {max(widths)}, median "
        f"{statistics.median(widths):g}. The paper says 5 to 24 with "
        f"median 11; the median of its own table is {statistics.median(PAPER_WIDTHS.values()):g}."
    )


def claims_widths(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 2."""
    says = "d_k* over (m; d_model = 16, 32, 64): 64: 5, 6, 5 · 128: 11, 21, 7 · 256: 6, 16, 24 · 512: 7, 9, 14"
    found = {(panel.items, panel.d_model): one.key_width or 0 for panel, one in found_thresholds(BASE, rows, scale)}
    if len(found) < len(PAPER_WIDTHS):
        return [missing("2", says, f"{len(found)} of {len(PAPER_WIDTHS)} thresholds were measured")]
    shown = " · ".join(f"{m}: " + ", ".join(str(found[m, d]) for d in WIDTHS) for m in SIZES)
    near = sum(1 / FACTOR <= found[at] / PAPER_WIDTHS[at] <= FACTOR for at in PAPER_WIDTHS)
    why = (
        f"{near} of {len(PAPER_WIDTHS)} within a factor of {FACTOR}; they depend on the grid, which the paper does not "
        "state"
    )
    return [judged("2", says, shown, near == len(PAPER_WIDTHS), why)]


BASE_POINTS = threshold_points(BASE)
WORK: frozenset[Work] = frozenset({"layer", "trial"})
FIGURE_1 = Exhibit(
    "One problem: F1 over the key budget", example_runs, draw_example, caption_example, claims_grid, work=WORK
)
FIGURE_8 = Exhibit(
    "D_K* over the base grid",
    partial(panel_runs, BASE),
    draw_budgets,
    caption_budgets,
    claims_budgets,
    points=BASE_POINTS,
)
FIGURE_9 = Exhibit(
    "The base grid: F1 over the key budget",
    grid_runs,
    draw_grid,
    caption_grid,
    claims_grid,
    work=WORK,
    claim_runs={"6": single_runs},
)
TABLE_1 = Exhibit(
    "The width of one head at the threshold",
    partial(panel_runs, BASE),
    draw=None,
    caption=caption_widths,
    claims=claims_widths,
    tables=table_widths,
    points=BASE_POINTS,
)
