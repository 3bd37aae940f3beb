"""Point: what all seeds scored at one (heads, key_width)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.special import stdtrit

from manyheads.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Point:
    """The scores of one (heads, key_width), one a seed; a seed that did not finish is absent, not zero."""

    heads: int
    key_width: int
    scores: tuple[tuple[int, float], ...]  # (seed, score), sorted by seed

    def __post_init__(self) -> None:
        seeds = [seed for seed, _ in self.scores]
        if len(set(seeds)) != len(seeds):
            raise InputError(f"a seed of (heads {self.heads}, key width {self.key_width}) is given twice")
        if not all(math.isfinite(score) for _, score in self.scores):
            raise InputError(f"a score of (heads {self.heads}, key width {self.key_width}) is not finite")
        object.__setattr__(self, "scores", tuple(sorted(self.scores)))

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have a score."""
        return tuple(seed for seed, _ in self.scores)

    @cached_property
    def values(self) -> Float64[ndarray, " seeds"]:
        """The scores alone, in the order of their seeds."""
        return np.array([score for _, score in self.scores], dtype=np.float64)

    @cached_property
    def mean(self) -> float:
        """The mean score over the seeds."""
        return float(self.values.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The paper's 95 % t-interval of the mean (App. A.2); one seed alone says nothing of the spread.

        >>> low, high = Point(2, 7, ((0, 0.98), (1, 1.0))).interval
        >>> round(low, 3), round(high, 3)
        (0.863, 1.117)
        """
        n = len(self.scores)
        if n < 2:
            return (-math.inf, math.inf)
        half = _quantile(n - 1) * float(self.values.std(ddof=1)) / math.sqrt(n)
        return (self.mean - half, self.mean + half)


@cache  # scipy takes longer for it than for everything else of a point
def _quantile(freedom: int) -> float:
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def points(scores: Iterable[tuple[int, int, int, float]]) -> list[Point]:
    """Points from (heads, key_width, seed, score), sorted by key budget, then heads."""
    grouped: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for heads, key_width, seed, score in scores:
        grouped.setdefault((heads, key_width), []).append((seed, score))
    made = [Point(heads, key_width, tuple(pairs)) for (heads, key_width), pairs in grouped.items()]
    return sorted(made, key=lambda point: (point.key_budget, point.heads))
