"""sweep: many runs into a store, each trained once, whatever happens on the way."""

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
from manyheads.sweep.executors import Borrowed, Workers, threads
from manyheads.sweep.store.record import FINISHED, Record, Status, Storable
from manyheads.sweep.store.store import Store
from manyheads.sweep.trainer import GroupTrainer, LayerTrainer, Trainer
from manyheads.sweep.worker import Task, stoppable, work

TASK_SECONDS = 1.0  # runs shorter than this travel together
IN_FLIGHT = 2  # tasks a worker: the one it trains and the one that waits for it
STOP_SECONDS = 1.5  # how long a stop waits for threads to notice their flag
LOOK_SECONDS = 5.0  # how often a sweep that hears nothing asks whether there still are workers
ABSENT_SECONDS = 60.0  # how long a cluster may be without any


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep has come, told whenever records were stored."""

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
    progress: Callable[[SweepProgress], None] | None = None,
) -> list[Record]:
    """Train what the store does not have yet and return the records of the runs, in their order.

    A finished run is never trained again. One that failed, or took its worker with it, is tried `tries` times in
    all and then left alone; one that was cancelled or ran out of its `time_limit` (seconds) is taken up again by the
    next sweep. At the `deadline` (of `time.monotonic`) the sweep stops: runs that were not begun have no record.
    """
    trainer = trainer or LayerTrainer()
    wanted = list({run.id: run for run in runs}.values())
    _refuse_impossible(wanted, trainer)
    crew = Borrowed(workers) if isinstance(workers, Executor) else workers or threads()
    token = uuid.uuid4().hex
    try:
        with stoppable(token) as stop:
            state = _Sweep(wanted, store, crew, Task((), trainer, time_limit, token), tries, progress)
            try:
                finished = state.run_until(deadline)
            except BaseException:
                stop.set()
                with suppress(InputError):  # a store that refused once may do so again: the first reason counts
                    state.stop()
                raise
            if not finished:
                stop.set()
                state.stop()
    finally:
        if workers is None:
            crew.close()
    by_id = {record.id: record for record in store.records({"engine": trainer.engine}, ids=[run.id for run in wanted])}
    return [by_id[run.id] for run in wanted if run.id in by_id]


def _refuse_impossible(runs: Sequence[Storable], trainer: Trainer) -> None:
    reasons = [f"{run.id}: {reason}" for run in runs if (reason := trainer.refusal(run)) is not None]
    if reasons:
        raise InputError(f"{len(reasons)} of {len(runs)} runs are impossible: {'; '.join(reasons)}")


class _Sweep:
    """The state of one sweep while it runs."""

    def __init__(
        self,
        runs: Sequence[Storable],
        store: Store,
        workers: Workers,
        template: Task,
        tries: int,
        progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        known = store.statuses(template.trainer.engine, [run.id for run in runs])
        self.attempts = {run.id: known.get(run.id, ("", 0))[1] for run in runs}
        self.pending = deque(run for run in runs if _open(*known.get(run.id, ("", 0)), tries))
        self.suspects: deque[Storable] = deque()  # in flight when a worker died: trained again one at a time
        self.futures: dict[Future[list[Record]], Task] = {}
        self.ended: SimpleQueue[Future[list[Record]]] = SimpleQueue()
        self.alone = False  # whether the one task in flight is a suspect's
        self.total, self.done = len(runs), len(runs) - len(self.pending)
        self.seconds, self.timed = 0.0, 0
        self.heard = time.monotonic()
        self.store, self.workers, self.template, self.tries, self.progress = store, workers, template, tries, progress

    def run_until(self, deadline: float | None) -> bool:
        """Whether everything was done by then."""
        self._store([])
        while self.pending or self.suspects or self.futures:
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            self._fill()
            finished = self._finished(left)
            if finished:
                # results first: what is done is safe from the death of a worker that the next future may tell of
                ordered = sorted(finished, key=_went_wrong)
                self._store([record for future in ordered for record in self._result(future)])
            self._look(bool(finished))
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
        """End everything now, but keep what is finished."""
        for future in self.futures:
            future.cancel()
        self.workers.discard()
        finished, _ = wait(self.futures, timeout=STOP_SECONDS)
        self._store([record for future in finished if not _went_wrong(future) for record in future.result()])

    def _fill(self) -> None:
        if self.suspects:
            if not self.futures:
                self.alone = True
                self._submit((self.suspects.popleft(),))
            return
        while self.pending and len(self.futures) < IN_FLIGHT * self.workers.slots and not self.suspects:
            self.alone = False
            self._submit(self._next())

    def _next(self) -> tuple[Storable, ...]:
        trainer = self.template.trainer
        if isinstance(trainer, GroupTrainer):
            group = [self.pending.popleft()]
            while self.pending and trainer.fits(group, self.pending[0]):
                group.append(self.pending.popleft())
            return tuple(group)
        # an even share for every worker at the end, so that none waits for another's long task
        share = -(-len(self.pending) // (IN_FLIGHT * self.workers.slots))
        size = max(1, min(self._together(), share, len(self.pending)))
        return tuple(self.pending.popleft() for _ in range(size))

    def _together(self) -> int:
        if not self.workers.together or not self.timed:
            return 1
        return int(TASK_SECONDS * self.timed / max(self.seconds, 1e-9))

    def _submit(self, runs: tuple[Storable, ...]) -> None:
        task = replace(self.template, runs=runs)
        try:
            future = self.workers.executor.submit(work, task)
            self.futures[future] = task
            future.add_done_callback(self.ended.put)
        except BrokenExecutor:  # it broke after the last look at its futures, which will say so themselves
            self.suspects.extend(runs)
            if not self.futures:
                self.workers.discard()

    def _result(self, future: Future[list[Record]]) -> list[Record]:
        task = self.futures.pop(future, None)
        if task is None:  # died with a pool that was already mourned
            return []
        try:
            return future.result()
        except BrokenExecutor as death:
            lost, self.futures = [task, *self.futures.values()], {}  # every other task in flight died with the pool
            self.workers.discard()
            return self._died(lost, death)
        except CancelledError:
            raise InputError("the workers were taken away: run the same again to go on from what is stored") from None
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # Dask's word for the same; its other tasks live on
                return self._died([task], error)
            # the task could not even be sent or fetched
            return [self._without_outcome(run, "failed", f"{type(error).__name__}: {error}") for run in task.runs]

    def _died(self, lost: Sequence[Task], death: Exception) -> list[Record]:
        """Who dies in company is innocent until it dies alone; a run that has died alone too often is left alone."""
        runs = [run for task in lost for run in task.runs]
        if not self.alone:
            self.suspects.extend(runs)
            return []
        (run,) = runs
        if self.attempts[run.id] + 1 >= self.tries:
            return [self._without_outcome(run, "quarantined", f"its worker died ({type(death).__name__})")]
        self.attempts[run.id] += 1
        self.suspects.appendleft(run)
        return []

    def _without_outcome(self, run: Storable, status: Status, error: str) -> Record:
        trainer = self.template.trainer
        return Record.without_outcome(run, trainer.kind, trainer.engine, status, error=error)

    def _store(self, records: list[Record]) -> None:
        counted = [replace(record, attempts=self.attempts[record.id] + 1) for record in records]
        if counted:
            self.store.add(counted)
        self.done += len(counted)
        for record in counted:
            if record.seconds is not None:
                self.seconds, self.timed = self.seconds + record.seconds, self.timed + 1
        if self.progress is not None:
            self.progress(SweepProgress(self.done, self.total, tuple(counted)))

    def _look(self, heard: bool) -> None:
        """A cluster that has lost all its workers says nothing at all: do not wait for it for ever."""
        now = time.monotonic()
        if heard or self.workers.present():
            self.heard = now
        elif now - self.heard > ABSENT_SECONDS:
            raise InputError(f"no worker for {ABSENT_SECONDS:.0f} s: run the same again to go on from what is stored")


def _open(status: str, attempts: int, tries: int) -> bool:
    """Whether a run with this record is still to be trained."""
    if status in FINISHED or status == "quarantined":
        return False
    return status != "failed" or attempts < tries


def _went_wrong(future: Future[list[Record]]) -> bool:
    return future.cancelled() or future.exception() is not None
