"""The picture of a certificate: the scores of related and of all other pairs, and the thresholds that part them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from manyheads.drawing.style import BLACK, BLUE, GREY, VERMILLION, look, panels

BINS = 150


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a layer's pairs, its threshold, and a pair to point at."""

    title: str
    related: Float64[ndarray, " relations"]
    other: Float64[ndarray, " others"]
    threshold: float
    witness: tuple[str, float] | None = None  # what to call it, and its score


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
    pairs, *_ = axis.hist(layer.other, bins=bins, color=GREY, label=f"{layer.other.size:,} other pairs")
    axis.hist(layer.related, bins=bins, color=BLUE, label=f"{layer.related.size:,} relations")
    axis.axvline(layer.threshold, color=BLACK, linewidth=1.2, linestyle="--", label="threshold")
    # a hundred thousand pairs in one bin, a single one in another: and it is the single one that decides
    top = 300 * float(np.max(pairs))  # room for the legend, on the side where no threshold is
    axis.set(title=layer.title, ylabel="pairs", yscale="log", ylim=(0.6, top))
    axis.legend(loc="upper left", ncols=2)
    if layer.witness is not None:
        name, score = layer.witness
        arrow = {"arrowstyle": "-|>", "color": VERMILLION}
        axis.annotate(
            name, (score, 1), (score, top / 30), color=VERMILLION, ha="center", arrowprops=arrow, annotation_clip=False
        )
