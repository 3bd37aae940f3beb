"""Frontier: the relations, or the other pairs, with the worst bounds on their scores under softmax."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from manyheads.certificate.projection import Projection
from manyheads.certificate.softmax.branching import branch_largest, branch_smallest
from manyheads.certificate.softmax.pair_bounds import Extremes, largest_scores, pair_problems, smallest_scores

BATCH = 1 << 21  # numbers in the arrays of one batch of pairs
STEPS = 8  # steps of Frank–Wolfe, or of climbing, for every pair

Measure = tuple[ndarray, Extremes]  # pairs, and the bounds and scores of their worst contexts


@dataclass(frozen=True)
class ScoredPair:
    """A pair with its score in one context, and the other items of that context."""

    source: int
    target: int
    score: float
    others: tuple[int, ...]


class Frontier:
    """Pairs that are all relations, or all not, each with a bound on its worst score over all contexts of one length.

    The worst score of a relation is its smallest, the worst score of another pair its largest. Scores are stored times
    `sign`, so that larger is worse for both kinds. Only the worst `keep` pairs are stored; `rest` bounds all others.
    """

    def __init__(self, *, relations: bool, length: int, keep: int) -> None:
        self.relations = relations
        self.sign = -1 if relations else 1
        self.length = length
        self.keep = keep
        self.sources = np.empty(0, dtype=np.int64)
        self.targets = np.empty(0, dtype=np.int64)
        self.bounds = np.empty(0)
        self.rest = -np.inf
        self.found = np.empty(0)  # the worst score found in a context, −∞ before a context was tried
        self.measured: deque[tuple[Int[ndarray, " batch"], list[Measure]]] = deque()  # batches not yet examined
        self.examined = 0  # the number of pairs, from the worst on, that `examine` has seen
        self.worst: ScoredPair | None = None  # the pair with the worst score found in a context

    @property
    def proved(self) -> float:
        """A proved bound: no score of this kind is worse."""
        return float(self.sign * max(self.rest, self.bounds.max(initial=-np.inf)))

    @property
    def attained(self) -> float:
        """The worst score found in a context."""
        return self.worst.score if self.worst else -self.sign * np.inf

    def offer(
        self, bounds: Float64[ndarray, " more"], sources: Int[ndarray, " more"], targets: Int[ndarray, " more"]
    ) -> None:
        """Add pairs, each with a bound on its worst score; only the worst pairs are stored."""
        worse = self.sign * bounds
        new = worse > (self.bounds[-1] if len(self.bounds) == self.keep else -np.inf)
        self.rest = max(self.rest, worse[~new].max(initial=-np.inf))
        merged = np.concatenate([self.bounds, worse[new]])
        order = np.argsort(-merged, kind="stable")
        self.rest = max(self.rest, merged[order[self.keep :]].max(initial=-np.inf))
        order = order[: self.keep]
        self.bounds = merged[order]
        self.sources = np.concatenate([self.sources, sources[new]])[order]
        self.targets = np.concatenate([self.targets, targets[new]])[order]
        self.found = np.full(len(order), -np.inf)

    def add(self, pair: ScoredPair) -> None:
        """Store a pair whose score in one context is known, for any bound."""
        known = np.flatnonzero((self.sources == pair.source) & (self.targets == pair.target))
        if not known.size:
            self.sources = np.append(self.sources, pair.source)
            self.targets = np.append(self.targets, pair.target)
            self.bounds = np.append(self.bounds, self.rest)
            self.found = np.append(self.found, -np.inf)
            known = np.array([len(self.found) - 1])
        self.found[known[0]] = self.sign * pair.score
        self.worst = pair

    def wrong(self, threshold: float, rounding: float) -> Bool[ndarray, " pairs"]:
        """The pairs that are certainly wrong in some context.

        The rounding counts three times: once for the arithmetic here, once for the layer's own arithmetic, and once as
        a reserve. So the layer's own score lies beyond the threshold by more than its rounding.
        """
        return self.found - 3 * rounding > self.sign * threshold

    def doubtful(self, threshold: float, rounding: float) -> Bool[ndarray, " pairs"]:
        """The pairs that are not proved to stay on their side of the threshold."""
        return self.bounds + rounding >= self.sign * threshold

    def next_batches(self, projection: Projection, ahead: int) -> list[Int[ndarray, " batch"]]:
        """The next batches of pairs to measure: one at first, later `ahead`; none while measured batches wait."""
        if self.measured:
            return []
        size = max(1, BATCH // (projection.heads * projection.items))
        pairs = np.arange(self.examined, len(self.bounds))[: size * (ahead if self.examined else 1)]
        return [pairs[start : start + size] for start in range(0, len(pairs), size)]

    def measure(self, projection: Projection, batch: Int[ndarray, " batch"]) -> list[Measure]:
        """Compute tighter bounds for the pairs of a batch, and contexts whose scores are near them. Stores nothing."""
        loops = self.sources[batch] == self.targets[batch]
        measures = []
        for pairs in (batch[loops], batch[~loops]):
            if pairs.size:
                problems = pair_problems(projection, self.sources[pairs], self.targets[pairs], self.length)
                measures.append((pairs, (smallest_scores if self.relations else largest_scores)(problems, steps=STEPS)))
        return measures

    def examine(self) -> None:
        """Store the bounds and scores of the first batch that was measured."""
        batch, measures = self.measured.popleft()
        self.examined += len(batch)
        for pairs, extremes in measures:
            self.bounds[pairs] = np.minimum(self.bounds[pairs], self.sign * extremes.bounds)
            self.found[pairs] = np.maximum(self.found[pairs], self.sign * extremes.found)
            worst = int(np.argmax(self.sign * extremes.found))
            self._update_worst(int(pairs[worst]), float(extremes.found[worst]), extremes.items[worst])

    def decide(self, projection: Projection, pair: int, limit: float, nodes: int) -> int:
        """Branch until the pair's worst score is proved above or below the limit; returns the number of nodes used."""
        one = slice(pair, pair + 1)
        problem = pair_problems(projection, self.sources[one], self.targets[one], self.length)
        decision = (branch_smallest if self.relations else branch_largest)(problem, limit, nodes)
        self.bounds[pair] = min(self.bounds[pair], self.sign * decision.bound)
        self.found[pair] = max(self.found[pair], self.sign * decision.found)
        self._update_worst(pair, decision.found, np.array(decision.items, dtype=np.int64))
        return decision.nodes

    def _update_worst(self, pair: int, score: float, others: Int[ndarray, " others"]) -> None:
        if self.sign * score > self.sign * self.attained:
            self.worst = ScoredPair(int(self.sources[pair]), int(self.targets[pair]), score, tuple(others.tolist()))
