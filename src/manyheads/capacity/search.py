"""The search for D_K*: which (heads, key_width) to try next, given what was seen; no clock, no store, no training."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from manyheads.capacity.thresholds import POOL, Point, threshold

NEIGHBOURHOOD = 2  # widths below a threshold that are tried although their neighbour failed: F1 is not monotone
SETTLE = 0.25  # how far around D_K*, as a part of it, its conservative and optimistic bounds are looked for
CURVE = (0.4, 0.6, 0.8, 1.0, 1.25, 1.5)  # of D_K*: the key budgets at which every head count is shown in a curve
PROBE = 2  # seeds tried first: they often show that the rest cannot save the mean

# Yields key widths to try, is sent whether each passed, returns the smallest that did.
Narrowing = Generator[int, bool, int | None]


def narrow(start: int, cap: Callable[[], int]) -> Narrowing:
    """Gallop from start, bisect, then sweep the neighbourhood; cap() is the largest width still of interest."""
    failed, passed, step = 0, None, max(1, start // 4)
    width = min(start, cap())
    while passed is None or failed < passed - 1:
        if (yield width):
            passed = width
        else:
            failed = width
        if failed >= cap():  # whatever passes from here on is no longer of interest
            return passed
        if passed is None:  # gallop up
            width, step = min(failed + step, cap()), 2 * step
        elif not failed:  # gallop down
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
    """Where one head count stands: the key width it looks at, between one that failed and one that passed."""

    failed: int  # the largest failure below `passed`; 0 where there is none
    passed: int | None  # the smallest that passed
    looking: int | None  # None where the search of this head count has ended


@dataclass
class Search:
    """The searches of all head counts side by side, sharing the best key budget found so far."""

    starts: Mapping[int, int]  # by heads: the key width a law predicts
    seeds: Sequence[int]
    target: float
    limit: int  # the largest key budget worth trying
    widest: int  # the largest key width worth trying
    scores: dict[tuple[int, int], dict[int, float | None]] = field(default_factory=dict)
    best: int | None = None

    def __post_init__(self) -> None:
        self._searches = {heads: narrow(max(1, start), self._cap(heads)) for heads, start in self.starts.items()}
        # the head count of the smallest predicted budget goes first: what it finds caps the search of all others
        self._queue = deque(sorted(self.starts, key=lambda heads: (heads * self.starts[heads], heads)))
        self._waiting: dict[int, int] = {}
        self._begin()

    def wanted(self) -> list[tuple[int, int, int]]:
        """The (heads, key_width, seed) to train next: two seeds of a new point, the rest once these leave it open."""
        return [
            (heads, width, seed)
            for heads, width in sorted(self._waiting.items())
            for seed in (self.seeds[:PROBE] if (heads, width) not in self.scores else self.seeds)
            if seed not in self.scores.get((heads, width), {})
        ]

    def wanted_around(self) -> list[tuple[int, int, int]]:
        """Once D_K* is found: all seeds of its neighbours, up to where the interval clears the target on each side."""
        found = threshold(self.full_points(), target=self.target)
        if found.key_width is None or found.heads is None:
            return []
        above = range(found.key_width, math.ceil(found.key_width * (1 + SETTLE)) + 1)
        below = range(found.key_width - 1, max(0, math.floor(found.key_width * (1 - SETTLE)) - 1), -1)
        return self._settle(found.heads, above, lambda point: point.interval[0] >= self.target) or self._settle(
            found.heads, below, lambda point: point.interval[1] < self.target
        )

    def wanted_curve(self) -> list[tuple[int, int, int]]:
        """Once D_K* is found: all seeds of every head count below and above it, for whoever wants to see the curves."""
        if self.best is None:
            return []
        widths = {(heads, max(1, round(share * self.best / heads))) for heads in self.starts for share in CURVE}
        return [
            (heads, width, seed)
            for heads, width in sorted(widths)
            for seed in self.seeds
            if seed not in self.scores.get((heads, width), {})
        ]

    def _settle(self, heads: int, widths: range, settled: Callable[[Point], bool]) -> list[tuple[int, int, int]]:
        for width in widths:
            scores = self.scores.get((heads, width), {})
            missing = [(heads, width, seed) for seed in self.seeds if seed not in scores]
            if missing or settled(self._point(heads, width)):
                return missing
        return []

    def tell(self, results: Mapping[tuple[int, int, int], float | None]) -> None:
        """Scores of what was wanted; None where a run has none. Moves every search as far as they decide."""
        for (heads, width, seed), score in results.items():
            self.scores.setdefault((heads, width), {})[seed] = score
        for heads in sorted(self._waiting):
            self._advance(heads)
        self._begin()

    @property
    def brackets(self) -> dict[int, Bracket]:
        """Where each head count stands."""
        return {heads: self._bracket(heads) for heads in self._searches}

    @property
    def outlook(self) -> int:
        """About how many runs are left: bisections of what is open, then the neighbourhoods."""
        widths = 0
        for bracket in self.brackets.values():
            if bracket.looking is not None:
                gap = bracket.looking if bracket.passed is None else bracket.passed - bracket.failed
                widths += math.ceil(math.log2(gap + 1)) + NEIGHBOURHOOD
        # about half of what is tried is hopeless and costs the probing seeds only
        return round(widths * (PROBE + len(self.seeds)) / 2) + len(self.wanted_around())

    @property
    def tried(self) -> int:
        """How many runs it was told of."""
        return sum(map(len, self.scores.values()))

    def points(self) -> list[Point]:
        """Everything seen so far."""
        made = [self._point(heads, width) for heads, width in self.scores]
        return sorted(made, key=lambda point: (point.key_budget, point.heads))

    def full_points(self) -> list[Point]:
        """The points with a score for every seed: an interval over the two probing seeds alone would say nothing."""
        return [point for point in self.points() if len(point.scores) == len(self.seeds)]

    def verdict(self, heads: int, width: int) -> bool | None:
        """Whether the point passes; None while that is open."""
        scores = self.scores.get((heads, width), {})
        # no score is above 1: seeds not yet tried can lift the mean at most this far
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
        return Point(heads, width, tuple((seed, score) for seed, score in scores.items() if score is not None))

    def _advance(self, heads: int) -> None:
        while heads in self._waiting:
            width = self._waiting[heads]
            passed = self.verdict(heads, width)
            if passed is None:
                return
            if passed:
                self.best = min(self.best or heads * width, heads * width)
            try:
                self._waiting[heads] = self._searches[heads].send(passed)
            except StopIteration:
                del self._waiting[heads]

    def _begin(self) -> None:
        """One head count after the other until something works, then all the rest side by side."""
        while self._queue and (self.best is not None or not self._waiting):
            heads = self._queue.popleft()
            if heads <= self._largest():
                self._waiting[heads] = next(self._searches[heads])

    def _largest(self) -> int:
        """The largest key budget of interest: beyond 10 % above the best none can attain D_K* or enter its pool."""
        return self.limit if self.best is None else min(self.limit, math.floor((1 + POOL) * self.best))

    def _cap(self, heads: int) -> Callable[[], int]:
        return lambda: max(1, min(self.widest, self._largest() // heads))
