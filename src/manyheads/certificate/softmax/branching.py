"""Branch and bound for one pair under softmax, where the bounds of `pair_bounds` do not decide.

Both searches split the worst branch first. They end when the bound of every branch is half way between the threshold
and the worst score found, or when a score beyond the threshold is found, or when the nodes are used up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.certificate.softmax.pair_bounds import (
    PairProblems,
    climb,
    extreme_positions,
    head_extremes,
    secant,
    smallest_scores,
)

STEPS = 8  # steps of Frank–Wolfe in every branch, of climbing from every start


@dataclass(frozen=True)
class Decision:
    """A proved bound on the pair's worst score, the worst score found, the items that attain it, and the work done."""

    bound: float
    found: float
    items: tuple[int, ...]
    nodes: int


def branch_smallest(problem: PairProblems, limit: float, nodes: int) -> Decision:
    """Lift the bound on the smallest score above the limit, or find a choice that is not above it.

    One branch includes an item, whose ratios are added to the base; the other branch excludes it.
    """
    tick = count()
    found, items = np.inf, ()
    heap: list[tuple[float, int, PairProblems, tuple[int, ...]]] = []
    parts: Iterator[tuple[PairProblems, tuple[int, ...]]] = iter([(problem, ())])
    used = 0
    while True:
        for part, taken in parts:
            extremes = smallest_scores(part, steps=STEPS)
            used += 1
            if extremes.found[0] < found:
                found, items = float(extremes.found[0]), taken + tuple(extremes.items[0].tolist())
            heapq.heappush(heap, (float(extremes.bounds[0]), next(tick), part, taken))
        bound, _, part, taken = heap[0]
        if used >= nodes or found <= limit or bound >= (found + limit) / 2 or part.chosen in (0, part.free.shape[1]):
            return Decision(min(bound, found), found, items, used)
        heapq.heappop(heap)
        parts = _take_or_leave(part, taken)


def _take_or_leave(part: PairProblems, taken: tuple[int, ...]) -> Iterator[tuple[PairProblems, tuple[int, ...]]]:
    # the item with the smallest weight among the items that a tangent chooses
    y = 1 / (part.base + head_extremes(part, largest=True))
    weights = np.einsum("kp,kpt->pt", y * y, part.ratios)[0]
    column = int(np.argpartition(weights, -part.chosen)[-part.chosen])
    others = np.delete(np.arange(part.free.shape[1]), column)
    ratios, free = part.ratios[:, :, others], part.free[:, others]
    yield (
        PairProblems(part.base + part.ratios[:, :, column], ratios, free, part.chosen - 1),
        (*taken, int(part.free[0, column])),
    )
    yield PairProblems(part.base, ratios, free, part.chosen), taken


def branch_largest(problem: PairProblems, limit: float, nodes: int) -> Decision:
    """Push the bound on the largest score below the limit, or find a choice that is not below it.

    A branch is a box of sums low ≤ s ≤ high. The smaller the box, the tighter the bound by its secants.
    """
    tick, used = count(), 0
    starts = [problem.sums(extreme_positions(ratios, problem.chosen, largest=False)) for ratios in problem.ratios]
    climbs = [climb(problem, sums, steps=STEPS) for sums in starts]
    found, positions = max(((float(score[0]), choice) for score, choice in climbs), key=lambda pair: pair[0])
    heap: list[tuple[float, int, ndarray, ndarray, ndarray]] = []
    boxes = [(head_extremes(problem, largest=False), head_extremes(problem, largest=True))]
    while True:
        for low, high in boxes:
            high = reach(problem.base, low, high, goal=(found + limit) / 2)
            bound, choice = secant(problem, low, high)
            sums = problem.sums(choice)
            used += 1
            if problem.scores(sums)[0] > found:
                found, positions = float(problem.scores(sums)[0]), choice
            heapq.heappush(heap, (-float(bound[0]), next(tick), low, high, sums))
        goal = (found + limit) / 2
        worst, _, low, high, sums = heap[0]
        if used >= nodes or found >= limit or -worst <= goal:
            return Decision(max(-worst, goal), found, tuple(problem.free[0, positions[0]].tolist()), used)
        heapq.heappop(heap)
        boxes = _halves(problem.base, low, high, sums)


def reach(
    base: Float64[ndarray, "heads 1"], low: Float64[ndarray, "heads 1"], high: Float64[ndarray, "heads 1"], goal: float
) -> Float64[ndarray, "heads 1"]:
    """The largest sums of a choice in the box whose score exceeds the goal.

    The shares of such a choice lie below their largest values, 1/(c_k + low_k), by less than the sum of these values
    exceeds the goal. So does each head's share.
    """
    shares = 1 / (base + low)
    kept = shares - (shares.sum() - goal)
    cap = np.divide(1, kept, out=np.full_like(kept, np.inf), where=kept > 0) - base
    return np.maximum(low, np.minimum(high, cap))


def _halves(
    base: Float64[ndarray, "heads 1"],
    low: Float64[ndarray, "heads 1"],
    high: Float64[ndarray, "heads 1"],
    sums: Float64[ndarray, "heads 1"],
) -> list[tuple[ndarray, ndarray]]:
    """Split the box at s in the head with the largest secant error; where all errors are small, in the middle."""
    inside = np.clip(sums, low, high)
    width = 1 / (base + low) - 1 / (base + high)
    gap = 1 / (base + low) - (inside - low) / ((base + low) * (base + high)) - 1 / (base + inside)
    head = int(np.argmax(gap))
    cut = inside[head]
    if gap[head] < 1e-3 * width.max():
        head = int(np.argmax(width))
        cut = (low[head] + high[head]) / 2
    below, above = high.copy(), low.copy()
    below[head], above[head] = cut, cut
    return [(low, below), (above, high)]
