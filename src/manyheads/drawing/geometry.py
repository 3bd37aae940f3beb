"""The picture of a model's geometry: effective ranks of its heads and percentiles of raw scores, by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads.drawing.style import BLUE, GREY, ORANGE, look, panels


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
        figure.suptitle(rows.name, x=0.01, ha="left", fontsize=11)
    return figure
