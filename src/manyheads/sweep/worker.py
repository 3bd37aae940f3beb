"""What a worker does: train runs, one after the other or together, and return their records, never an exception."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from manyheads.sweep.store.record import Record, Storable
from manyheads.sweep.trainer import GroupTrainer, Trainer

GRACE = 5.0  # seconds past its limit after which a run that ignores the limit takes its worker with it

# Sweeps of this process that may be told to stop, by their token; threads look here, other processes are ended instead.
_stops: dict[str, threading.Event] = {}


@dataclass(frozen=True)
class Task:
    """A few runs of one sweep, with all a worker needs to train them; it travels to processes and clusters."""

    runs: tuple[Storable, ...]
    trainer: Trainer
    time_limit: float | None
    token: str


def work(task: Task) -> list[Record]:
    """The record of each run; after a stop the rest of the task is left undone and absent."""
    stopped = _stop_signal(task.token)
    if isinstance(task.trainer, GroupTrainer):
        return [] if stopped() else _together(task, task.trainer, stopped)
    records = []
    for run in task.runs:
        if stopped():
            break
        records.append(_one(task, run, stopped))
    return records


def _one(task: Task, run: Storable, stopped: Callable[[], bool]) -> Record:
    trainer = task.trainer
    try:
        with _ended_by_force(task.time_limit):
            ended = trainer.train(run, time_limit=task.time_limit, keep_going=lambda: not stopped())
        return Record.of(run, trainer.kind, trainer.engine, ended)
    except Exception as error:  # a run that fails is a result, and must not take the others with it
        message = f"{type(error).__name__}: {error}"
        return Record.without_outcome(run, trainer.kind, trainer.engine, "failed", error=message)


def _together(task: Task, trainer: GroupTrainer, stopped: Callable[[], bool]) -> list[Record]:
    """All runs in one call, which may take as long as they might one after the other."""
    limit = None if task.time_limit is None else task.time_limit * len(task.runs)
    try:
        with _ended_by_force(limit):
            ended = trainer.train_together(task.runs, time_limit=limit, keep_going=lambda: not stopped())
        return [Record.of(run, trainer.kind, trainer.engine, one) for run, one in zip(task.runs, ended, strict=True)]
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return [Record.without_outcome(run, trainer.kind, trainer.engine, "failed", error=message) for run in task.runs]


@contextmanager
def stoppable(token: str) -> Iterator[threading.Event]:
    """The flag that stops the threads of one sweep."""
    _stops[token] = threading.Event()
    try:
        yield _stops[token]
    finally:
        del _stops[token]


def _stop_signal(token: str) -> Callable[[], bool]:
    """Where this worker learns that its sweep was stopped."""
    if token in _stops:
        return _stops[token].is_set
    if "distributed" in sys.modules:
        from distributed.worker import get_worker, thread_state

        try:
            tasks, key = get_worker().state.tasks, thread_state.key
        except (ValueError, AttributeError):  # not a Dask worker's thread after all
            return lambda: False
        # Dask cannot interrupt a running task, but notes on the worker that nobody waits for it any more
        return lambda: key not in tasks or tasks[key].state == "cancelled"
    return lambda: False


@contextmanager
def _ended_by_force(time_limit: float | None) -> Iterator[None]:
    """A run that hangs in spite of its limit ends with its process, where that process is a worker's own."""
    if time_limit is None or multiprocessing.parent_process() is None:
        yield
        return
    timer = threading.Timer(time_limit + GRACE, os._exit, [70])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
