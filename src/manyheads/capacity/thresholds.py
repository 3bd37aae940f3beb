"""D_K* and h*: the smallest key budget that works and the head counts that attain it (App. A.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from manyheads.capacity.point import Point

TARGET = 0.99
SIGNIFICANCE = 0.05
POOL = 0.10


@dataclass(frozen=True)
class Threshold:
    """Where the score passes the target: None where no tested point does."""

    key_budget: int | None  # central: the mean reaches the target
    low: int | None  # optimistic: the upper end of the interval does
    high: int | None  # conservative: the lower end of the interval does
    heads: int | None  # h*, the head count at the central value
    heads_low: int | None  # the smallest and
    heads_high: int | None  # the largest head count not significantly different from h*

    @property
    def key_width(self) -> int | None:
        """d_k* = D_K*/h*."""
        return None if self.key_budget is None or self.heads is None else self.key_budget // self.heads


def threshold(points: Sequence[Point], *, target: float = TARGET) -> Threshold:
    """D_K* central, optimistic and conservative, with h* and its range."""
    scored = [point for point in points if point.scores]
    best = _best([point for point in scored if point.mean >= target])
    retained = [] if best is None else _retained(scored, best)
    return Threshold(
        key_budget=None if best is None else best.key_budget,
        low=_smallest(scored, lambda point: point.interval[1] >= target),
        high=_smallest(scored, lambda point: point.interval[0] >= target),
        heads=None if best is None else best.heads,
        heads_low=min(retained, default=None),
        heads_high=max(retained, default=None),
    )


def _smallest(points: Sequence[Point], passes: Callable[[Point], bool]) -> int | None:
    return min((point.key_budget for point in points if passes(point)), default=None)


def _best(passing: Sequence[Point]) -> Point | None:
    """The smallest key budget; ties go to the larger mean score, then to fewer heads."""
    return min(passing, key=lambda point: (point.key_budget, -point.mean, point.heads), default=None)


def _retained(points: Sequence[Point], best: Point) -> set[int]:
    """Head counts with a tested D_K within 10 % of D_K* that a paired t-test does not tell from h*."""
    pool = [point for point in points if abs(point.key_budget - best.key_budget) <= POOL * best.key_budget]
    return {best.heads} | {point.heads for point in pool if not differs(point, best)}


def differs(one: Point, other: Point) -> bool:
    """Whether a paired two-sided t-test over the common seeds finds a difference at 5 %."""
    common = sorted(set(one.seeds) & set(other.seeds))
    differences = np.array([dict(one.scores)[seed] - dict(other.scores)[seed] for seed in common])
    # identical scores, or fewer than two pairs, give no t: there is no evidence of a difference
    if len(common) < 2 or not differences.any():
        return False
    # a constant, non-zero difference has no spread: t is infinite, p is zero
    if np.ptp(differences) == 0:
        return True
    # what scipy.stats.ttest_1samp says, without its checks: a search asks thousands of times
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(len(common)))
    return bool(2 * stdtr(len(common) - 1, -abs(t)) <= SIGNIFICANCE)
