"""Embedding: one row of d_model numbers for each item, and the items' names where they are known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.graph import Graph

GIVEN = "given"  # how a run names a graph or an embedding that was handed in: given:FINGERPRINT


@dataclass(frozen=True, eq=False)
class Embedding:
    """Rows of numbers, one for each item, frozen while a layer is built or trained.

    Args:
        rows: Floating-point numbers of shape (items, d_model), all finite.
        names: The items' names in the order of the rows, or None.

    Raises:
        InputError: The rows are no such array, or the names do not match them.

    >>> Embedding(np.eye(3), names=("a", "b", "c")).d_model
    3
    """

    rows: ndarray  # Float (items, d_model): checked below, with a sentence, not by the test run's type checker
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        if rows.ndim != 2 or rows.shape[1] < 1:
            raise InputError(f"an embedding has a row of numbers for each item, not the shape {rows.shape}")
        if rows.dtype.kind not in "fiu":
            raise InputError(f"an embedding holds floating-point numbers, not {rows.dtype}")
        if rows.dtype.kind != "f":
            rows = rows.astype(np.float64)
        if not np.isfinite(rows).all():
            raise InputError("the embedding holds NaN or infinite values")
        if self.names is not None and len(self.names) != len(rows):
            raise InputError(f"{len(self.names)} names do not name the {len(rows)} rows of the embedding")
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of(cls, rows: Embedding | ndarray) -> Embedding:
        """An embedding as it is, or an array as an embedding without names."""
        return rows if isinstance(rows, Embedding) else cls(rows)

    @property
    def items(self) -> int:
        """m, the number of rows."""
        return len(self.rows)

    @property
    def d_model(self) -> int:
        """The width of a row."""
        return int(self.rows.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """16 digits of the SHA-256 of shape and numbers, read as float32; names do not count."""
        digest = hashlib.sha256(np.array(self.rows.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.rows, dtype="<f4").tobytes())
        return digest.hexdigest()[:16]


def given_name(thing: Graph | Embedding | ndarray) -> str:
    """How a run's fields name a graph or an embedding that was handed in: given:FINGERPRINT."""
    return f"{GIVEN}:{(Embedding(thing) if isinstance(thing, ndarray) else thing).fingerprint}"
