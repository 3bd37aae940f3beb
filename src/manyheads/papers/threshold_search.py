"""ThresholdSearch: the adaptive search for D_K*, repeated from rows; the same rows give the same search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from manyheads.bounds import freedom_key_width
from manyheads.capacity import Goal, Point, Search, Threshold, threshold
from manyheads.capacity.measurement import Wanted, predictions
from manyheads.capacity.thresholds import POOL
from manyheads.papers.effort import Scale
from manyheads.papers.panel import WINDOW, Panel
from manyheads.papers.rows import Rows
from manyheads.training import Run

GUESS = 1.25  # training needs about this multiple of the key width that the degrees of freedom predict


@dataclass(frozen=True)
class ThresholdSearch:
    """The search for the smallest key budget that reaches a goal, over every key width of some head counts.

    The runs depend on the results of the first runs, so they cannot be listed in advance. `follow` says how far the
    rows lead and which runs have to be trained next.
    """

    like: Run  # gives everything but heads, key width and seed
    heads: tuple[int, ...]
    seeds: tuple[int, ...]
    limit: int  # the largest key budget that is tried
    goal: Goal = field(default_factory=Goal)

    def follow(self, rows: Rows) -> SearchTrail:
        """Follow the search through the rows until it asks for a run that has no row."""
        if self in rows.finished_searches:
            return rows.finished_searches[self]
        trail = self._follow(lambda run: run.id in rows, lambda run: self.goal.score(rows[run.id]))
        if not trail.missing:
            rows.finished_searches[self] = trail
        return trail

    def foresee(self, rows: Rows) -> SearchTrail:
        """An estimate of all the runs that the search will ask for.

        A missing run is assumed to succeed if its key width is at least GUESS times the prediction of the degrees of
        freedom.
        """
        if self in rows.finished_searches:
            return rows.finished_searches[self]

        def score(run: Run) -> float | None:
            return self.goal.score(rows[run.id]) if run.id in rows else float(_foreseen(run))

        return rows.once(("foresee", self), lambda: self._follow(lambda _: True, score))

    def _follow(self, is_known: Callable[[Run], bool], score: Callable[[Run], float | None]) -> SearchTrail:
        search = Search(
            _starts(self.like, self.heads), self.seeds, self.goal.target, self.limit, widest=self.like.d_model
        )
        asked: list[Run] = []
        while wanted := search.wanted() or search.wanted_around():
            runs = {want: _run(self.like, want) for want in wanted}
            asked += runs.values()
            missing = tuple(run for run in runs.values() if not is_known(run))
            if missing:
                return SearchTrail(self, tuple(asked), missing, ())
            search.tell({want: score(run) for want, run in runs.items()})
        return SearchTrail(self, tuple(asked), (), tuple(search.full_points()))


@dataclass(frozen=True)
class SearchTrail:
    """The course of a search through the rows."""

    search: ThresholdSearch
    runs: tuple[Run, ...]  # the runs that it asked for
    missing: tuple[Run, ...]  # its runs that have no row
    points: tuple[Point, ...]  # the points with all seeds; empty while runs are missing

    @cached_property
    def threshold(self) -> Threshold:
        """D_K* and h*; all None while runs are missing, and if no key budget up to the limit works."""
        return threshold(self.points, target=self.search.goal.target)

    def smallest(self) -> dict[int, int]:
        """By head count, the smallest key budget that works, among the budgets up to 10 % above D_K*."""
        best = self.threshold.key_budget
        works = [point for point in self.points if point.mean >= self.search.goal.target]
        near = [point for point in works if best is not None and point.key_budget <= math.floor((1 + POOL) * best)]
        return {
            heads: min(point.key_budget for point in near if point.heads == heads)
            for heads in sorted({point.heads for point in near})
        }


def panel_search(
    panel: Panel, scale: Scale, *, heads: Sequence[int], like: Run | None = None, exact: bool = False
) -> ThresholdSearch:
    """The search at the problem of a panel, with its seeds.

    Args:
        panel: gives the problem and the seeds.
        scale: the effort.
        heads: the head counts.
        like: the training; None means the paper's.
        exact: whether every pair has to be right; otherwise the mean F1 has to reach 0.99.

    Returns:
        A search up to 2.4 times the paper's x, where the widest window ends.
    """
    like = like or panel.run(1, 1, 0, scale)
    limit = math.ceil(WINDOW[-1] * panel.law())
    return ThresholdSearch(like, tuple(heads), tuple(panel.seeds(scale)), limit, Goal(exact=exact))


@cache  # a search is followed many times
def _starts(like: Run, heads: tuple[int, ...]) -> dict[int, int]:
    return predictions(like.task, heads)[0]


@cache
def _run(like: Run, want: Wanted) -> Run:
    heads, key_width, seed = want
    return replace(like, heads=heads, key_width=key_width, seed=seed)


def _foreseen(run: Run) -> bool:
    return run.key_width >= _guess(run.items, run.task.relations, run.d_model, run.heads)


@cache
def _guess(items: int, relations: int, d_model: int, heads: int) -> float:
    width = freedom_key_width(items=items, relations=relations, d_model=d_model, heads=heads)
    return math.inf if width is None else GUESS * width
