"""The limit of a construction as its key width grows without end, and whether the limit separates.

Signatures are independent columns, so score/d_k of head k tends to its mean, with u_i = x_i·X_inv the de-embedded item:

    Σ_{s,t} u_i(s)·u_j(t)·E[w_π(s)·w_t]  =  (E w² − (E w)²)·Σ_{s∈V_k} u_i(s)·u_j(π(s))  +  (E w)²·Σ_s u_i(s)·Σ_t u_j(t).

For signs (E w = 0, E w² = 1) and unit rows this is G[:,V_k]·G[π(V_k),:], G = XXᵀ. Besides the signal it holds three
terms that stay at every width: δ_j(π(i)) from N1, δ_i(π⁻¹(j)) from N2, ⟨δ_i, δ_j∘π⟩ over the matching from N3. The
fluctuation around the limit does fall. So if the limit does not separate, no width is sufficiently large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.construct.heads import RADEMACHER, Signatures
from manyheads.problem.graph import Graph, Matching
from manyheads.problem.problem import Problem

Threshold = Literal["paper", "best"]

PANEL, ROWS = 1024, 64  # columns and rows of a tile of scores: half a megabyte, which stays in the cache
PANEL_NUMBERS = 2**25  # the most overlaps of a panel in memory, a quarter of a gigabyte

# A rectangle of scores joined over the heads: its first row, its first column, the scores.
Tile = tuple[int, int, Float64[ndarray, "rows columns"]]


@dataclass(frozen=True)
class ScoreWindow:
    """The thresholds that separate: those between low and high.

    Attributes:
        low: The largest score of a false pair.
        high: The smallest score of a true pair.
    """

    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether any threshold separates."""
        return self.low < self.high

    def holds(self, threshold: float) -> bool:
        """Whether this threshold separates.

        Args:
            threshold: τ.

        Returns:
            True if τ is above all other pairs' scores and below all relations' scores.
        """
        return self.low < threshold < self.high


def window(graph: Graph, tiles: Iterable[Tile], *, until: Callable[[ScoreWindow], bool] | None = None) -> ScoreWindow:
    """The window of the scores in all tiles.

    Args:
        graph: The pairs that are true.
        tiles: The scores.
        until: Called after every tile. True ends the pass; the window is then that of the tiles so far.
    """
    low, high = -np.inf, np.inf
    for row, column, scores in tiles:
        true = graph.adjacency(row, row + len(scores))[:, column : column + scores.shape[1]]
        low = max(low, float(scores.max(initial=-np.inf, where=~true)))
        high = min(high, float(scores.min(initial=np.inf, where=true)))
        if until is not None and until(ScoreWindow(low, high)):
            break
    return ScoreWindow(low, high)


@dataclass(frozen=True)
class WidthLimit:
    """The limit of score/d_k for large key widths.

    Attributes:
        heads: The number of matchings.
        matching_size: The size of the largest matching.
        window: The thresholds that separate in the limit.
        threshold: The paper's threshold over d_k.
    """

    heads: int
    matching_size: int
    window: ScoreWindow
    threshold: float

    def separates(self, threshold: Threshold) -> bool:
        """Whether a key width exists that is large enough.

        Args:
            threshold: "paper" for the paper's threshold, "best" for the best one.

        Returns:
            True if the relations and the other pairs separate at large key widths.
        """
        return self.window.is_open if threshold == "best" else self.window.holds(self.threshold)


def limit(
    problem: Problem,
    matchings: Sequence[Matching],
    *,
    signatures: Signatures = RADEMACHER,
    mu: float = 1.0,
    until: Callable[[ScoreWindow], bool] | None = None,
) -> WidthLimit:
    """The limit d_k → ∞ of the construction on these matchings, with X_inv = Xᵀ/μ.

    Args:
        problem: The graph, and the rows X.
        matchings: The relations of each head; together, all relations of the graph.
        signatures: The signatures of the construction.
        mu: μ, the squared length that the rows have in the mean.
        until: As for `window`.

    Returns:
        The limit, which says whether a sufficiently large width exists.
    """
    return WidthLimit(
        heads=len(matchings),
        matching_size=max(len(sources) for sources, _ in matchings),
        window=window(problem.graph, limit_tiles(problem.rows, matchings, signatures=signatures, mu=mu), until=until),
        threshold=signatures.threshold(1),
    )


def limit_tiles(
    embedding: Float[ndarray, "items d_model"], matchings: Sequence[Matching], *, signatures: Signatures, mu: float
) -> Iterator[Tile]:
    """The limit of every pair's largest score over the heads, tile by tile."""
    x = embedding.astype(np.float64)
    items = len(x)
    # all sources and all targets in the order of their heads, so that a head is a slice
    all_sources, all_targets = (np.concatenate(ends) for ends in zip(*matchings, strict=True))
    heads = list(pairwise(np.cumsum([0] + [len(sources) for sources, _ in matchings]).tolist()))
    spread, common = signatures.square - signatures.mean**2, signatures.mean**2
    panel = min(items, PANEL, max(1, PANEL_NUMBERS // max(1, len(all_targets))))
    for column in range(0, items, panel):
        ours = x[all_targets] @ x[column : column + panel].T / mu  # u_j(t): targets × panel
        for row in range(0, items, ROWS):
            theirs = x[row : row + ROWS] @ x[all_sources].T / mu  # u_i(s): rows × sources
            joined = np.full((len(theirs), ours.shape[1]), -np.inf)
            score = np.empty_like(joined)
            for start, stop in heads:
                u_i, u_j = theirs[:, start:stop], ours[start:stop]
                np.matmul(spread * u_i, u_j, out=score)
                if common:
                    score += common * np.outer(u_i.sum(axis=1), u_j.sum(axis=0))
                np.maximum(joined, score, out=joined)
            yield row, column, joined
