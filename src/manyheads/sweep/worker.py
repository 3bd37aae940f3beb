"""The work of a worker: train the runs of a work unit and return their records, never an exception."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from manyheads.executors import stop_signal
from manyheads.sweep.store.record import Record, Storable
from manyheads.sweep.trainers import GroupTrainer, Trainer
from manyheads.text import shown_text

GRACE = 5.0  # seconds: a run that exceeds its time limit by more is ended together with its process


@dataclass(frozen=True)
class WorkUnit:
    """Some runs of one sweep, and everything that a worker needs to train them; sent to processes and clusters."""

    runs: tuple[Storable, ...]
    trainer: Trainer
    time_limit: float | None  # seconds a run
    token: str  # names the sweep


def work(unit: WorkUnit) -> list[Record]:
    """Train the runs of a unit.

    Returns:
        The record of each run. A run that was not begun when the sweep was stopped has none.
    """
    stopped = stop_signal(unit.token)
    if isinstance(unit.trainer, GroupTrainer):
        return [] if stopped() else _train_group(unit, unit.trainer, stopped)
    records = []
    for run in unit.runs:
        if stopped():
            break
        records.append(_train_one(unit, run, stopped))
    return records


def _train_one(unit: WorkUnit, run: Storable, stopped: Callable[[], bool]) -> Record:
    try:
        with _ended_by_force(unit.time_limit):
            return unit.trainer.train(run, time_limit=unit.time_limit, keep_going=lambda: not stopped())
    except Exception as error:  # a run that fails is a result, and must not end the other runs
        return failure(unit.trainer, run, error)


def _train_group(unit: WorkUnit, trainer: GroupTrainer, stopped: Callable[[], bool]) -> list[Record]:
    """Train all runs in one call. Its time limit is the sum of the limits of the runs."""
    limit = None if unit.time_limit is None else unit.time_limit * len(unit.runs)
    try:
        with _ended_by_force(limit):
            return trainer.train_group(unit.runs, time_limit=limit, keep_going=lambda: not stopped())
    except Exception as error:
        return [failure(trainer, run, error) for run in unit.runs]


def failure(trainer: Trainer, run: Storable, error: Exception) -> Record:
    """The record of a run that raised an exception."""
    message = shown_text(f"{type(error).__name__}: {error}")
    return Record.without_result(run, trainer.kind, trainer.engine, "failed", error=message)


@contextmanager
def _ended_by_force(time_limit: float | None) -> Iterator[None]:
    """End the process of a run that exceeds its limit and does not react, if it is a worker process."""
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
