"""Figure 7: a whole Transformer block on a frozen embedding (Sec. 7.3): accuracy over the key budget, by head count."""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from manyheads.block.block_run import BlockRun
from manyheads.drawing.style import GREY, VERMILLION, look, panels
from manyheads.papers.exhibits.block_claims import COLLAPSED, Accuracies, block_claims
from manyheads.papers.exhibits.block_setting import HEADS, Table
from manyheads.papers.pictures import MARKERS, power_axis
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict

TITLE = "A whole Transformer block on a frozen embedding"
COLOURS = {heads: to_hex(mpl.colormaps["viridis"](0.28 * place)) for place, heads in enumerate(HEADS)}
SIDEWAYS = 0.035  # how far apart head counts stand at one key budget, on the logarithmic axis


def runs(scale: Scale) -> list[BlockRun]:
    """Every embedding, head count, key budget and seed."""
    return [run for table in scale.block.tables for run in table_runs(table, scale)]


def table_runs(table: Table, scale: Scale) -> list[BlockRun]:
    """The runs on one embedding."""
    block, seeds = scale.block, _seeds(scale)
    steps = scale.steps or (max(1, block.steps // 10) if scale.quick else block.steps)
    return [
        replace(block, steps=steps).run(table, heads, budget, seed)
        for heads in HEADS
        for budget in block.budgets
        for seed in seeds
    ]


def draw(rows: Rows, scale: Scale) -> Figure:
    """A panel for each embedding: every seed a dot, the means a line, collapsed seeds crossed."""
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
                for n, heads in enumerate(HEADS)
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
    done = {_called(t, scale) for t in scale.block.tables if all(run.id in rows for run in table_runs(t, scale))}
    return block_claims([found for found in _accuracies(rows, scale) if found.name in done], scale.block)


def _panel(axes: Axes, found: Accuracies, scale: Scale) -> None:
    block = scale.block
    for place, heads in enumerate(HEADS):
        shift = np.exp(SIDEWAYS * (place - (len(HEADS) - 1) / 2))
        colour, marker, label = COLOURS[heads], MARKERS[heads], f"{heads} head{'s' if heads > 1 else ''}"
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
    """What there is of each embedding, in its order."""
    block, seeds = scale.block, _seeds(scale)
    found = []
    for table in block.tables:
        known = {run.id: value for run, value in rows.scores(table_runs(table, scale), "accuracy")}
        flat = [known.get(run.id, np.nan) for run in table_runs(table, scale)]
        cube = np.array(flat, dtype=np.float64).reshape(len(HEADS), len(block.budgets), len(seeds))
        found.append(Accuracies(_called(table, scale), cube))
    return found


def _called(table: Table, scale: Scale) -> str:
    return f"{table.name}, PCA to {scale.block.d_model}" if table.reduction == "pca" else table.name


def _seeds(scale: Scale) -> tuple[int, ...]:
    if scale.seeds is not None:
        return tuple(range(scale.seeds))
    return scale.block.seeds[:2] if scale.quick else scale.block.seeds
