"""Goals, points (the scores of all seeds at one shape) and thresholds: D_K* and h* (App. A.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.special import ndtri, stdtr, stdtrit

from manyheads.errors import InputError
from manyheads.layer.rules import RULES, Rule
from manyheads.training.task import Task

CONFIDENCE = 0.95
TARGET = 0.99
SIGNIFICANCE = 0.05
POOL = 0.10
AROUND = 0.25  # the ends of D_K*'s range are searched within this share of D_K*
EXACT_SHARE = 0.5  # the share of seeds that must recover every pair


@runtime_checkable
class ScoredResult(Protocol):
    """The result of a run: a record of a store, or a row of the paper."""

    def score(self, name: str) -> float | int | None:
        """A score by its name; None if it was not measured."""


@dataclass(frozen=True)
class Goal:
    """A mean test F1, or exact recovery: at least half of the seeds decide all items² pairs right.

    Attributes:
        exact: Whether the goal is exact recovery.
        micro_f1: The mean test F1 that counts as working, in (0, 1]; without effect if `exact`.

    Raises:
        InputError: The F1 lies outside its range.
    """

    exact: bool = False
    micro_f1: float = TARGET

    def __post_init__(self) -> None:
        if not 0 < self.micro_f1 <= 1:
            raise InputError(f"a target F1 is above 0 and at most 1, not {self.micro_f1:g}")

    def interval(self, point: Point) -> tuple[float, float]:
        """The 95 % interval of a point's mean score, within [0, 1].

        For exact recovery, the Wilson interval of the share of seeds. For an F1, the paper's t-interval, cut at 0 and
        1. The cut changes no comparison with a target in (0, 1].

        Args:
            point: A point with scores for this goal.

        Returns:
            The lower and the upper end.

        >>> low, high = Goal(exact=True).interval(Point(2, 7, ((0, 1.0), (1, 1.0), (2, 0.0))))
        >>> round(low, 3), round(high, 3)
        (0.208, 0.939)
        >>> Goal().interval(Point(2, 7, ((0, 0.98), (1, 1.0))))[1]
        1.0
        """
        low, high = wilson_interval(point.mean, len(point.scores)) if self.exact else point.interval
        return (max(low, 0.0), min(high, 1.0))

    @property
    def target(self) -> float:
        """The value that the mean of `score` over the seeds must reach."""
        return EXACT_SHARE if self.exact else self.micro_f1

    def check(self, task: Task, rule: Rule) -> None:
        """Refuse a task or a rule whose runs have no score for this goal.

        Args:
            task: The task.
            rule: The rule that joins the heads.

        Raises:
            InputError: The task is the value channel, the native engine does not train the rule, or the goal is exact
                and the rule decides no single pair.
        """
        if task.objective == "values":
            raise InputError("the value channel has a squared error and no F1: capacities are measured for edges only")
        if rule.kernel is None:
            trained = " or ".join(name for name, one in RULES.items() if one.kernel is not None)
            raise InputError(f"a capacity is measured with the native engine, which trains {trained}, not {rule}")
        if self.exact and not (rule.context_blind and rule.has_rounding_bound):
            raise InputError(f"exact recovery is decided pair by pair, which the rule {rule} does not allow")

    def score(self, outcome: ScoredResult) -> float | None:
        """The score of one run.

        Args:
            outcome: The result of the run.

        Returns:
            The test F1; for exact recovery 1.0 if every pair is right and 0.0 if not; None if it was not measured.
        """
        if not self.exact:
            return outcome.score("micro_f1")
        errors = outcome.score("exact_errors")
        return None if errors is None else float(errors == 0)

    def __str__(self) -> str:
        return "exact recovery" if self.exact else f"F1 ≥ {self.micro_f1:g}"


@dataclass(frozen=True)
class Point:
    """The scores of one (heads, key_width). A seed without a score is absent, not zero.

    Attributes:
        heads: h.
        key_width: d_k.
        scores: Pairs (seed, score), sorted by seed.
        key_heads: g, the number of key heads that the heads share; None: as many as heads.
    """

    heads: int
    key_width: int
    scores: tuple[tuple[int, float], ...]
    key_heads: int | None = None

    def __post_init__(self) -> None:
        seeds = [seed for seed, _ in self.scores]
        if len(set(seeds)) != len(seeds):
            raise InputError(f"a seed of (heads {self.heads}, key width {self.key_width}) is given twice")
        if not all(math.isfinite(score) for _, score in self.scores):
            raise InputError(f"a score of (heads {self.heads}, key width {self.key_width}) is not finite")
        object.__setattr__(self, "scores", tuple(sorted(self.scores)))

    @property
    def groups(self) -> int:
        """g, the number of key heads."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def key_budget(self) -> int:
        """D_K = key heads · key_width."""
        return self.groups * self.key_width

    @property
    def size(self) -> float:
        """(D_Q + D_K)/2: the weights over 2·d_model. Without shared keys it is D_K."""
        return (self.heads + self.groups) / 2 * self.key_width

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have a score."""
        return tuple(seed for seed, _ in self.scores)

    @cached_property
    def values(self) -> Float64[ndarray, " seeds"]:
        """The scores without the seeds, in the order of the seeds."""
        return np.array([score for _, score in self.scores], dtype=np.float64)

    @cached_property
    def mean(self) -> float:
        """The mean score over the seeds."""
        return float(self.values.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The paper's 95 % t-interval of the mean (App. A.2); one seed does not show the spread.

        >>> low, high = Point(2, 7, ((0, 0.98), (1, 1.0))).interval
        >>> round(low, 3), round(high, 3)
        (0.863, 1.117)
        """
        n = len(self.scores)
        if n < 2:
            return (-math.inf, math.inf)
        half = _quantile(n - 1) * float(self.values.std(ddof=1)) / math.sqrt(n)
        return (self.mean - half, self.mean + half)


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share; it never leaves [0, 1].

    Args:
        share: Successes over trials.
        count: The number of trials, at least 1.

    Returns:
        The lower and the upper end.
    """
    z = float(ndtri((1 + CONFIDENCE) / 2))
    scale = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    return (max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))  # rounding errors cut off


@cache  # slower than the rest of a point
def _quantile(freedom: int) -> float:
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def points(
    scores: Iterable[tuple[int, int, int, float]], *, key_heads: Callable[[int], int | None] = lambda heads: None
) -> list[Point]:
    """Points from (heads, key_width, seed, score), sorted by size, then heads.

    Args:
        scores: Tuples (heads, key_width, seed, score).
        key_heads: The number of key heads for a number of heads.

    Returns:
        A point for each (heads, key_width).

    Raises:
        InputError: A seed occurs twice at a point, or a score is not finite.
    """
    grouped: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for heads, key_width, seed, score in scores:
        grouped.setdefault((heads, key_width), []).append((seed, score))
    made = [Point(heads, width, tuple(pairs), key_heads(heads)) for (heads, width), pairs in grouped.items()]
    return sorted(made, key=lambda point: (point.size, point.heads))


@dataclass(frozen=True)
class Threshold:
    """The key budget and head count at which the score reaches the target. A number is None if no tested point reaches
    it. Where heads share keys, D_K* is the key budget of the layer with the fewest weights.

    Attributes:
        key_budget: D_K*, central: the mean score reaches the target.
        low: D_K*, optimistic: the upper end of the interval reaches the target.
        high: D_K*, conservative: the lower end of the interval reaches the target.
        heads: h*, the head count at the central value.
        heads_low: The smallest head count that is not significantly different from h*.
        heads_high: The largest head count that is not significantly different from h*.
        key_heads: The number of key heads at the central value; None: as many as heads.
    """

    key_budget: int | None
    low: int | None
    high: int | None
    heads: int | None
    heads_low: int | None
    heads_high: int | None
    key_heads: int | None = None

    @property
    def key_width(self) -> int | None:
        """d_k* = D_K*/h*; where heads share keys, D_K* over the key heads."""
        return (
            None if self.key_budget is None or self.heads is None else self.key_budget // (self.key_heads or self.heads)
        )

    @property
    def facts(self) -> dict[str, int | None]:
        """The numbers by name; `key_heads` only where heads share keys."""
        return {name: value for name, value in asdict(self).items() if name != "key_heads" or value is not None}


def threshold(points: Sequence[Point], *, target: float = TARGET) -> Threshold:
    """D_K* central, optimistic and conservative, with h* and its range.

    Args:
        points: The tested points; a point without scores does not count.
        target: The mean score that counts as working.

    Returns:
        The threshold. Its numbers are None if no point reaches the target.
    """
    scored = [point for point in points if point.scores]
    best = best_point([point for point in scored if point.mean >= target])
    retained = [] if best is None else _retained(scored, best)
    return Threshold(
        key_budget=None if best is None else best.key_budget,
        low=_smallest(scored, lambda point: point.interval[1] >= target),
        high=_smallest(scored, lambda point: point.interval[0] >= target),
        heads=None if best is None else best.heads,
        heads_low=min(retained, default=None),
        heads_high=max(retained, default=None),
        key_heads=None if best is None else best.key_heads,
    )


def widths_below(key_width: int) -> range:
    """The key widths below D_K* at which its optimistic end is looked for, from the largest."""
    return range(key_width - 1, max(0, math.floor(key_width * (1 - AROUND)) - 1), -1)


def widths_above(key_width: int) -> range:
    """The key widths from D_K* on at which its conservative end is looked for, from the smallest."""
    return range(key_width, math.ceil(key_width * (1 + AROUND)) + 1)


def _smallest(points: Sequence[Point], passes: Callable[[Point], bool]) -> int | None:
    first = min((point for point in points if passes(point)), key=lambda point: point.size, default=None)
    return None if first is None else first.key_budget


def best_point(passing: Sequence[Point]) -> Point | None:
    """The smallest size; ties go to the larger mean score, then to fewer heads."""
    return min(passing, key=lambda point: (point.size, -point.mean, point.heads), default=None)


def _retained(points: Sequence[Point], best: Point) -> set[int]:
    """Head counts with a tested D_K within 10 % of D_K* that do not differ from h* by a paired t-test."""
    pool = [point for point in points if abs(point.size - best.size) <= POOL * best.size]
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
    # scipy.stats.ttest_1samp without its checks: a search calls it thousands of times
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(len(common)))
    return bool(2 * stdtr(len(common) - 1, -abs(t)) <= SIGNIFICANCE)
