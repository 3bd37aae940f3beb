"""Window: the thresholds that separate the scores of related pairs from those of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.problem.graph import Graph

# A rectangle of scores joined over the heads: its first row, its first column, the scores.
Tile = tuple[int, int, Float64[ndarray, "rows columns"]]


@dataclass(frozen=True)
class Window:
    """The thresholds above low, the largest score of a false pair, and below high, the smallest of a true one."""

    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether any threshold separates."""
        return self.low < self.high

    def holds(self, threshold: float) -> bool:
        """Whether this threshold separates."""
        return self.low < threshold < self.high


def window(graph: Graph, tiles: Iterable[Tile], *, until: Callable[[Window], bool] | None = None) -> Window:
    """The window that all tiles leave, or, where `until` says so, the one that the tiles so far leave."""
    low, high = -np.inf, np.inf
    for row, column, scores in tiles:
        true = graph.adjacency(row, row + len(scores))[:, column : column + scores.shape[1]]
        low = max(low, float(scores.max(initial=-np.inf, where=~true)))
        high = min(high, float(scores.min(initial=np.inf, where=true)))
        if until is not None and until(Window(low, high)):
            break
    return Window(low, high)
