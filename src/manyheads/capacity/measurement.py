"""measure: D_K* of a problem, over every key width, with as few runs as it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from jaxtyping import Float
from numpy import ndarray

from manyheads.bounds import freedom_key_width, paper_key_budget
from manyheads.capacity.goal import Goal
from manyheads.capacity.point import Point, points
from manyheads.capacity.search import Bracket, Search
from manyheads.capacity.thresholds import Threshold, threshold
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.sweep import LayerTrainer, Progress, Record, Store, Workers, sweep, threads
from manyheads.sweep.store.record import FINISHED
from manyheads.training import Run

REACH = 6  # the search gives up at this many times the larger of the predicted key budgets

Wanted = tuple[int, int, int]  # heads, key width, seed


@dataclass(frozen=True)
class Budget:
    """Where a measurement stops although it could say more; what it has by then is stored and taken up again."""

    runs: int | None = None  # newly trained ones
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise InputError(f"a budget of runs is at least 1, not {self.runs}")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"a budget of time is more than 0 seconds, not {self.seconds:g}")


@dataclass(frozen=True)
class Capacity:
    """D_K*, what it rests on and what it cost."""

    like: Run
    relations: int
    goal: Goal
    seeds: int
    threshold: Threshold
    curve: tuple[Point, ...]
    runs: int  # that the search took, stored ones included
    filled: int  # more runs, to fill in the curve
    grid: int  # that all head counts at all key widths up to the largest budget tried would have taken
    unscored: int  # runs without a score (failed, diverged, quarantined): their points count as not working
    complete: bool  # False where the budget ended the search

    @property
    def key_budget(self) -> int | None:
        """D_K*."""
        return self.threshold.key_budget

    @property
    def low(self) -> int | None:
        """The optimistic end of D_K*'s range."""
        return self.threshold.low

    @property
    def high(self) -> int | None:
        """The conservative end of D_K*'s range."""
        return self.threshold.high

    @property
    def heads(self) -> int | None:
        """h*."""
        return self.threshold.heads


@dataclass(frozen=True)
class Watch:
    """What a person who watches sees whenever runs have ended."""

    trained: int  # newly, by this measurement
    left: int  # about
    brackets: Mapping[int, Bracket]  # by head count
    points: tuple[Point, ...]
    best: int | None  # the smallest key budget that works so far


def measure(
    like: Run,
    store: Store,
    *,
    heads: Sequence[int],
    seeds: Sequence[int],
    goal: Goal | None = None,
    budget: Budget | None = None,
    workers: Workers | Executor | None = None,
    graph: Graph | None = None,
    embedding: Float[ndarray, "items d_model"] | None = None,
    fill: bool = False,
    watch: Callable[[Watch], None] | None = None,
) -> Capacity:
    """The smallest key budget at which runs like this one work, over every key width of the given head counts.

    `like` gives everything but heads, key_width and seed. The search starts where the degrees-of-freedom law or
    the paper's says, gallops, bisects and sweeps the neighbourhood. It says little of head counts that cannot be the
    best; `fill` has all of them trained below and above D_K* in the end, so that the curve shows them.
    """
    if not heads or not seeds or min(heads) < 1:
        raise InputError("a measurement needs at least one head count (1 or more) and one seed")
    heads, seeds, goal = sorted(set(heads)), sorted(set(seeds)), goal or Goal()
    goal.check(like)
    starts, limit = predictions(like, heads, graph)
    crew = workers or threads()
    try:
        trainer = LayerTrainer(graph=graph, embedding=embedding)
        state = _Measurement(like, store, trainer, crew, goal, budget or Budget(), watch)
        # a head wider than d_model has no more freedom: W_Q·W_Kᵀ is a d_model × d_model matrix
        search = Search(starts, seeds, goal.target, limit, widest=like.d_model)
        complete = state.run(search, lambda: search.wanted() or search.wanted_around())
        runs, reached = search.tried, max((heads * width for heads, width in search.scores), default=0)
        complete = complete and (not fill or state.run(search, search.wanted_curve))
    finally:
        if workers is None and isinstance(crew, Workers):
            crew.close()
    unscored = sum(score is None for by_seed in search.scores.values() for score in by_seed.values())
    return Capacity(
        like=like,
        relations=_relations(like, graph),
        goal=goal,
        seeds=len(seeds),
        threshold=threshold(search.full_points(), target=goal.target),
        curve=tuple(search.points()),
        runs=runs,
        filled=search.tried - runs,
        grid=sum(min(reached // count, like.d_model) for count in heads) * len(seeds),
        unscored=unscored,
        complete=complete,
    )


def predictions(like: Run, heads: Sequence[int], graph: Graph | None) -> tuple[dict[int, int], int]:
    """The key width to start from for each head count, and the largest key budget worth trying."""
    relations = _relations(like, graph)
    paper = float(paper_key_budget(items=like.items, relations=relations, d_model=like.d_model, degree=like.degree))
    widths = {
        count: freedom_key_width(items=like.items, relations=relations, d_model=like.d_model, heads=count)
        for count in heads
    }
    # where the law has no answer (too few heads for full rank) start from the paper's budget
    starts = {count: width or max(1, round(paper / count)) for count, width in widths.items()}
    freedom = [count * width for count, width in widths.items() if width is not None]
    limit = math.ceil(REACH * max(paper, min(freedom, default=0)))
    return starts, max(limit, max(heads))


class _Measurement:
    """The rounds of one measurement: what the search wants is swept, what came of it is told to the search."""

    def __init__(
        self,
        like: Run,
        store: Store,
        trainer: LayerTrainer,
        workers: Workers | Executor,
        goal: Goal,
        budget: Budget,
        watch: Callable[[Watch], None] | None,
    ) -> None:
        self.like, self.store, self.trainer, self.workers, self.goal = like, store, trainer, workers, goal
        self.watch, self.trained = watch, 0
        self.runs_left = math.inf if budget.runs is None else budget.runs
        self.deadline = None if budget.seconds is None else time.monotonic() + budget.seconds

    def run(self, search: Search, wishes: Callable[[], list[Wanted]]) -> bool:
        """Whether there is nothing left to wish for within the budget."""
        while wanted := wishes():
            runs = {want: _run(self.like, want) for want in wanted}
            known = self.store.statuses(self.trainer.engine, [run.id for run in runs.values()])
            new = [want for want, run in runs.items() if known.get(run.id, ("",))[0] not in FINISHED]
            unaffordable = new[int(self.runs_left) :] if self.runs_left < len(new) else []
            for want in unaffordable:
                del runs[want]
            scores = self._sweep(search, runs)
            search.tell(scores)
            self.runs_left -= len(new)
            if len(scores) < len(wanted):
                return False
        return True

    def _sweep(self, search: Search, runs: Mapping[Wanted, Run]) -> dict[Wanted, float | None]:
        """The score of every run that was done in time."""
        wants = {run.id: want for want, run in runs.items()}
        fresh: list[tuple[Wanted, float]] = []

        def show(progress: Progress) -> None:
            self.trained += len(progress.latest)
            fresh.extend(
                (wants[record.id], score)
                for record in progress.latest
                if (score := self.goal.score(record)) is not None
            )
            if self.watch is not None:
                self.watch(self._seen(search, fresh, progress.total - progress.done))

        records = sweep(
            list(runs.values()),
            self.store,
            trainer=self.trainer,
            workers=self.workers,
            deadline=self.deadline,
            progress=show,
        )
        return {wants[record.id]: self.goal.score(record) for record in records if not _out_of_time(record)}

    def _seen(self, search: Search, fresh: Sequence[tuple[Wanted, float]], waiting: int) -> Watch:
        scores = {
            (heads, width, seed): score
            for (heads, width), by_seed in search.scores.items()
            for seed, score in by_seed.items()
            if score is not None
        } | dict(fresh)
        made = points((*want, score) for want, score in scores.items())
        return Watch(self.trained, max(waiting, search.outlook - len(fresh)), search.brackets, tuple(made), search.best)


def _out_of_time(record: Record) -> bool:
    """Cut short by the budget: such a run says nothing yet and is taken up again."""
    return record.status in ("cancelled", "timeout")


def _relations(like: Run, graph: Graph | None) -> int:
    return graph.relations if graph is not None else like.items * like.degree


def _run(like: Run, want: Wanted) -> Run:
    heads, key_width, seed = want
    return replace(like, heads=heads, key_width=key_width, seed=seed)
