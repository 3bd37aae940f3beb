"""Pictures of layers: a certificate's scores, the heads of a block, the geometry of a model's weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy import ndarray

from manyheads.block.head_roles import SERVES, HeadWork
from manyheads.drawing.style import BLACK, BLUE, GREY, ORANGE, VERMILLION, NotebookFigure, look, panels
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.numbers import require_memory
from manyheads.problem.problem import Problem
from manyheads.tables import counted, in_heads
from manyheads.text import drawn_text
from manyheads.training import Outcome


def draw_heads(work: HeadWork, *, title: str) -> Figure:
    """The attention of each head to the right pair for every query, and each head's share of the queries.

    Args:
        work: the attention of every head for every query.
        title: the beginning of the title.
    """
    heads, first = work.attention.shape[1], work.first
    # Queries that no head serves come last. The queries of a head are sorted by their attention, largest first.
    order = np.lexsort((-work.attention.max(axis=1), np.where(first < 0, heads, first)))
    shares = [float((first == head).mean()) for head in (*range(heads), -1)]
    with look():
        figure = NotebookFigure(figsize=(9.4, 1.9 + 0.36 * heads), layout="constrained")
        wide, narrow = figure.subplots(1, 2, width_ratios=(4, 1), sharey=True)
        edges = np.arange(heads + 1) - 0.5
        shown = wide.pcolormesh(
            np.arange(len(order) + 1), edges, work.attention[order].T, cmap="magma_r", vmin=0, vmax=1, rasterized=True
        )
        for border in np.cumsum(shares)[:-1] * len(order):
            wide.axvline(border, color=GREY, linewidth=0.6)
        wide.set(xlabel="queries, by the head that serves them most", ylabel="head", ylim=(heads - 0.5, -0.5))
        wide.set_yticks(range(heads))
        wide.grid(visible=False)
        figure.colorbar(shown, ax=wide, label="attention to π(q)'s pair", pad=0.01, aspect=12)
        narrow.barh(range(heads), shares[:-1], color=BLUE, height=0.7)
        for head, share in enumerate(shares[:-1]):
            narrow.annotate(f" {share:.0%}", (share, head), va="center", fontsize=8)
        narrow.set(xlabel="share of queries", xlim=(0, 1.25 * max(*shares[:-1], 0.05)))
        narrow.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        narrow.grid(visible=False)
        several = float((work.servers > 1).mean())
        figure.suptitle(
            f"{drawn_text(title)}: {shares[-1]:.0%} of the queries are served by no head (attention < {SERVES:g}), "
            f"{several:.0%} by several",
            x=0.01,
            ha="left",
            fontsize=10,
        )
    return figure


@dataclass(frozen=True, eq=False)
class GeometryRows:
    """Effective rank and percentiles of raw scores of each head of each layer."""

    name: str
    key_width: int
    effective_ranks: Float64[ndarray, "layers heads"]
    scores: Float64[ndarray, "layers heads 5"]  # 1st, 25th, 50th, 75th, 99th percentile


def draw_geometry(rows: GeometryRows) -> Figure:
    """Two panels against the layer: effective ranks, a dot for each head; score percentiles of the median head."""
    with look():
        figure, axes = panels(1, 2)
        figure.set_size_inches(9.4, 3.8)
        ranks, scores = axes[0]
        layers = np.arange(len(rows.effective_ranks))
        for head in range(rows.effective_ranks.shape[1]):
            ranks.plot(layers, rows.effective_ranks[:, head], color=BLUE, marker=".", linestyle="none", alpha=0.5)
        ranks.plot(layers, np.median(rows.effective_ranks, axis=1), color=BLUE, label="median head")
        ranks.axhline(rows.key_width, color=GREY, linestyle=":", label=f"d_k = {rows.key_width}")
        ranks.set(xlabel="layer", ylabel="effective rank of W_Q·W_Kᵀ", title="Heads", ylim=(0, 1.08 * rows.key_width))
        ranks.legend(loc="lower right")
        middle = np.median(rows.scores, axis=1)
        scores.fill_between(layers, middle[:, 0], middle[:, 4], color=ORANGE, alpha=0.2, linewidth=0, label="1–99 %")
        scores.fill_between(layers, middle[:, 1], middle[:, 3], color=ORANGE, alpha=0.45, linewidth=0, label="25–75 %")
        scores.plot(layers, middle[:, 2], color=ORANGE, label="median")
        scores.set(xlabel="layer", ylabel="raw score/√d_k", title="Scores of token pairs, embedding rows")
        scores.legend(loc="upper left", ncols=3)
        figure.suptitle(drawn_text(rows.name), x=0.01, ha="left", fontsize=11)
    return figure


def draw_training(outcome: Outcome) -> Figure:
    """The validation score and the training loss against the step, for the validation checks of one run."""
    run, steps = outcome.run, [check.step for check in outcome.curve]
    with look():
        figure, axes = panels(1, 2)
        score, loss = axes[0]
        score.plot(steps, [check.score for check in outcome.curve], color=BLUE)
        loss.plot(steps, [check.loss for check in outcome.curve], color=ORANGE)
        score.set(xlabel="step", ylabel="validation micro-F1" if outcome.mse is None else "validation squared error")
        loss.set(xlabel="step", ylabel="training loss")
        shape = in_heads(run.heads, run.key_width, run.key_heads)
        title = f"{shape}, {run.items} items, d_model {run.d_model}, seed {run.seed}"
        figure.suptitle(f"{drawn_text(title)}: {outcome.stopped}", x=0.01, ha="left", fontsize=11)
    return figure


BINS = 150


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a layer's pairs, its threshold, and a pair to point at."""

    title: str
    related: Float64[ndarray, " relations"]
    other: Float64[ndarray, " others"]
    threshold: float
    witness: tuple[str, float] | None = None  # its name, and its score


def layer_scores(layer: Layer, problem: Problem) -> Scores:
    """The scores of all pairs of a problem, for the picture.

    Raises:
        InputError: The rule looks at the context, or the layer reads rows of another width.
    """
    problem.require_width(layer.d_model)
    if not layer.rule.context_blind:
        raise InputError(f"the scores of the rule {layer.rule} depend on the context: they have no picture")
    require_memory(16 * layer.heads * problem.items**2, f"the scores of {problem.items:,} × {problem.items:,} pairs")
    scores, related = layer.scores(problem.rows), problem.graph.adjacency()
    title = f"{in_heads(layer.heads, layer.key_width, layer.key_heads)}, {counted(problem.relations, 'relation')}"
    return Scores(title, scores[related], scores[~related], layer.threshold)


def draw_scores(layers: Sequence[Scores]) -> Figure:
    """A panel for each layer, one above the other on the same axis of scores."""
    with look():
        figure, axes = panels(len(layers), 1)
        figure.set_size_inches(8.4, 2.7 * len(layers))
        everything = np.concatenate([part for layer in layers for part in (layer.related, layer.other)])
        bins = np.linspace(everything.min(), everything.max(), BINS + 1).tolist()
        for axis, layer in zip(axes[:, 0], layers, strict=True):
            _panel(axis, layer, bins)
        axes[-1, 0].set_xlabel("score of a pair, the largest over the heads")
    return figure


def _panel(axis: Axes, layer: Scores, bins: list[float]) -> None:
    low, high = layer.other.max(), layer.related.min()
    if low < high:
        axis.axvspan(low, high, color="#e9f2e4", label="every threshold here works")
    pairs, *_ = axis.hist(layer.other, bins=bins, color=GREY, label=counted(layer.other.size, "other pair"))
    axis.hist(layer.related, bins=bins, color=BLUE, label=counted(layer.related.size, "relation"))
    axis.axvline(layer.threshold, color=BLACK, linewidth=1.2, linestyle="--", label="threshold")
    # a logarithmic axis: one bin has a hundred thousand pairs, another a single pair, and the single pair decides
    top = 300 * float(np.max(pairs))  # room for the legend, on the side where no threshold is
    axis.set(title=drawn_text(layer.title), ylabel="pairs", yscale="log", ylim=(0.6, top))
    axis.legend(loc="upper left", ncols=2)
    if layer.witness is not None:
        name, score = layer.witness
        arrow = {"arrowstyle": "-|>", "color": VERMILLION}
        axis.annotate(
            drawn_text(name),
            (score, 1),
            (score, top / 30),
            color=VERMILLION,
            ha="center",
            arrowprops=arrow,
            annotation_clip=False,
            bbox={"color": "white", "pad": 1},
        )
