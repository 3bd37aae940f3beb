"""Record: one line of a store, a run and what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Literal, Protocol, runtime_checkable

from manyheads.identity import canonical_json
from manyheads.machine import machine

Status = Literal["converged", "limit", "diverged", "timeout", "cancelled", "failed", "quarantined"]
FINISHED: frozenset[Status] = frozenset({"converged", "limit", "diverged"})


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
class Ended:
    """What came of a run whose training ended, by itself or by a limit."""

    status: Status
    scores: Mapping[str, float | int | None]  # by name; None where it was not measured
    steps: int
    seconds: float
    curve: Sequence[tuple[int | float, ...]]  # the validation checks


@dataclass(frozen=True)
class Record:
    """A run, its engine and its outcome, as flat as the table it is stored in."""

    id: str
    kind: str
    engine: str
    status: Status
    run: str
    scores: str
    steps: int | None
    seconds: float | None
    error: str | None
    attempts: int
    version: str
    machine: str
    recorded: str
    curve: str

    @classmethod
    def of(cls, run: Storable, kind: str, engine: str, ended: Ended) -> Record:
        """The record of a run whose training ended."""
        curve = [[_finite(value) for value in check] for check in ended.curve]
        return cls(
            id=run.id,
            kind=kind,
            engine=engine,
            status=ended.status,
            run=canonical_json(run.fields),
            scores=canonical_json({name: _finite(value) for name, value in ended.scores.items()}),
            steps=ended.steps,
            seconds=ended.seconds,
            error=None,
            attempts=1,
            version=_version(),
            machine=_machine(),
            recorded=_now(),
            curve=canonical_json(curve),
        )

    @classmethod
    def without_outcome(cls, run: Storable, kind: str, engine: str, status: Status, *, error: str) -> Record:
        """The record of a run that has no outcome: it failed, or its worker died. Its scores stay missing."""
        return cls(
            id=run.id,
            kind=kind,
            engine=engine,
            status=status,
            run=canonical_json(run.fields),
            scores="{}",
            steps=None,
            seconds=None,
            error=error,
            attempts=1,
            version=_version(),
            machine=_machine(),
            recorded=_now(),
            curve="[]",
        )

    def score(self, name: str) -> float | int | None:
        """A score by its name; None where it was not measured."""
        return json.loads(self.scores).get(name)


COLUMNS = tuple(field.name for field in fields(Record))


def _finite(value: float | int | None) -> float | int | None:
    """What is infinite or undefined is missing: JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None


@cache
def _version() -> str:
    return version("manyheads")


@cache
def _machine() -> str:
    return json.dumps(machine(), sort_keys=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
