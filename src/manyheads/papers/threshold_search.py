"""Hunt: the adaptive search for D_K*, told by rows alone and so the same wherever they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from manyheads.bounds import freedom_key_width
from manyheads.capacity import Goal, Point, Search, Threshold, threshold
from manyheads.capacity.measurement import Wanted, predictions
from manyheads.capacity.thresholds import POOL
from manyheads.papers.panel import WINDOW, Panel
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.training import Run

GUESS = 1.25  # training needs about so many times the key width that its degrees of freedom ask for


@dataclass(frozen=True)
class Hunt:
    """The smallest key budget at which runs like one reach a goal, over every key width of some head counts.

    Which runs that takes depends on how the first of them come out, so that there is no list of them beforehand:
    `follow` says how far the rows lead and what has to be trained next.
    """

    like: Run  # gives everything but heads, key width and seed
    heads: tuple[int, ...]
    seeds: tuple[int, ...]
    limit: int  # the largest key budget that is tried
    goal: Goal = field(default_factory=Goal)

    def follow(self, rows: Rows) -> Trail:
        """Tell the search what the rows hold until it asks for a run that has none."""
        if self in rows.finished:
            return rows.finished[self]
        trail = self._follow(lambda run: run.id in rows, lambda run: self.goal.score(rows[run.id]))
        if not trail.missing:
            rows.finished[self] = trail
        return trail

    def foresee(self, rows: Rows) -> Trail:
        """About the runs it will have made in the end.

        Where there is no row yet, a head count is taken to need GUESS times the key width that the law asks for.
        """
        if self in rows.finished:
            return rows.finished[self]
        return self._follow(
            lambda _: True,
            lambda run: self.goal.score(rows[run.id]) if run.id in rows else float(_foreseen(run)),
        )

    def _follow(self, is_known: Callable[[Run], bool], score: Callable[[Run], float | None]) -> Trail:
        search = Search(
            _starts(self.like, self.heads), self.seeds, self.goal.target, self.limit, widest=self.like.d_model
        )
        asked: list[Run] = []
        while wanted := search.wanted() or search.wanted_around():
            runs = {want: _run(self.like, want) for want in wanted}
            asked += runs.values()
            missing = tuple(run for run in runs.values() if not is_known(run))
            if missing:
                return Trail(self, tuple(asked), missing, ())
            search.tell({want: score(run) for want, run in runs.items()})
        return Trail(self, tuple(asked), (), tuple(search.full_points()))


@dataclass(frozen=True)
class Trail:
    """How far a hunt came: what it asked for, what of that is missing, and what it found once nothing is."""

    hunt: Hunt
    runs: tuple[Run, ...]
    missing: tuple[Run, ...]
    points: tuple[Point, ...]  # with all seeds; none while runs are missing

    @cached_property
    def threshold(self) -> Threshold:
        """D_K* and h*; all None while runs are missing, and where nothing up to the limit works."""
        return threshold(self.points, target=self.hunt.goal.target)

    def smallest(self) -> dict[int, int]:
        """By head count, the smallest key budget that works, of those the search looks at: up to 10 % above D_K*."""
        best = self.threshold.key_budget
        works = [point for point in self.points if point.mean >= self.hunt.goal.target]
        near = [point for point in works if best is not None and point.key_budget <= math.floor((1 + POOL) * best)]
        return {
            heads: min(point.key_budget for point in near if point.heads == heads)
            for heads in sorted({point.heads for point in near})
        }


def panel_hunt(
    panel: Panel, scale: Scale, *, heads: Sequence[int], like: Run | None = None, exact: bool = False
) -> Hunt:
    """A hunt at a panel's problem, with its seeds, up to where the widest window of the paper's kind of grid ends."""
    like = like or panel.run(1, 1, 0, scale)
    limit = math.ceil(WINDOW[-1] * panel.law())
    return Hunt(like, tuple(heads), tuple(panel.seeds(scale)), limit, Goal(exact=exact))


@cache  # a hunt is followed many times over
def _starts(like: Run, heads: tuple[int, ...]) -> dict[int, int]:
    return predictions(like, heads, None)[0]


@cache
def _run(like: Run, want: Wanted) -> Run:
    heads, key_width, seed = want
    return replace(like, heads=heads, key_width=key_width, seed=seed)


def _foreseen(run: Run) -> bool:
    return run.key_width >= _guess(run.items, run.items * run.degree, run.d_model, run.heads)


@cache
def _guess(items: int, relations: int, d_model: int, heads: int) -> float:
    width = freedom_key_width(items=items, relations=relations, d_model=d_model, heads=heads)
    return math.inf if width is None else GUESS * width
