"""Searches over shapes: the smallest key budget that certifies in a given time, or the best split of a given budget.

A search is a sequence of trials (`fitting.trial_order`). Workers run the next trials of the sequence as it is expected:
that none of those that still run will certify. Where one does, the trials after it are chosen again, and those that are
no longer wanted are ended. So the sequence, and the layer, do not depend on the number or the kind of the workers.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections import Counter
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event
from typing import NamedTuple

from manyheads.bounds.shape import require_even_sharing
from manyheads.certificate import Certificate, described
from manyheads.errors import InputError
from manyheads.executors import ABSENT_SECONDS, CallerExecutor, Workers, stoppable, threads
from manyheads.fitting.layer_fit import MappedProblem, require_fit
from manyheads.fitting.options import DEFAULT_OPTIONS, FitOptions, FitSearchResult, ShapeTrial, suitable_descent
from manyheads.fitting.shape_trial import TrialEnd, TrialSetting, TrialTask, try_shape
from manyheads.fitting.shapes import require_possible
from manyheads.fitting.trial_order import DownwardOrder, Key, ShapeSpace, SplitOrder, TrialOrder, TrialPlan
from manyheads.layer.layer import Layer
from manyheads.numbers import check_numbers
from manyheads.problem.problem import Problem

SECONDS = 60.0  # of a search without a limit
LATE_SECONDS, LATE_SHARE = 10.0, 0.1  # after the time is up: to end the trials that run, in part of the time limit
TRIES = 3  # how often a trial is started whose worker dies
AHEAD = 4  # a search looks at most this number of trials ahead for each worker
WAIT = 0.05  # seconds: short, because a signal that another thread receives does not wake the main thread
ENDLESS = 1e9  # seconds of a search that has a limit of trials only


class _Running(NamedTuple):
    """A trial in a worker."""

    plan: TrialPlan
    future: Future[TrialEnd]
    stop: Event


class FitSearch:
    """Trials on one problem, as many at once as there are workers, until a limit is reached."""

    def __init__(self, problem: Problem, options: FitOptions, *, key_heads: int | None = None) -> None:
        if options.latent is not None:
            raise InputError("a search has no latent: fit one shape of heads, key width and latent")
        self.inner = MappedProblem.of(problem, options)
        self.space = ShapeSpace(problem.graph, problem.d_model, self.inner.most_heads, key_heads)
        descent = options.descent or suitable_descent(problem.items, problem.d_model)
        plain = replace(options, progress=None, report=None, workers=None)
        self.setting = TrialSetting(self.inner, plain, descent, key_heads)
        self.options = options
        self.begun = self.news = time.monotonic()
        seconds = options.time_limit or (ENDLESS if options.trials else SECONDS)
        self.deadline = self.begun + seconds
        self.late = self.deadline + LATE_SECONDS + LATE_SHARE * seconds
        self.trials: list[ShapeTrial] = []
        self.best: tuple[Layer, Certificate] | None = None
        self._packed: bytes | None = None
        self._next: TrialPlan | None = None  # the trial whose result is taken next
        self._running: dict[Key, _Running] = {}
        self._dropped: list[Future[TrialEnd]] = []
        self._ended: SimpleQueue[tuple[Key, Future[TrialEnd]]] = SimpleQueue()
        self._known: dict[Key, TrialEnd] = {}  # results of trials that were not taken yet
        self._deaths: Counter[Key] = Counter()

    def run(self, order: TrialOrder) -> FitSearchResult:
        """Try one shape after another, in this order."""
        given = self.options.workers
        if isinstance(given, Workers):
            workers = given
        else:
            workers = CallerExecutor(given) if isinstance(given, Executor) else threads(given)
        try:
            while self._advance(order, workers):
                self._collect(workers)
        finally:
            self._end(workers)
            if not isinstance(given, Workers):
                workers.close()
        layer, certificate = self.best or (None, None)
        if layer is not None and certificate is not None:
            layer = described(layer, self.inner.problem, certificate, self.options.provenance())
        seconds = time.monotonic() - self.begun
        return FitSearchResult(layer, certificate, order.best, tuple(self.trials), seconds)

    def _advance(self, order: TrialOrder, workers: Workers) -> bool:
        """Take the results whose turn it is, and start the trials that come next; whether to wait for a result."""
        while not self._is_full():
            self._next = self._next or order.next()
            end = None if self._next is None else self._known.pop(self._next.key, None)
            if self._next is None or end is None:
                break
            self._take(order, self._next, end)
            self._next = None
        if self._next is None:
            return False
        wanted = self._ahead(order, self._next, workers.slots)
        for key in [key for key in self._running if key not in wanted]:
            self._drop(key)
        now = time.monotonic()
        if now > self.late and not isinstance(workers.executor, ThreadPoolExecutor):
            return False
        if now >= self.deadline and (self.trials or self._running):  # the trials that run see this by themselves
            return self._next.key in self._running
        for key, plan in wanted.items():
            if key not in self._running:
                self._start(plan, workers)
        return True

    def _is_full(self) -> bool:
        return self.options.trials is not None and len(self.trials) >= self.options.trials

    def _take(self, order: TrialOrder, plan: TrialPlan, end: TrialEnd) -> None:
        trial = self._trial(plan, end)
        self.trials.append(trial)
        if order.take(plan, trial, end.weights) and end.layer is not None and end.certificate is not None:
            self.best = end.layer, end.certificate
        if self.options.report is not None:
            self.options.report(trial)

    def _trial(self, plan: TrialPlan, end: TrialEnd) -> ShapeTrial:
        return ShapeTrial(
            plan.heads,
            plan.key_width,
            self.space.key_heads or plan.heads,
            plan.seed,
            plan.start,
            end.layer is not None,
            end.wrong,
            end.normalised_margin,
            end.steps,
            time.monotonic() - self.begun,
        )

    def _ahead(self, order: TrialOrder, plan: TrialPlan, slots: int) -> dict[Key, TrialPlan]:
        """The next trials without a result, one for each worker, if those that still run do not certify."""
        ahead, wanted = order.copy(), {plan.key: plan}
        left = AHEAD * slots
        if self.options.trials is not None:
            left = min(left, self.options.trials - len(self.trials))
        for _ in range(left - 1):
            follower = ahead.next() if len(wanted) < slots else None
            if follower is None:
                break
            if (end := self._known.get(follower.key)) is None:
                wanted[follower.key] = follower
            else:
                ahead.take(follower, self._trial(follower, end), end.weights)
        return wanted

    def _start(self, plan: TrialPlan, workers: Workers) -> None:
        ending, token, key = ExitStack(), uuid.uuid4().hex, plan.key
        stop = ending.enter_context(stoppable(token))  # until the trial has ended, also one that was dropped
        here = isinstance(workers.executor, ThreadPoolExecutor)
        left = max(0.0, self.deadline - time.monotonic())
        task = TrialTask(plan, self.setting, left, token, self.options.progress, self.begun)
        if not here:
            self._packed = self._packed or pickle.dumps(self.setting)
            task = replace(task, setting=self._packed, progress=None, begun=None)
        try:
            future = workers.executor.submit(try_shape, task)
        except BrokenExecutor:  # the pool broke after the last look at its futures; they report it
            ending.close()
            if not self._running:
                workers.discard()
            return
        except RuntimeError as error:
            ending.close()
            if not here:
                raise
            raise InputError(f"this machine does not start {workers.slots} threads: use fewer workers") from error
        except Exception as error:
            ending.close()
            if not type(error).__module__.startswith("distributed"):
                raise
            raise InputError(TAKEN_AWAY) from error
        self._running[key] = _Running(plan, future, stop)

        def note(done: Future[TrialEnd]) -> None:
            ending.close()
            self._ended.put((key, done))

        future.add_done_callback(note)

    def _collect(self, workers: Workers) -> None:
        """Wait until a trial ends, the time is up or a second has passed, and note all results."""
        ended: list[tuple[Key, Future[TrialEnd]]] = []
        until = time.monotonic() + 1.0
        while not ended and time.monotonic() < until:
            with suppress(Empty):
                ended.append(self._ended.get(timeout=WAIT))
                while True:
                    ended.append(self._ended.get_nowait())
            until = until if time.monotonic() < self.deadline else 0.0
        deaths = []
        for key, future in ended:
            running = self._running.get(key)
            if running is None or running.future is not future:  # a trial that was dropped
                continue
            del self._running[key]
            try:
                self._known[key] = future.result()
            except CancelledError:
                raise InputError(TAKEN_AWAY) from None
            except Exception as error:
                if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":
                    raise
                deaths.append((running.plan, error))
        for plan, death in deaths:  # after all results: those are kept
            self._died(plan, death, workers)
        if ended or workers.present():
            self.news = time.monotonic()
        elif time.monotonic() - self.news > ABSENT_SECONDS:
            raise InputError(f"no worker for {ABSENT_SECONDS:.0f} s: start workers, and run the same again")

    def _died(self, plan: TrialPlan, error: Exception, workers: Workers) -> None:
        """Forget a trial whose worker died, so that it is started again; with a broken pool, all trials that run."""
        lost = [plan.key]
        if isinstance(error, BrokenExecutor):
            lost += self._running
            self._running = {}
            workers.discard()
        self._deaths.update(lost)
        if self._deaths[plan.key] >= TRIES:
            raise InputError(
                f"{TRIES} times a worker died while the trial of {plan.heads} × {plan.key_width} ran "
                f"({type(error).__name__}): give workers more memory, or search smaller shapes"
            )

    def _drop(self, key: Key) -> None:
        """End a trial whose result is no longer wanted. A process cannot be told: it ends its trial by itself."""
        running = self._running.pop(key)
        running.stop.set()
        with suppress(Exception):  # a Dask client that lost its scheduler cannot cancel
            running.future.cancel()
        self._dropped.append(running.future)

    def _end(self, workers: Workers) -> None:
        """End the trials that still run."""
        for key in list(self._running):
            self._drop(key)
        if not all(future.done() for future in self._dropped):
            with suppress(InputError):  # a broken pool of the caller, which was reported before
                workers.discard()


TAKEN_AWAY = "the workers were taken away: start workers, and run the same again"


def smallest(
    problem: Problem,
    *,
    options: FitOptions = DEFAULT_OPTIONS,
    time_limit: float | None = None,
    max_budget: int | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
) -> FitSearchResult:
    """Search for the smallest key budget that certifies within the time limit; with shared keys, the fewest weights.

    The degrees of freedom predict the first budget. After a budget certifies, the next is smaller by a fifth,
    later by less, in the end by one. At each budget, several splits with about the best number of heads are tried.

    Outside of notebooks nothing is shown while it searches, by default for a minute. `FitOptions(report=print)` prints
    every trial as it ends, and `FitOptions(progress=print)` the state of the trial that runs.

    Args:
        problem: The graph to hold and the rows of its items.
        options: All have a default; `progress` and `report` are called while the search runs.
        time_limit: Seconds of the search, above 0; None: the time limit of the options, or 60.
        max_budget: The largest key budget to try; by default one for each relation, or the predicted budget if that
            is larger.
        heads: Only layers with this number of heads.
        key_heads: Only layers whose heads share this number of key heads; None: layers that share no keys. Layers with
            shared keys are compared by their weights, and `max_budget` limits (D_Q + D_K)/2.

    Returns:
        The layer with the fewest weights that certified, or none, and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_fit(problem, options)
    if time_limit is not None:
        options = replace(options, time_limit=time_limit)
    check_numbers(heads=heads, key_heads=key_heads, max_key_budget=max_budget)
    if heads is not None:
        require_even_sharing(heads=heads, key_heads=key_heads)
    require_possible(problem, both_budgets=max_budget and 2 * max_budget)
    search = FitSearch(problem, options, key_heads=key_heads)
    return search.run(DownwardOrder(search.space, options.seed, max_budget=max_budget, only_heads=heads))


def best_split(
    problem: Problem, *, key_budget: int, key_heads: int | None = None, options: FitOptions = DEFAULT_OPTIONS
) -> FitSearchResult:
    """Split a key budget into heads in every way that uses nearly all of it; keep the widest normalised margin.

    A key budget and a number of key heads fix the key width. The search then looks for the fewest heads.

    Args:
        problem: The graph to hold and the rows of its items.
        key_budget: D_K, the sum of the key heads' widths.
        key_heads: The number of key heads that the heads share; it divides `key_budget`. None: as many as heads.
        options: The seed, and what has a default.

    Returns:
        The layer with the widest normalised margin, with key heads the layer with the fewest heads; or none that
        certified; and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_fit(problem, options)
    check_numbers(key_budget=key_budget, key_heads=key_heads)
    if key_heads is not None:
        if key_budget % key_heads:
            raise InputError(
                f"a key budget of {key_budget} cannot be split evenly into {key_heads} key heads: give a multiple of it"
            )
        require_possible(problem, both_budgets=None)
        search = FitSearch(problem, options, key_heads=key_heads)
        return search.run(DownwardOrder(search.space, options.seed, only_width=key_budget // key_heads))
    require_possible(problem, both_budgets=2 * key_budget)
    search = FitSearch(problem, options)
    return search.run(SplitOrder(search.space, options.seed, key_budget=key_budget))
