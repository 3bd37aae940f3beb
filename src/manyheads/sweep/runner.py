"""sweep: train many runs and store their results. Each run is trained once, also after a crash or an interruption."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from manyheads.errors import InputError
from manyheads.executors import ABSENT_SECONDS, CallerExecutor, Workers, stoppable, threads
from manyheads.sweep.store.record import FINISHED, Record, Storable
from manyheads.sweep.store.store import Store
from manyheads.sweep.trainers import GroupTrainer, LayerTrainer, Trainer
from manyheads.sweep.worker import WorkUnit, failure, work

UNIT_SECONDS = 1.0  # runs shorter than this are sent together in one unit
IN_FLIGHT = 2  # units a worker: the unit it trains and the unit that waits for it
STOP_SECONDS = 1.5  # seconds that a stop waits until threads have read their flag
LOOK_SECONDS = 5.0  # seconds between two checks for workers while no result arrives
TAKEN_AWAY = "the workers were taken away: run the same again to go on from what is stored"


@dataclass(frozen=True)
class SweepProgress:
    """The state of a sweep, reported whenever records were stored.

    Attributes:
        done: The number of runs with a record.
        total: The number of runs.
        latest: The records that were stored last.
    """

    done: int
    total: int
    latest: tuple[Record, ...]


def sweep(
    runs: Sequence[Storable],
    store: Store,
    *,
    trainer: Trainer | None = None,
    workers: Workers | Executor | None = None,
    time_limit: float | None = None,
    deadline: float | None = None,
    tries: int = 3,
    max_new: int | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> list[Record]:
    """Train the runs that the store does not have yet, and store each as soon as it ends.

    A finished run is never trained again. A run that was cancelled or exceeded its time limit is trained again by the
    next sweep.

    Args:
        runs: All of one kind.
        store: Open for writing.
        trainer: Trains them; None: `LayerTrainer()`.
        workers: Where they are trained; None: threads of this process, one a core.
        time_limit: Seconds a run.
        deadline: When the sweep stops, by the clock of `time.monotonic`.
        tries: How often a run that fails or kills its worker is started in all.
        max_new: The most runs that are trained; None: all.
        progress: Called whenever records were stored.

    Returns:
        The records of the runs, in their order. A run that was not begun has none, unless an earlier sweep began it.

    Raises:
        InputError: Some runs are impossible, or the workers were lost.
    """
    trainer = trainer or LayerTrainer()
    wanted = list({run.id: run for run in runs}.values())
    _refuse_impossible(wanted, trainer)
    crew = CallerExecutor(workers) if isinstance(workers, Executor) else workers or threads()
    token = uuid.uuid4().hex
    try:
        with stoppable(token) as stop:
            state = _Sweep(wanted, store, crew, WorkUnit((), trainer, time_limit, token), tries, max_new, progress)
            try:
                finished = state.run_until(deadline)
            except BaseException:
                stop.set()
                with suppress(InputError):  # a store that raised an error may raise another: report the first
                    state.stop()
                raise
            if not finished:
                stop.set()
                state.stop()
    finally:
        if workers is None:
            crew.close()
    return [state.records[run.id] for run in wanted if run.id in state.records]


def _refuse_impossible(runs: Sequence[Storable], trainer: Trainer) -> None:
    refused: dict[str, list[str]] = {}
    for run in runs:
        if (reason := trainer.refusal(run)) is not None:
            refused.setdefault(reason, []).append(run.id)
    if refused:
        reasons = "; ".join(f"{reason} (runs {', '.join(ids)})" for reason, ids in refused.items())
        raise InputError(f"{sum(map(len, refused.values()))} of {len(runs)} runs are impossible: {reasons}")


class _Sweep:
    """The state of one sweep while it runs."""

    def __init__(
        self,
        runs: Sequence[Storable],
        store: Store,
        workers: Workers,
        template: WorkUnit,
        tries: int,
        max_new: int | None,
        progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        engine = template.trainer.engine
        # the one question to the store: a record made from here on is kept in memory too, and not read back
        self.records = {record.id: record for record in store.records({"engine": engine}, ids=[run.id for run in runs])}
        unfinished = [run for run in runs if _is_open(self.records.get(run.id), tries)]
        self.pending = deque(unfinished[:max_new])
        self.attempts = {run.id: self.records[run.id].attempts if run.id in self.records else 0 for run in runs}
        self.retried: deque[Storable] = deque()  # in flight when a worker died: trained again one at a time
        self.futures: dict[Future[list[Record]], WorkUnit] = {}
        self.ended: SimpleQueue[Future[list[Record]]] = SimpleQueue()
        self.single = False  # whether the only unit in flight is one retried run
        self.total = len(runs) - len(unfinished) + len(self.pending)
        self.done = self.total - len(self.pending)
        self.seconds, self.timed = 0.0, 0
        self.last_news = time.monotonic()
        self.store, self.workers, self.template, self.tries, self.progress = store, workers, template, tries, progress

    def run_until(self, deadline: float | None) -> bool:
        """Whether every run was done before the sweep ended."""
        self._store([])
        while self.pending or self.retried or self.futures:
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            self._fill()
            finished = self._finished(left)
            if finished:
                # results first: they are stored before the next future reports the death of a worker
                ordered = sorted(finished, key=_went_wrong)
                self._store([record for future in ordered for record in self._result(future)])
            self._check_workers(bool(finished))
        return True

    def _finished(self, seconds: float) -> list[Future[list[Record]]]:
        """The futures that are done, as soon as there are any.

        By a queue, not by `wait`: that holds all futures' locks for a moment, and a Ctrl-C in it would leave one of
        them locked, with a worker that waits for it for ever.
        """
        finished: list[Future[list[Record]]] = []
        until = time.monotonic() + seconds
        while self.ended.empty() and time.monotonic() < until:
            time.sleep(0.02)  # short: a signal that another thread receives does not wake this one
        with suppress(Empty):
            while True:
                finished.append(self.ended.get_nowait())
        return finished

    def stop(self) -> None:
        """End all units now, but store the finished results."""
        for future in self.futures:
            with suppress(Exception):  # a Dask client that lost its scheduler cannot cancel
                future.cancel()
        self.workers.discard()
        finished, _ = wait(self.futures, timeout=STOP_SECONDS)
        self._store([record for future in finished if not _went_wrong(future) for record in future.result()])

    def _fill(self) -> None:
        if self.retried:
            if not self.futures:
                self.single = True
                self._submit((self.retried.popleft(),))
            return
        while self.pending and len(self.futures) < IN_FLIGHT * self.workers.slots and not self.retried:
            self.single = False
            self._submit(self._next())

    def _next(self) -> tuple[Storable, ...]:
        trainer = self.template.trainer
        if isinstance(trainer, GroupTrainer):
            group = [self.pending.popleft()]
            while self.pending and trainer.fits(group, self.pending[0]):
                group.append(self.pending.popleft())
            return tuple(group)
        # an even share for every worker at the end, so that none waits for another's long unit
        share = -(-len(self.pending) // (IN_FLIGHT * self.workers.slots))
        size = max(1, min(self._together(), share, len(self.pending)))
        return tuple(self.pending.popleft() for _ in range(size))

    def _together(self) -> int:
        if not self.workers.together or not self.timed:
            return 1
        return int(UNIT_SECONDS * self.timed / max(self.seconds, 1e-9))

    def _submit(self, runs: tuple[Storable, ...]) -> None:
        unit = replace(self.template, runs=runs)
        try:
            future = self.workers.executor.submit(work, unit)
            self.futures[future] = unit
            future.add_done_callback(self.ended.put)
        except BrokenExecutor:  # the pool broke after the last look at its futures; the futures will report it
            self.retried.extend(runs)
            if not self.futures:
                self.workers.discard()
        except Exception as error:
            if not type(error).__module__.startswith("distributed"):
                raise
            raise InputError(TAKEN_AWAY) from error

    def _result(self, future: Future[list[Record]]) -> list[Record]:
        unit = self.futures.pop(future, None)
        if unit is None:  # its pool broke; the unit was handled when the pool was discarded
            return []
        try:
            return future.result()
        except BrokenExecutor as death:
            lost, self.futures = [unit, *self.futures.values()], {}  # all units in flight are lost with the pool
            self.workers.discard()
            return self._died(lost, death)
        except CancelledError:
            raise InputError(TAKEN_AWAY) from None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # Dask's error for a lost worker; its other tasks continue
                return self._died([unit], error)
            # the unit could not be sent, or its records could not be fetched
            return [failure(self.template.trainer, run, error) for run in unit.runs]

    def _died(self, lost: Sequence[WorkUnit], death: Exception) -> list[Record]:
        """Deal with units whose worker died.

        If several runs were in flight, any of them may have killed the worker: each is retried, a single run at a
        time. If a single run was in flight, it is retried, and after `tries` attempts it is quarantined.
        """
        runs = [run for unit in lost for run in unit.runs]
        if not self.single:
            self.retried.extend(runs)
            return []
        (run,) = runs
        if self.attempts[run.id] + 1 >= self.tries:
            trainer, reason = self.template.trainer, f"its worker died ({type(death).__name__})"
            return [Record.without_result(run, trainer.kind, trainer.engine, "quarantined", error=reason)]
        self.attempts[run.id] += 1
        self.retried.appendleft(run)
        return []

    def _store(self, records: list[Record]) -> None:
        counted = [replace(record, attempts=self.attempts[record.id] + 1) for record in records]
        if counted:
            self.store.add(counted)
            self.records.update((record.id, record) for record in counted)
        self.done += len(counted)
        for record in counted:
            if record.seconds is not None:
                self.seconds, self.timed = self.seconds + record.seconds, self.timed + 1
        if self.progress is not None:
            self.progress(SweepProgress(self.done, self.total, tuple(counted)))

    def _check_workers(self, news: bool) -> None:
        """Stop if a cluster has been without workers for too long: it would never report that."""
        now = time.monotonic()
        if news or self.workers.present():
            self.last_news = now
        elif now - self.last_news > ABSENT_SECONDS:
            raise InputError(f"no worker for {ABSENT_SECONDS:.0f} s: run the same again to go on from what is stored")


def _is_open(record: Record | None, tries: int) -> bool:
    """Whether a run with this record is still to be trained."""
    if record is None:
        return True
    if record.status in FINISHED or record.status == "quarantined":
        return False
    return record.status != "failed" or record.attempts < tries


def _went_wrong(future: Future[list[Record]]) -> bool:
    return future.cancelled() or future.exception() is not None
