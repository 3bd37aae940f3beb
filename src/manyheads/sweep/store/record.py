"""Record: one row of a store, a run and its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, Protocol, runtime_checkable

from manyheads.errors import InputError
from manyheads.identity import canonical_json
from manyheads.machine import machine

Status = Literal["converged", "limit", "diverged", "timeout", "cancelled", "failed", "quarantined"]
FINISHED: frozenset[Status] = frozenset({"converged", "limit", "diverged"})

Score = float | int | None


@runtime_checkable
class Storable(Protocol):
    """A run that a store can keep: frozen, its id a hash of its fields, as `training.Run` is."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the fields."""

    @property
    def fields(self) -> Mapping[str, object]:
        """Every field as JSON, defaults resolved."""


@dataclass(frozen=True)
class Record:
    """A run, its engine and its result; one field a column of the store.

    Attributes:
        id: The run's id.
        kind: The kind of run, e.g. "layer".
        engine: The engine that trained it; the same run on another engine is another record.
        status: How it ended.
        run: The run's fields.
        scores: The scores by name; None if a score was not measured.
        steps: Optimiser steps; None if there is no result.
        seconds: Wall time; None if there is no result.
        error: The reason, if the run failed or its worker died.
        attempts: The number of times that the run was started.
        version: The version of manyheads.
        machine: JSON text of the machine's facts, the same for all records of a process.
        recorded: The time of the record: UTC, ISO 8601.
        curve: JSON text of the validation checks; only exports and pages read it.
    """

    id: str
    kind: str
    engine: str
    status: Status
    run: Mapping[str, object]
    scores: Mapping[str, Score]
    steps: int | None
    seconds: float | None
    error: str | None
    attempts: int
    version: str
    machine: str
    recorded: str
    curve: str

    @classmethod
    def of(
        cls,
        run: Storable,
        kind: str,
        engine: str,
        *,
        status: Status,
        scores: Mapping[str, Score],
        steps: int,
        seconds: float,
        curve: Sequence[tuple[float | int | None, ...]] = (),
    ) -> Record:
        """The record of a run whose training ended, by itself or by a limit.

        Args:
            run: The run.
            kind: The kind of run, e.g. "layer".
            engine: The engine that trained it.
            status: How it ended.
            scores: By name. An infinite or undefined score becomes None: JSON has no word for it.
            steps: Optimiser steps.
            seconds: Wall time.
            curve: The validation checks.

        Returns:
            The record.
        """
        checks = [[_finite(value) for value in check] for check in curve]
        known = {name: _finite(value) for name, value in scores.items()}
        return cls._new(run, kind, engine, status, known, steps=steps, seconds=seconds, curve=canonical_json(checks))

    @classmethod
    def without_result(cls, run: Storable, kind: str, engine: str, status: Status, *, error: str) -> Record:
        """The record of a run that failed or whose worker died. Its scores stay missing.

        Args:
            run: The run.
            kind: The kind of run, e.g. "layer".
            engine: The engine that was to train it.
            status: How it ended.
            error: The reason, in one sentence.

        Returns:
            The record.
        """
        return cls._new(run, kind, engine, status, {}, error=error)

    @classmethod
    def _new(
        cls,
        run: Storable,
        kind: str,
        engine: str,
        status: Status,
        scores: Mapping[str, Score],
        *,
        steps: int | None = None,
        seconds: float | None = None,
        error: str | None = None,
        curve: str = "[]",
    ) -> Record:
        return cls(
            id=run.id,
            kind=kind,
            engine=engine,
            status=status,
            run=dict(run.fields),
            scores=scores,
            steps=steps,
            seconds=seconds,
            error=error,
            attempts=1,
            version=_version(),
            machine=_machine(),
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
            curve=curve,
        )

    def score(self, name: str) -> Score:
        """A score by its name.

        Args:
            name: The name, e.g. "micro_f1".

        Returns:
            The score; None if it was not measured.
        """
        return self.scores.get(name)

    def columns(self) -> tuple[Any, ...]:
        """The values as the table has them, in the order of COLUMNS: run and scores as JSON text."""
        return tuple(
            canonical_json(getattr(self, name)) if name in JSON_COLUMNS else getattr(self, name) for name in COLUMNS
        )

    @classmethod
    def from_columns(cls, row: Sequence[Any]) -> Record:
        """The record of a row of the table.

        Args:
            row: The values of all columns, in the order of COLUMNS.

        Returns:
            The record.

        Raises:
            InputError: The run of the row is no run.
        """
        values = [
            json.loads(value) if name in JSON_COLUMNS else value for name, value in zip(COLUMNS, row, strict=True)
        ]
        if (fault := run_fault(*(values[COLUMNS.index(name)] for name in ("kind", "run")))) is not None:
            # no damage, which the checksum would show: other software has made the row
            raise InputError(
                f"the row {values[0]} was not written by manyheads ({fault}): "
                "`manyheads results --verify` checks all rows"
            )
        return cls(*values)


COLUMNS = tuple(field.name for field in fields(Record))
JSON_COLUMNS = ("run", "scores")
LAYER_NUMBERS = {"items": 1, "d_model": 1, "heads": 1, "key_width": 1, "seed": 0, "problem_seed": 0}  # at least


def run_fault(kind: str, run: object) -> str | None:
    """What is wrong with the run of a row; None if nothing is."""
    if not isinstance(run, dict):
        return "its run has no fields"
    for name, least in LAYER_NUMBERS.items() if kind == "layer" else ():
        if type(value := run.get(name)) is not int or value < least:
            return f"its run has no {name} that is a whole number of at least {least}"
    if kind == "layer" and "key_heads" in run:
        groups = run["key_heads"]
        if type(groups) is not int or not 1 <= groups < run["heads"] or run["heads"] % groups:
            return "its run has key_heads that its heads cannot share evenly"
    has_list = kind == "layer" and any(isinstance(value, (list, dict)) for value in run.values())
    return "its run has a field that is a list" if has_list else None


def _finite(value: Score) -> Score:
    return value if value is not None and math.isfinite(value) else None


@cache
def _version() -> str:
    return version("manyheads")


@cache
def _machine() -> str:
    return json.dumps(machine(), sort_keys=True)
