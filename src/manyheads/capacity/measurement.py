"""measure: D_K* of a task over every key width, with few runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from types import MappingProxyType

from numpy import ndarray

from manyheads.bounds import freedom_key_width, paper_key_budget
from manyheads.bounds.shape import key_heads_for
from manyheads.capacity.measured_capacity import Budget, Capacity, MeasureProgress
from manyheads.capacity.search import Search, search_threshold
from manyheads.capacity.store_summary import known_points
from manyheads.capacity.thresholds import Goal, points
from manyheads.errors import InputError, path_of, require_type
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.numbers import check_numbers
from manyheads.problem.embedding import Embedding
from manyheads.problem.graph import Graph
from manyheads.sweep import LayerTrainer, Record, Store, SweepProgress, Workers, sweep, threads
from manyheads.training.protocol import Protocol, step_limit
from manyheads.training.run import Run
from manyheads.training.task import Task

HEADS, SEEDS = (1, 2, 4, 8, 16), 10  # as the command has them
REACH = 6  # the search ends at this multiple of the larger predicted key budget

Wanted = tuple[int, int, int]  # heads, key width, seed


def measure(
    task: Task | Graph | str,
    embedding: Embedding | ndarray | str | None = None,
    *,
    heads: Sequence[int] | int = HEADS,
    key_heads: int | str | None = None,
    seeds: Sequence[int] | int = SEEDS,
    store: Store | Path | str | None = None,
    rule: Rule | str = MAX,
    protocol: Protocol | None = None,
    goal: Goal | None = None,
    budget: Budget | None = None,
    workers: Workers | Executor | None = None,
    fill: bool = False,
    progress: Callable[[MeasureProgress], None] | None = None,
) -> Capacity:
    """Measure D_K*, the smallest key budget that works, over every key width of the given head counts.

    The search starts at the key width that the degrees-of-freedom law or the paper's law predicts. It doubles the
    width until a layer works, bisects, and tries the neighbouring widths. Where heads share keys, the smallest layer is
    the one with the fewest weights, and D_K* is its key budget: the numbers that a key cache stores for each token.

    Args:
        task: The family of problems; each seed draws one of them. Or its graph, e.g. "permutation:64".
        embedding: The embedding, e.g. "gaussian:16", if `task` is a graph.
        heads: The head counts to try, each at least 1; or one head count. Its default has only head counts that the key
            heads divide.
        key_heads: The number of key heads that the heads share; or "h/2": a key head for every two heads. None: every
            head has its own keys.
        seeds: The seeds of every point, or their number.
        store: An open store, or a file: every run is kept there and looked up before it is trained. None: no run is
            kept.
        rule: How the heads are joined.
        protocol: How each run is trained; None: `measure_protocol`.
        goal: When a point counts as working; None: a mean test F1 of at least 0.99.
        budget: The limits of runs and time; None: no limit.
        workers: Where runs are trained; None: threads of this process, one a core.
        fill: Whether all head counts are trained below and above D_K* in the end, so that the curve shows them.
        progress: Called whenever runs have ended.

    Returns:
        D_K* with its range, h* with its range, and every point that was tried.

    Raises:
        InputError: There is no head count or no seed, the key heads do not divide a head count, or the runs would have
            no score for this goal.
    """
    task, rule = _task(task, embedding), rule_named(rule)
    if isinstance(heads, int):
        heads = (heads,)
    _check_counts(heads=heads, seeds=seeds)
    if store is not None and not isinstance(store, Store):
        store = path_of(store)
    if not isinstance(seeds, Sequence):
        check_numbers(seeds=seeds)
        seeds = range(seeds)
    if not heads or not seeds:
        raise InputError("a measurement needs at least one head count (1 or more) and one seed")
    check_numbers(head_counts=len(heads), seeds=len(seeds), heads=min(heads), seed=min(seeds))
    check_numbers(heads=max(heads), seed=max(seeds))
    # a range stays a range: its seeds are not listed
    seeds = seeds if isinstance(seeds, range) and seeds.step > 0 else sorted(set(seeds))
    if heads is HEADS and key_heads is not None:
        heads = dividing_heads(heads, key_heads)
    heads, goal = sorted(set(heads)), Goal() if goal is None else goal
    require_type(goal, Goal, "the goal of a measurement")
    shared = {count: key_heads_for(heads=count, key_heads=key_heads) for count in heads}
    goal.check(task, rule)
    protocol = protocol or measure_protocol(task, rule=rule, goal=goal)
    starts, limit = predictions(task, heads, shared)
    crew = workers or threads()

    def run_at(want: Wanted) -> Run:
        count, key_width, seed = want
        return Run(
            task,
            heads=count,
            key_heads=shared[count],
            key_width=key_width,
            seed=seed,
            rule=rule,
            protocol=protocol,
        )

    opened = store if isinstance(store, Store) else Store.temporary() if store is None else Store.write(store)
    try:
        state = _Measurement(run_at, opened, LayerTrainer(), crew, goal, budget or Budget(), progress)
        # a head wider than d_model has no more freedom: W_Q·W_Kᵀ is a d_model × d_model matrix
        search = Search(
            starts, seeds, goal.target, limit, widest=task.d_model, interval=goal.interval, key_heads=shared.get
        )
        complete = state.run(search, lambda: search.wanted() or search.wanted_around())
        runs, reached = search.tried, max((search.size(*shape) for shape in search.scores), default=0)
        complete = complete and (not fill or state.run(search, search.wanted_curve))
        known = known_points(opened, search, run_at((heads[0], 1, seeds[0])).fields, state.trainer.engine, goal)
    finally:
        if workers is None and isinstance(crew, Workers):
            crew.close()
        if not isinstance(store, Store):
            opened.close()
    unscored = sum(score is None for by_seed in search.scores.values() for score in by_seed.values())
    return Capacity(
        task=task,
        rule=rule,
        key_heads=key_heads,
        protocol=protocol,
        goal=goal,
        seeds=len(seeds),
        threshold=search_threshold([point for point in known if len(point.scores) == len(seeds)], goal),
        curve=tuple(search.points()),
        runs=runs,
        filled=search.tried - runs,
        grid=sum(min(int(reached // search.size(count, 1)), task.d_model) for count in heads) * len(seeds),
        unscored=unscored,
        complete=complete,
        failed=len(state.failures),
        failure=next(iter(state.failures.values()), None),
        failed_sizes=tuple(sorted({search.size(heads, width) for heads, width, _ in state.failures})),
        notes=tuple(opened.state.notes),
    )


def _check_counts(**counts: object) -> None:
    for name, value in counts.items():
        if isinstance(value, str) or not isinstance(value, (int, Sequence)):
            raise InputError(f"{name} are whole numbers such as [1, 2, 4], not {value!r}")


def _task(task: Task | Graph | str, embedding: Embedding | ndarray | str | None) -> Task:
    """The task, or the task of a graph and an embedding."""
    if isinstance(task, Task):
        if embedding is not None:
            raise InputError("a task has an embedding already: give a task, or a graph and an embedding")
        return task
    require_type(task, (Task, Graph, str), "the first argument of measure")
    if embedding is None:
        raise InputError('a graph is measured over an embedding: measure("permutation:64", "gaussian:16")')
    require_type(embedding, (Embedding, ndarray, str), "the embedding to measure")
    return Task(task, embedding)


def measure_protocol(task: Task, *, rule: Rule = MAX, goal: Goal | None = None, steps: int | None = None) -> Protocol:
    """The protocol of a measurement: the step limit of Table 2, and no early stop if the goal is exact recovery.

    No validation F1 exceeds 1. With `stop_above` 1 a run continues where the paper's early stop would end it.

    Args:
        task: The task.
        rule: The rule that joins the heads.
        goal: The goal; None: a mean test F1.
        steps: The step limit; None: that of Table 2.

    Returns:
        The protocol.
    """
    limit = step_limit(items=task.items, d_model=task.d_model, rule=rule) if steps is None else steps
    return Protocol(steps=limit, stop_above=1.0 if goal is not None and goal.exact else Protocol.stop_above)


def predictions(
    task: Task, heads: Sequence[int], shared: Mapping[int, int | None] = MappingProxyType({})
) -> tuple[dict[int, int], int]:
    """The key width to start from for each head count, and the largest size worth trying.

    Args:
        task: The task.
        heads: The head counts.
        shared: The number of key heads for each of them; None: as many as heads.
    """
    items, relations, d_model = task.items, task.relations, task.d_model
    paper = float(paper_key_budget(items=items, relations=relations, d_model=d_model, slope=task.slope))
    widths = {
        count: freedom_key_width(
            items=items, relations=relations, d_model=d_model, heads=count, key_heads=shared.get(count)
        )
        for count in heads
    }
    # where the law has no answer (too few heads for full rank) start from the paper's budget
    sizes = {count: (count + (shared.get(count) or count)) / 2 for count in heads}
    starts = {count: width or max(1, round(paper / sizes[count])) for count, width in widths.items()}
    freedom = [sizes[count] * width for count, width in widths.items() if width is not None]
    limit = math.ceil(REACH * max(paper, min(freedom, default=0)))
    return starts, max(limit, math.ceil(max(sizes.values())))


def dividing_heads(heads: Sequence[int], key_heads: int | str | None) -> list[int]:
    """The head counts that key heads divide.

    Args:
        heads: Head counts.
        key_heads: The number of key heads, or "h/N".

    Raises:
        InputError: There is none.
    """
    kept = []
    for count in heads:
        try:
            key_heads_for(heads=count, key_heads=key_heads)
        except InputError as error:
            refusal = error
        else:
            kept.append(count)
    if not kept:
        raise refusal
    return kept


class _Measurement:
    """The rounds of one measurement: the runs that the search wants are swept, and the search is told their scores."""

    def __init__(
        self,
        run_at: Callable[[Wanted], Run],
        store: Store,
        trainer: LayerTrainer,
        workers: Workers | Executor,
        goal: Goal,
        budget: Budget,
        progress: Callable[[MeasureProgress], None] | None,
    ) -> None:
        self.run_at, self.store, self.trainer, self.workers, self.goal = run_at, store, trainer, workers, goal
        self.progress, self.trained = progress, 0
        self.failures: dict[Wanted, str] = {}
        self.max_runs = budget.runs
        self.deadline = None if budget.seconds is None else time.monotonic() + budget.seconds

    def run(self, search: Search, wishes: Callable[[], list[Wanted]]) -> bool:
        """Sweep until the search wants no more runs; False if the budget ends it earlier, or all runs so far failed."""
        while wanted := wishes():
            scores = self._sweep(search, {want: self.run_at(want) for want in wanted})
            search.tell(scores)
            if len(scores) < len(wanted) or len(self.failures) == search.tried:
                return False
        return True

    def _sweep(self, search: Search, runs: Mapping[Wanted, Run]) -> dict[Wanted, float | None]:
        """The score of every run that ended in time."""
        wants = {run.id: want for want, run in runs.items()}
        fresh: list[tuple[Wanted, float]] = []

        def show(progress: SweepProgress) -> None:
            self.trained += len(progress.latest)
            fresh.extend(
                (wants[record.id], score)
                for record in progress.latest
                if (score := self.goal.score(record)) is not None
            )
            if self.progress is not None:
                self.progress(self._seen(search, fresh, progress.total - progress.done))

        records = sweep(
            list(runs.values()),
            self.store,
            trainer=self.trainer,
            workers=self.workers,
            deadline=self.deadline,
            max_new=None if self.max_runs is None else max(0, self.max_runs - self.trained),
            progress=show,
        )
        for record in records:
            if record.status in ("failed", "quarantined"):
                self.failures[wants[record.id]] = record.error or record.status
        return {wants[record.id]: self.goal.score(record) for record in records if not _out_of_time(record)}

    def _seen(self, search: Search, fresh: Sequence[tuple[Wanted, float]], waiting: int) -> MeasureProgress:
        scores = {
            (heads, width, seed): score
            for (heads, width), by_seed in search.scores.items()
            for seed, score in by_seed.items()
            if score is not None
        } | dict(fresh)
        made = points(((*want, score) for want, score in scores.items()), key_heads=search.key_heads)
        left = max(waiting, search.outlook - len(fresh))
        return MeasureProgress(self.trained, left, search.brackets, tuple(made), search.best)


def _out_of_time(record: Record) -> bool:
    """Whether the budget ended the run early. Such a run has no result yet and is trained again."""
    return record.status in ("cancelled", "timeout")
