"""The search for D_K*: which (heads, key_width) to try next, from the scores so far; no clock, store or training."""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from manyheads.capacity.thresholds import (
    POOL,
    Goal,
    Point,
    Threshold,
    best_point,
    differs,
    threshold,
    widths_above,
    widths_below,
)

NEIGHBOURHOOD = 2  # key widths tried below a threshold although its neighbour failed: F1 is not monotone
CURVE = (0.4, 0.6, 0.8, 1.0, 1.25, 1.5)  # multiples of D_K* at which every head count is trained for the curve
MOST_WANTED = 20_000  # runs that are asked for at once: there can be more seeds than memory
PROBE = 2  # seeds tried first: they often show that the mean cannot reach the target

# Yields key widths to try, receives whether each passed, returns the smallest width that passed.
Narrowing = Generator[int, bool, int | None]


def narrow(start: int, cap: Callable[[], int]) -> Narrowing:
    """Double the step from `start` on, bisect, then try the neighbourhood.

    Args:
        start: The first key width.
        cap: Returns the largest key width that can still lead to D_K*; it falls while other head counts are searched.
    """
    failed, passed, step = 0, None, max(1, start // 4)
    width = min(start, cap())
    while passed is None or failed < passed - 1:
        if (yield width):
            passed = width
        else:
            failed = width
        if failed >= cap():  # no larger width can lead to D_K*
            return passed
        if passed is None:  # upwards, by doubled steps
            width, step = min(failed + step, cap()), 2 * step
        elif not failed:  # downwards, by doubled steps
            width, step = max(passed - step, 1), 2 * step
        else:
            width = (failed + passed) // 2
    below = passed - 2  # passed − 1 is known to fail
    while below >= max(1, passed - 1 - NEIGHBOURHOOD):
        if (yield below):
            passed = below
        below -= 1
    return passed


@dataclass(frozen=True)
class Bracket:
    """The state of the search at one head count.

    Attributes:
        failed: The largest key width that failed, below `passed`; 0 if none failed.
        passed: The smallest key width that passed; None if none passed.
        looking: The key width that is tried now; None if the search at this head count has ended.
    """

    failed: int
    passed: int | None
    looking: int | None


@dataclass
class Search:
    """The searches of all head counts side by side. They share the best key budget so far.

    Attributes:
        starts: By head count, the key width that a law predicts.
        seeds: The seeds of every point.
        target: The mean score that counts as working.
        limit: The largest size to try: D_K, or (D_Q + D_K)/2 where heads share keys.
        widest: The largest key width to try.
        scores: By (heads, key_width) and seed; None if a run has no score.
        best: The smallest size that works so far.
        interval: The interval of a point's mean score, for the ends of D_K*'s range.
        key_heads: The number of key heads for a number of heads; None: as many as heads.
    """

    starts: Mapping[int, int]
    seeds: Sequence[int]
    target: float
    limit: int
    widest: int
    scores: dict[tuple[int, int], dict[int, float | None]] = field(default_factory=dict)
    best: float | None = None
    interval: Callable[[Point], tuple[float, float]] = operator.attrgetter("interval")
    key_heads: Callable[[int], int | None] = lambda heads: None

    def __post_init__(self) -> None:
        self._searches = {heads: narrow(max(1, start), self._cap(heads)) for heads, start in self.starts.items()}
        # the head count of the smallest predicted layer goes first: its threshold limits the search of all others
        self._queue = deque(sorted(self.starts, key=lambda heads: (self.size(heads, self.starts[heads]), heads)))
        self._waiting: dict[int, int] = {}
        self._begin()

    def size(self, heads: int, width: int) -> float:
        """(D_Q + D_K)/2 of a shape; without shared keys it is D_K.

        Args:
            heads: h.
            width: d_k.

        Returns:
            The size, in units of 2·d_model weights.
        """
        return (heads + (self.key_heads(heads) or heads)) / 2 * width

    def wanted(self) -> list[tuple[int, int, int]]:
        """The (heads, key_width, seed) to train next: two seeds of a new point, then the others."""
        wanted = (
            (heads, width, seed)
            for heads, width in sorted(self._waiting.items())
            for seed in (self.seeds[:PROBE] if (heads, width) not in self.scores else self.seeds)
            if seed not in self.scores.get((heads, width), {})
        )
        return list(islice(wanted, MOST_WANTED))

    def wanted_around(self) -> list[tuple[int, int, int]]:
        """After D_K* is found: all seeds of its neighbours, until the interval lies beyond the target on each side."""
        found = threshold(self.full_points(), target=self.target)
        if found.key_width is None or found.heads is None:
            return []
        above, below = widths_above(found.key_width), widths_below(found.key_width)
        return self._until(found.heads, above, lambda point: self.interval(point)[0] >= self.target) or self._until(
            found.heads, below, lambda point: self.interval(point)[1] < self.target
        )

    def wanted_curve(self) -> list[tuple[int, int, int]]:
        """After D_K* is found: all seeds of every head count below and above it, for the curves."""
        if self.best is None:
            return []
        best = self.best
        widths = {
            (heads, max(1, round(share * best / self.size(heads, 1)))) for heads in self.starts for share in CURVE
        }
        wanted = (
            (heads, width, seed)
            for heads, width in sorted(widths)
            for seed in self.seeds
            if seed not in self.scores.get((heads, width), {})
        )
        return list(islice(wanted, MOST_WANTED))

    def _until(self, heads: int, widths: range, is_end: Callable[[Point], bool]) -> list[tuple[int, int, int]]:
        for width in widths:
            scores = self.scores.get((heads, width), {})
            missing = list(islice(((heads, width, seed) for seed in self.seeds if seed not in scores), MOST_WANTED))
            if missing or is_end(self._point(heads, width)):
                return missing
        return []

    def tell(self, results: Mapping[tuple[int, int, int], float | None]) -> None:
        """Take the scores of wanted runs and advance every search.

        Args:
            results: By (heads, key_width, seed); None if a run has no score.
        """
        for (heads, width, seed), score in results.items():
            self.scores.setdefault((heads, width), {})[seed] = score
        for heads in sorted(self._waiting):
            self._advance(heads)
        self._begin()

    @property
    def brackets(self) -> dict[int, Bracket]:
        """The state of each head count."""
        return {heads: self._bracket(heads) for heads in self._searches}

    @property
    def outlook(self) -> int:
        """About how many runs are left: the bisections of open searches, then the neighbourhoods."""
        widths = 0
        for bracket in self.brackets.values():
            if bracket.looking is not None:
                gap = bracket.looking if bracket.passed is None else bracket.passed - bracket.failed
                widths += math.ceil(math.log2(gap + 1)) + NEIGHBOURHOOD
        # about half of the points fail after the probing seeds
        return round(widths * (PROBE + len(self.seeds)) / 2) + len(self.wanted_around())

    @property
    def tried(self) -> int:
        """How many runs have been reported."""
        return sum(map(len, self.scores.values()))

    def points(self) -> list[Point]:
        """All points so far, sorted by size."""
        made = [self._point(heads, width) for heads, width in self.scores]
        return sorted(made, key=lambda point: (point.size, point.heads))

    def full_points(self) -> list[Point]:
        """The points with a score for every seed: the interval of two probing seeds is too wide to use."""
        return [point for point in self.points() if len(point.scores) == len(self.seeds)]

    def verdict(self, heads: int, width: int) -> bool | None:
        """Whether a point passes.

        Args:
            heads: h.
            width: d_k.

        Returns:
            True or False; None if the result depends on seeds that have no score yet.
        """
        scores = self.scores.get((heads, width), {})
        # no score is above 1: the mean is at most this after all seeds
        attainable = sum(score or 0.0 for score in scores.values()) + len(self.seeds) - len(scores)
        if None in scores.values() or attainable / len(self.seeds) < self.target:
            return False
        return True if len(scores) == len(self.seeds) else None

    def _bracket(self, heads: int) -> Bracket:
        verdicts = {width: self.verdict(heads, width) for count, width in self.scores if count == heads}
        passed = min((width for width, verdict in verdicts.items() if verdict), default=None)
        below = (width for width, verdict in verdicts.items() if verdict is False and width < (passed or math.inf))
        return Bracket(max(below, default=0), passed, self._waiting.get(heads))

    def _point(self, heads: int, width: int) -> Point:
        scores = self.scores[heads, width]
        known = tuple((seed, score) for seed, score in scores.items() if score is not None)
        return Point(heads, width, known, self.key_heads(heads))

    def _advance(self, heads: int) -> None:
        while heads in self._waiting:
            width = self._waiting[heads]
            passed = self.verdict(heads, width)
            if passed is None:
                return
            if passed:
                self.best = min(self.best or math.inf, self.size(heads, width))
            try:
                self._waiting[heads] = self._searches[heads].send(passed)
            except StopIteration:
                del self._waiting[heads]

    def _begin(self) -> None:
        """Search one head count after the other until a point works, then all other head counts at once."""
        while self._queue and (self.best is not None or not self._waiting):
            heads = self._queue.popleft()
            if self.size(heads, 1) <= self._largest():
                self._waiting[heads] = next(self._searches[heads])

    def _largest(self) -> int:
        """The largest size to try: a size more than 10 % above the best is neither D_K* nor in its pool."""
        return self.limit if self.best is None else min(self.limit, math.floor((1 + POOL) * self.best))

    def _cap(self, heads: int) -> Callable[[], int]:
        return lambda: max(1, min(self.widest, math.floor(self._largest() / self.size(heads, 1))))


def search_threshold(points: Sequence[Point], goal: Goal) -> Threshold:
    """D_K* and h* of points that a search chose; `threshold` is for a grid whose points do not depend on the scores.

    D_K* is the same as that of `threshold`. Its range is looked for at h* heads only, at the neighbouring key widths
    within 25 %, all of which a measurement trains. So other points of a store do not change the range. A head count is
    in the range of h* only if it reaches the goal itself at a D_K up to 10 % above D_K*, and its smallest such point is
    not significantly worse than the best point.

    Args:
        points: The points with all seeds.
        goal: When a point counts as working.

    Returns:
        The threshold. Its numbers are None if no point works; `high` is None if no tested neighbour is surely above.
    """
    scored = sorted((point for point in points if point.scores), key=lambda point: point.size)
    works = [point for point in scored if point.mean >= goal.target]
    best = best_point(works)
    if best is None:
        return Threshold(None, None, None, None, None, None)
    line = {point.key_width: point for point in scored if point.heads == best.heads}
    low, high = best.key_width, None
    for width in widths_below(best.key_width):
        if width in line:
            if goal.interval(line[width])[1] < goal.target:
                break
            low = width
    for width in widths_above(best.key_width):
        if width in line and goal.interval(line[width])[0] >= goal.target:
            high = width
            break
    firsts: dict[int, Point] = {}
    for point in works:
        if point.size <= math.floor((1 + POOL) * best.size):
            firsts.setdefault(point.heads, point)
    heads = {best.heads} | {n for n, point in firsts.items() if point.mean >= best.mean or not differs(point, best)}
    return Threshold(
        key_budget=best.key_budget,
        low=best.groups * low,
        high=None if high is None else best.groups * high,
        heads=best.heads,
        heads_low=min(heads),
        heads_high=max(heads),
        key_heads=best.key_heads,
    )
