"""Figure 7: a whole Transformer block on a frozen embedding (Sec. 7.3): accuracy against the key budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads.block.block_run import BlockRun
from manyheads.drawing.capacity import HEAD_LOOKS
from manyheads.drawing.style import GREY, VERMILLION, look, panels, power_axis
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.block_setting import BLOCK_HEADS, PAPER, BlockSetting, BlockTable
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.tables import counted

SIDEWAYS = 0.035  # distance of two head counts at one key budget, on the logarithmic axis
COLLAPSED = 0.05  # a test accuracy below this has collapsed; answering NULL always has accuracy 0
NOTABLE = 0.02  # a difference of mean accuracies that counts
SAYS = {
    "15": "block: for h ≥ 2 accuracy rises with D_K and saturates near D_K = 512",
    "16a": "block: at every D_K several heads beat one",
    "16b": "block: h = 8 at the smallest D_K is counterproductive",
    "17": "block: h = 1, D_K ≥ 256: some seeds collapse to 0, the rest stop near 0.81; no collapse for h ≥ 2",
    "23": "block: the best partitions use h ∈ {4, 8}",
}


@dataclass(frozen=True, eq=False)
class Accuracies:
    """The test accuracies on one embedding; NaN for a run that diverged or has no row."""

    name: str
    seeds: Float64[ndarray, "heads budgets seeds"]

    @property
    def means(self) -> Float64[ndarray, "heads budgets"]:
        """Over the seeds that have an accuracy."""
        return np.nanmean(self.seeds, axis=2)


def runs(scale: Scale) -> list[BlockRun]:
    """Every embedding, head count, key budget and seed."""
    return [run for table in scale.block.tables for run in table_runs(table, scale)]


def table_runs(table: BlockTable, scale: Scale) -> list[BlockRun]:
    """The runs on one embedding."""
    block, seeds = scale.block, _seeds(scale)
    steps = scale.steps or (max(1, block.steps // 10) if scale.quick else block.steps)
    return [
        replace(block, steps=steps).run(table, heads, budget, seed)
        for heads in BLOCK_HEADS
        for budget in block.budgets
        for seed in seeds
    ]


def draw(rows: Rows, scale: Scale) -> Figure:
    """A panel for each embedding: a dot for every seed, a line through the means, a cross on collapsed seeds."""
    shown = [found for found in _accuracies(rows, scale) if np.isfinite(found.seeds).any()]
    with look():
        figure, grid = panels(1, max(1, len(shown)))
        figure.set_size_inches(4.6 * max(1, len(shown)) + 1.2, 3.7)
        for axes, found in zip(grid[0], shown, strict=False):
            _panel(axes, found, scale)
        for axes in grid[0]:
            axes.set(xlabel="key budget $D_K = h·d_k$", ylim=(-0.03, 1.03))
        grid[0][0].set_ylabel("test accuracy")
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside right center")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The setting, and the means on each embedding."""
    block, parts = scale.block, []
    for found in _accuracies(rows, scale):
        known = np.isfinite(found.seeds)
        means = [
            f"D_K = {budget}: "
            + ", ".join(
                f"h = {heads} {found.seeds[n, place][known[n, place]].mean():.3f}"
                for n, heads in enumerate(BLOCK_HEADS)
                if known[n, place].any()
            )
            for place, budget in enumerate(block.budgets)
            if known[:, place].any()
        ]
        parts += [f"{found.name}: {'; '.join(means)}."] if means else []
    diverged = sum(row.score("accuracy") is None for row in rows.of(runs(scale)))
    return (
        f"Test accuracy where validation is best; every seed is drawn, crossed below {COLLAPSED:g}. m = {block.items}, "
        f"d_model = {block.d_model}, ℓ = {block.context}, batch {block.batch}, rate {block.learning_rate:g}, "
        f"{runs(scale)[0].steps:,} steps, {len(_seeds(scale))} seeds, {block.precision}. {diverged} runs diverged. "
        + " ".join(["Means.", *parts])
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claims 15, 16, 17 and 23."""
    done = {_title(t, scale) for t in scale.block.tables if rows.have_all(table_runs(t, scale))}
    return block_claims([found for found in _accuracies(rows, scale) if found.name in done], scale.block)


def _panel(axes: Axes, found: Accuracies, scale: Scale) -> None:
    block = scale.block
    for place, heads in enumerate(BLOCK_HEADS):
        shift = np.exp(SIDEWAYS * (place - (len(BLOCK_HEADS) - 1) / 2))
        (colour, marker), label = HEAD_LOOKS[heads], counted(heads, "head")
        known = [n for n in range(len(block.budgets)) if np.isfinite(found.seeds[place, n]).any()]
        x = np.array([shift * block.budgets[n] for n in known])
        each = found.seeds[place, known]
        axes.plot(x, np.nanmean(each, axis=1), color=colour, marker=marker, label=label)
        axes.plot(x, each, color=colour, marker=marker, linestyle="none", alpha=0.45, markersize=3.5)
        fallen = np.where(each < COLLAPSED, each, np.nan)
        axes.plot(x, fallen, color=VERMILLION, marker="x", linestyle="none", markersize=8, markeredgewidth=1.8)
    axes.axhline(0, color=GREY, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    power_axis(axes.xaxis, block.budgets)
    axes.set_title(f"{found.name}\nm = {block.items}, $d_{{model}}$ = {block.d_model}")


def _accuracies(rows: Rows, scale: Scale) -> list[Accuracies]:
    """The accuracies on each embedding, in the order of the tables."""
    block, seeds = scale.block, _seeds(scale)
    found = []
    for table in block.tables:
        known = {run.id: value for run, value in rows.scores(table_runs(table, scale), "accuracy")}
        flat = [known.get(run.id, np.nan) for run in table_runs(table, scale)]
        cube = np.array(flat, dtype=np.float64).reshape(len(BLOCK_HEADS), len(block.budgets), len(seeds))
        found.append(Accuracies(_title(table, scale), cube))
    return found


def _title(table: BlockTable, scale: Scale) -> str:
    return f"{table.name}, PCA to {scale.block.d_model}" if table.reduction == "pca" else table.name


def _seeds(scale: Scale) -> tuple[int, ...]:
    if scale.seeds is not None:
        return tuple(range(scale.seeds))
    return scale.block.seeds[:2] if scale.quick else scale.block.seeds


def block_claims(each: Sequence[Accuracies], block: BlockSetting) -> list[Verdict]:
    """Claims 15, 16a, 16b, 17 and 23. A claim has to hold on every embedding.

    Args:
        each: the accuracies on each embedding whose runs all have a row.
        block: the setting of the runs.
    """
    if not each or any(np.isnan(one.seeds).all(axis=2).any() for one in each):
        return [missing(claim, says, "not run to the end") for claim, says in SAYS.items()]
    same = (block.items, block.d_model) == (PAPER.items, PAPER.d_model)
    size = "" if same else f"; at m = {block.items}, d_model = {block.d_model}, not at the paper's size"

    def verdict(claim: str, judge: Callable[[Accuracies], tuple[str, bool]], yardstick: str) -> Verdict:
        found = [(one.name, *judge(one)) for one in each]
        measured = "; ".join(f"{name}: {said}" for name, said, _ in found)
        return judged(claim, SAYS[claim], measured, all(holds for *_, holds in found), f"yardstick: {yardstick}{size}")

    return [
        verdict("15", _rises, f"no fall by more than {NOTABLE:g}, and the last doubling gains less than the first"),
        verdict("16a", _beats_one, f"h = 2 and h = 4 both better in the mean by more than {NOTABLE:g} at every D_K"),
        verdict("16b", _eight_is_too_many, f"worse in the mean by more than {NOTABLE:g} than the better of h = 2, 4"),
        verdict("17", _one_collapses, f"a test accuracy below {COLLAPSED:g} is collapsed; the two largest D_K"),
        verdict("23", lambda one: _best_heads(one, block), "at most of the key budgets, by the mean"),
    ]


def _rises(one: Accuracies) -> tuple[str, bool]:
    gains = np.diff(one.means[1:], axis=1)
    by_doubling = gains.mean(axis=0)
    holds = (gains > -NOTABLE).all() and by_doubling.sum() > 0 and by_doubling[-1] < by_doubling[0]
    return f"gains by doubling D_K, mean of h ≥ 2: {_listed(by_doubling)}", bool(holds)


def _beats_one(one: Accuracies) -> tuple[str, bool]:
    lead = one.means[1:3].min(axis=0) - one.means[0]
    return f"the lower of h = 2, 4 minus h = 1, by D_K: {_listed(lead)}", bool((lead > NOTABLE).all())


def _eight_is_too_many(one: Accuracies) -> tuple[str, bool]:
    lead = one.means[3, 0] - one.means[1:3, 0].max()
    return f"h = 8 minus the better of h = 2, 4: {lead:+.3f}", bool(lead < -NOTABLE)


def _one_collapses(one: Accuracies) -> tuple[str, bool]:
    fallen = one.seeds < COLLAPSED
    single, several = int(fallen[0, -2:].sum()), int(fallen[1:].sum())
    others = one.seeds[0, -2:][~fallen[0, -2:]]
    rest = (
        f"the rest {np.nanmin(others):.2f} to {np.nanmax(others):.2f}" if np.isfinite(others).any() else "none is left"
    )
    told = f"{single} of {fallen[0, -2:].size} seeds of one head collapse, {rest}; with several heads {several}"
    return told, single > 0 and several == 0


def _best_heads(one: Accuracies, block: BlockSetting) -> tuple[str, bool]:
    best = [BLOCK_HEADS[place] for place in one.means.argmax(axis=0)]
    told = ", ".join(f"{heads} at D_K = {budget}" for heads, budget in zip(best, block.budgets, strict=True))
    return f"best h: {told}", 2 * sum(heads in (4, 8) for heads in best) > len(best)


def _listed(values: Float64[ndarray, " n"]) -> str:
    return ", ".join(f"{value:+.3f}" for value in values)


FIGURE_7 = Exhibit(
    "A whole Transformer block on a frozen embedding",
    runs,
    draw,
    caption,
    claims,
    work=frozenset({"block"}),
    hours=True,
)
