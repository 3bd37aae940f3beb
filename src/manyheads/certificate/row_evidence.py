"""RowEvidence: for each source the result of judging its pairs with all items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class RowEvidence:
    """One number for each source, written by `judge_sources` (float64) or `judge_mixed` (mixed precision).

    The row of a source has all its pairs. A pair's distance is that of its score from the threshold, negative where the
    pair is wrong. A pair's bound is a bound on the rounding error of its score. A row is clear if the size of every
    distance in it exceeds twice the row's bound. In a clear row every pair has the bound of the row. So the tightest
    pair and the worst pair are the same: the first with the least distance. In other rows each pair has its own bound.
    """

    low: Float64[ndarray, " items"]  # the largest score of a pair without a relation
    high: Float64[ndarray, " items"]  # the smallest score of a relation
    missed: Int[ndarray, " items"]  # relations that are certainly wrong
    false_pairs: Int[ndarray, " items"]  # other pairs that are certainly wrong
    open_pairs: Int[ndarray, " items"]  # pairs neither proved nor refuted
    tightest_distance: Float64[ndarray, " items"]  # of the pair with the least distance − bound
    tightest_bound: Float64[ndarray, " items"]
    worst_distance: Float64[ndarray, " items"]  # of the pair with the least distance + 2·bound
    worst_bound: Float64[ndarray, " items"]
    worst_target: Int[ndarray, " items"]

    @classmethod
    def of(cls, items: int) -> RowEvidence:
        """Arrays for this number of sources. All pairs of a source are open until its row is written."""
        low, high, tightest, tightest_bound, worst, worst_bound = np.full((6, items), np.nan)
        missed, false_pairs, open_pairs, target = np.zeros((4, items), dtype=np.int64)
        open_pairs += items
        return cls(low, high, missed, false_pairs, open_pairs, tightest, tightest_bound, worst, worst_bound, target)

    @property
    def remaining(self) -> Float64[ndarray, " items"]:
        """The least distance minus bound of each source: where it is positive, all its pairs are proved."""
        return self.tightest_distance - self.tightest_bound

    @property
    def excess(self) -> Float64[ndarray, " items"]:
        """The largest distance by which a pair of the source is wrong, minus twice its bound."""
        return -self.worst_distance - 2 * self.worst_bound

    def set_clear(
        self,
        sources: slice | Int[ndarray, " rows"],
        bounds: Float64[ndarray, " rows"],
        low: Float64[ndarray, " rows"],
        high: Float64[ndarray, " rows"],
        least: Float64[ndarray, " rows"],
        target: Int[ndarray, " rows"],
        missed: Int[ndarray, " rows"],
        false_pairs: Int[ndarray, " rows"],
    ) -> None:
        """Write the rows of some sources as clear rows.

        Args:
            sources: The sources.
            bounds: The bound of each row.
            low: The largest score of a pair without a relation, −∞ where there is none.
            high: The smallest score of a relation, ∞ where there is none.
            least: The least distance.
            target: The first target at that distance.
            missed: The number of relations that are wrong.
            false_pairs: The number of other pairs that are wrong.
        """
        self.low[sources], self.high[sources] = low, high
        self.missed[sources], self.false_pairs[sources], self.open_pairs[sources] = missed, false_pairs, 0
        self.tightest_distance[sources] = self.worst_distance[sources] = least
        self.tightest_bound[sources] = self.worst_bound[sources] = bounds
        self.worst_target[sources] = target
