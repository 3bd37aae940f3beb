"""Bounds on the scores of pairs under softmax, over all contexts of one length.

`score_bounds` bounds all pairs at once: every head has its own worst context. `smallest_scores` and `largest_scores`
bound single pairs more tightly, and find contexts with scores near the bounds.

In a context that holds the pair (i, j) and a set S of n other items the score is
    A(S) = Σ_k 1/(c_k + s_k),   s_k = Σ_{t∈S} r_kt,   r_kt = exp(L_it − L_ij),
with c_k = 1 + r_ki for the source's own logit, or 1 where i = j. A is convex in s, and a linear function of s is
extreme on the n items with the largest or smallest coefficients. Both facts give the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray
from scipy.special import expit

from manyheads.certificate.projection import Projection
from manyheads.layer.rules import UNIT

LARGEST_EXPONENT = 300.0  # a ratio of e^300 leaves the pair a share of 0; products of two such ratios stay finite


def softmax_rounding(projection: Projection, length: int) -> float:
    """The largest distance of a computed score or bound from the exact one, in contexts of at most this length.

    An error ε of every logit of a head moves its share p of the attention by at most 2p(1−p)·ε ≤ ε/2. The logits have
    errors of their own. About ℓ + 8 roundings follow in logarithms and exponentials of numbers up to the largest logit,
    and as many in sums and quotients, which are at most a few times h.
    """
    heads, root = projection.heads, np.sqrt(projection.key_width)
    largest = projection.query_norms * projection.key_norms.max(axis=1, keepdims=True) / root
    logit_error = projection.row_errors() / root + 4 * UNIT * largest
    in_exponentials = (length + 8) * UNIT * (2 * largest + np.log(projection.items) + 8)
    arithmetic = 8 * heads * (length + heads + 16) * UNIT
    return float((logit_error + in_exponentials).sum(axis=0).max() / 2 * projection.slack + arithmetic)


def score_bounds(
    logits: Float64[ndarray, "heads rows items"], sources: Int[ndarray, " rows"], free: int, *, largest: bool
) -> Float64[ndarray, "rows items"]:
    """Bounds on the score of every pair over all contexts with `free` items besides the source and another target.

    Each head's largest other logits give a lower bound, its smallest other logits an upper bound.
    """
    rows = np.arange(len(sources))
    rivals = extreme_sums(logits, sources, free, largest=largest)
    with_source = np.logaddexp(rivals, logits[:, rows, sources][:, :, None])  # the source is in every context …
    with_source[:, rows, sources] = rivals[:, rows, sources]  # … and a loop has it as its target
    return expit(logits - with_source).sum(axis=0)


def extreme_sums(
    logits: Float64[ndarray, "heads rows items"], sources: Int[ndarray, " rows"], free: int, *, largest: bool
) -> Float64[ndarray, "heads rows items"]:
    """For every target the log Σ exp of the `free` largest (or smallest) logits, its own and the source's left out.

    Where the target is the source itself, one more item is free.
    """
    rows = np.arange(len(sources))
    order = -logits if largest else logits.copy()
    order[:, rows, sources] = np.inf  # never among the chosen: at least free + 1 other items exist
    chosen = np.argpartition(order, free, axis=2)[:, :, : free + 1]  # the last is the substitute
    values = np.take_along_axis(logits, chosen, axis=2)
    before = np.logaddexp.accumulate(values, axis=2)
    after = np.logaddexp.accumulate(values[:, :, ::-1], axis=2)[:, :, ::-1]

    nothing = np.full((*values.shape[:2], 1), -np.inf)
    sums = np.repeat(before[:, :, free - 1 : free] if free else nothing, logits.shape[2], axis=2)
    # a target among the chosen is replaced by the substitute: join the logits before it and those after it
    without = np.logaddexp(np.concatenate([nothing, before], axis=2)[:, :, :free], after[:, :, 1:])
    np.put_along_axis(sums, chosen[:, :, :free], without, axis=2)
    sums[:, rows, sources] = before[:, :, free]
    return sums


@dataclass(frozen=True, eq=False)
class PairProblems:
    """The functions A of several pairs, all with the same numbers of free items and of items to choose."""

    base: Float64[ndarray, "heads pairs"]  # c_k
    ratios: Float64[ndarray, "heads pairs free"]  # r_kt
    free: Int[ndarray, "pairs free"]  # the item t of each column
    chosen: int  # n

    def scores(self, sums: Float64[ndarray, "heads pairs"]) -> Float64[ndarray, " pairs"]:
        """A where the chosen items sum to s."""
        return (1 / (self.base + sums)).sum(axis=0)

    def sums(self, positions: Int[ndarray, "pairs chosen"]) -> Float64[ndarray, "heads pairs"]:
        """The s of the chosen columns."""
        return np.take_along_axis(self.ratios, positions[None], axis=2).sum(axis=2)

    def extreme(
        self, slopes: Float64[ndarray, "heads pairs"], *, largest: bool
    ) -> tuple[Int[ndarray, "pairs chosen"], Float64[ndarray, " pairs"]]:
        """The choice that makes Σ_k slope_k·s_k largest or smallest, and that sum."""
        weights = np.einsum("kp,kpt->pt", slopes, self.ratios)
        positions = extreme_positions(weights, self.chosen, largest=largest)
        return positions, np.take_along_axis(weights, positions, axis=1).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Extremes:
    """For every pair a proved bound on its worst score, and the worst score found, with its items."""

    bounds: Float64[ndarray, " pairs"]
    found: Float64[ndarray, " pairs"]
    items: Int[ndarray, "pairs chosen"]


def pair_problems(
    projection: Projection, sources: Int[ndarray, " pairs"], targets: Int[ndarray, " pairs"], length: int
) -> PairProblems:
    """The functions A of pairs in contexts of this length; either all pairs or none are loops (i = j)."""
    pairs, items = np.arange(len(sources)), projection.items
    loops = bool((sources == targets).all())
    logits = projection.logits(sources)
    ratios = np.exp(np.minimum(logits - logits[:, pairs, targets][:, :, None], LARGEST_EXPONENT))
    free = np.tile(np.arange(items - 1 if loops else items - 2), (len(sources), 1))
    free += free >= np.minimum(sources, targets)[:, None]
    if not loops:
        free += free >= np.maximum(sources, targets)[:, None]
    return PairProblems(
        base=np.ones((projection.heads, len(sources))) if loops else 1 + ratios[:, pairs, sources],
        ratios=np.take_along_axis(ratios, free[None], axis=2),
        free=free,
        chosen=length - 1 if loops else length - 2,
    )


def smallest_scores(problems: PairProblems, *, steps: int) -> Extremes:
    """Bound the smallest score of every pair from below, by Frank–Wolfe on the convex hull of all choices.

    A convex function lies above its tangents, so for any s
        A ≥ Σ_k [y_k + s_k·y_k²] − max_S Σ_k y_k²·s_k(S),   y_k = 1/(c_k + s_k).
    Every step moves s towards the maximising choice, which is itself a concrete context.
    """
    # the heads' worst choices differ; their sums give a first bound, and the choice to start from
    bounds, positions = _tangent(problems, head_extremes(problems, largest=True))
    sums = problems.sums(positions)
    found = problems.scores(sums)
    for _ in range(steps):
        tangent, candidate = _tangent(problems, sums)
        vertex = problems.sums(candidate)
        scores = problems.scores(vertex)
        positions = np.where((scores < found)[:, None], candidate, positions)
        found, bounds = np.minimum(found, scores), np.maximum(bounds, tangent)
        sums = _descend(problems, sums, vertex)
    return Extremes(bounds, found, np.take_along_axis(problems.free, positions, axis=1))


def largest_scores(problems: PairProblems, *, steps: int) -> Extremes:
    """Bound the largest score of every pair from above by secants, and climb to a local maximum."""
    low, high = head_extremes(problems, largest=False), head_extremes(problems, largest=True)
    bounds, _ = secant(problems, low, high)
    found, positions = climb(problems, low, steps=steps)
    return Extremes(bounds, found, np.take_along_axis(problems.free, positions, axis=1))


def secant(
    problems: PairProblems, low: Float64[ndarray, "heads pairs"], high: Float64[ndarray, "heads pairs"]
) -> tuple[Float64[ndarray, " pairs"], Int[ndarray, "pairs chosen"]]:
    """An upper bound on the scores of all choices with low ≤ s ≤ high, and the choice at which it is attained.

    Between low_k and high_k, 1/(c_k + s_k) lies below its secant, so
        A ≤ Σ_k [1/(c_k + low_k) + low_k·y_k] − min_S Σ_k y_k·s_k(S),   y_k = 1/((c_k + low_k)·(c_k + high_k)).
    """
    shares = 1 / (problems.base + low)
    y = shares / (problems.base + high)
    positions, least = problems.extreme(y, largest=False)
    return (shares + low * y).sum(axis=0) - least, positions


def climb(
    problems: PairProblems, sums: Float64[ndarray, "heads pairs"], *, steps: int
) -> tuple[Float64[ndarray, " pairs"], Int[ndarray, "pairs chosen"]]:
    """Choices with larger and larger scores, starting from s, until none is larger or the steps are used up.

    The choice that minimises the tangent's Σ_k s_k/(c_k + s_k)² scores at least as much as s: A lies above its tangent.
    """
    found = np.full(sums.shape[1], -np.inf)
    for _ in range(max(1, steps)):
        positions, _ = problems.extreme(1 / (problems.base + sums) ** 2, largest=False)
        sums = problems.sums(positions)
        scores = problems.scores(sums)
        if (scores <= found).all():
            break
        found = scores
    return found, positions


def extreme_positions(
    weights: Float64[ndarray, "pairs free"], chosen: int, *, largest: bool
) -> Int[ndarray, "pairs chosen"]:
    """The positions of the largest or smallest numbers of every row."""
    width = weights.shape[1]
    if chosen == 0 or chosen == width:
        return np.tile(np.arange(chosen), (len(weights), 1))
    if largest:
        return np.argpartition(weights, width - chosen, axis=1)[:, width - chosen :]
    return np.argpartition(weights, chosen - 1, axis=1)[:, :chosen]


def head_extremes(problems: PairProblems, *, largest: bool) -> Float64[ndarray, "heads pairs"]:
    """Every head's own sum of its n largest or smallest ratios."""
    width, chosen = problems.ratios.shape[2], problems.chosen
    if chosen == 0:
        return np.zeros_like(problems.base)
    if largest:
        return np.partition(problems.ratios, width - chosen, axis=2)[:, :, width - chosen :].sum(axis=2)
    return np.partition(problems.ratios, chosen - 1, axis=2)[:, :, :chosen].sum(axis=2)


def _tangent(
    problems: PairProblems, sums: Float64[ndarray, "heads pairs"]
) -> tuple[Float64[ndarray, " pairs"], Int[ndarray, "pairs chosen"]]:
    y = 1 / (problems.base + sums)
    positions, most = problems.extreme(y * y, largest=True)
    return (y + sums * y * y).sum(axis=0) - most, positions


def _descend(
    problems: PairProblems, sums: Float64[ndarray, "heads pairs"], vertex: Float64[ndarray, "heads pairs"]
) -> Float64[ndarray, "heads pairs"]:
    """The point between s and a vertex where A is smallest, by bisection on its slope."""
    direction = vertex - sums
    low, high = np.zeros(sums.shape[1]), np.ones(sums.shape[1])
    for _ in range(12):
        middle = (low + high) / 2
        rising = (direction / (problems.base + sums + middle * direction) ** 2).sum(axis=0) < 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return sums + low * direction
