"""Limit: what is left of a construction as its key width grows without end, and whether that separates.

Signatures are independent columns, so score/d_k of head k tends to its mean, with u_i = x_i·X_inv the de-embedded item:

    Σ_{s,t} u_i(s)·u_j(t)·E[w_π(s)·w_t]  =  (E w² − (E w)²)·Σ_{s∈V_k} u_i(s)·u_j(π(s))  +  (E w)²·Σ_s u_i(s)·Σ_t u_j(t).

For signs (E w = 0, E w² = 1) and unit rows this is G[:,V_k]·G[π(V_k),:], G = XXᵀ. Besides the signal it holds three
terms that no width shrinks: δ_j(π(i)) from N1, δ_i(π⁻¹(j)) from N2 and ⟨δ_i, δ_j∘π⟩ over the block from N3. The
fluctuation around it does shrink. So where the limit does not separate, no width is sufficiently large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.construct.score_window import Tile, Window, window
from manyheads.construct.signatures import RADEMACHER, Signatures
from manyheads.construct.split import Block
from manyheads.problem.problem import Problem

Threshold = Literal["paper", "best"]

PANEL = 1024  # columns of scores at a time; with the rows below, a tile of half a megabyte stays in the cache
ROWS = 64
PANEL_NUMBERS = 2**25  # at most so many of a panel's overlaps are held, a quarter of a gigabyte


@dataclass(frozen=True)
class Limit:
    """The scores divided by the key width, as the key width grows: their window, and the paper's threshold in it."""

    heads: int
    block_size: int
    window: Window
    threshold: float

    def separates(self, threshold: Threshold) -> bool:
        """Whether a sufficiently large width exists at this block size, for the paper's threshold or for the best."""
        return self.window.is_open if threshold == "best" else self.window.holds(self.threshold)


def limit(
    problem: Problem,
    blocks: Sequence[Block],
    *,
    signatures: Signatures = RADEMACHER,
    mu: float = 1.0,
    until: Callable[[Window], bool] | None = None,
) -> Limit:
    """The limit d_k → ∞ of the construction on these blocks, with X_inv = Xᵀ/μ; `until` as for `window`."""
    return Limit(
        heads=len(blocks),
        block_size=max(len(sources) for sources, _ in blocks),
        window=window(problem.graph, limit_tiles(problem.rows, blocks, signatures=signatures, mu=mu), until=until),
        threshold=signatures.threshold(1),
    )


def limit_tiles(
    embedding: Float[ndarray, "items d_model"], blocks: Sequence[Block], *, signatures: Signatures, mu: float
) -> Iterator[Tile]:
    """The limit of every pair's largest score over the heads, tile by tile."""
    x = embedding.astype(np.float64)
    items = len(x)
    # all sources and all targets in the order of their heads, so that a head is a slice
    all_sources, all_targets = (np.concatenate(ends) for ends in zip(*blocks, strict=True))
    heads = list(pairwise(np.cumsum([0] + [len(sources) for sources, _ in blocks]).tolist()))
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
