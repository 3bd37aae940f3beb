"""Embedding: one row of d_model numbers for each item, and the items' names where they are known."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from manyheads.errors import InputError, require_texts
from manyheads.problem.graph import Graph
from manyheads.tables import Shown, Summary, counted, summary

MARKS = ("", "Ġ", "▁", " ")  # before a token that begins a word; the tokenisers differ in the mark
SHOWN = 20  # missing names in one message
LIKELY = 50  # known names that are compared with a name letter by letter: those that share most pairs of letters
GIVEN = "given"  # a run names a given graph or embedding given:FINGERPRINT


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Shown):
    """Rows of numbers, one for each item, frozen while a layer is built or trained.

    Attributes:
        rows: Floating-point numbers of shape (items, d_model), all finite.
        names: The items' names in the order of the rows, or None.

    Raises:
        InputError: The rows are no such array, the names are no texts, or they are not as many as the rows.

    >>> Embedding(np.eye(3), names=("a", "b", "c")).d_model
    3
    """

    rows: ndarray  # Float (items, d_model): checked below, with a sentence, not by the test run's type checker
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InputError(f"an embedding has a row of numbers for each item, not the shape {rows.shape}")
        if rows.dtype.kind not in "fiu":
            raise InputError(f"an embedding holds floating-point numbers, not {rows.dtype}")
        if rows.dtype.kind != "f":
            rows = rows.astype(np.float64)
        if not np.isfinite(rows).all():
            raise InputError("the embedding holds NaN or infinite values")
        require_texts(() if self.names is None else self.names, "names")
        if self.names is not None and len(self.names) != len(rows):
            raise InputError(f"{len(self.names)} names do not name the {len(rows)} rows of the embedding")
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of(cls, rows: Embedding | ndarray) -> Embedding:
        """An embedding as it is, or an array as an embedding without names.

        Args:
            rows: An embedding, or an array of shape (items, d_model).

        Returns:
            The same embedding, or a new one.

        Raises:
            InputError: The array cannot be an embedding.
        """
        return rows if isinstance(rows, Embedding) else cls(rows)

    def select(self, names: Sequence[str]) -> Embedding:
        """The rows of named items.

        A name that is not in the embedding stands for the token that begins a word: Paris finds ĠParis and ▁Paris.

        Args:
            names: Names of rows, in the order in which the rows are wanted, e.g. the labels of a graph.

        Returns:
            An embedding with a row for each given name.

        Raises:
            InputError: The embedding has no names, or some names have no row. The message lists these names.

        >>> cities = Embedding(np.eye(3), names=("ĠParis", "ĠRome", "river"))
        >>> cities.select(["river", "Paris"]).rows[:, 0]
        array([0., 1.])
        """
        require_texts(names, "names")
        if self.names is None:
            raise InputError("the embedding does not know the names of its rows: give them as names=")
        places = [next(iter(places_of(name, self._numbers)), None) for name in names]
        missing = [name for name, place in zip(names, places, strict=True) if place is None]
        if missing:
            raise InputError(
                f"{len(missing):,} of {len(names):,} names have no row: {with_nearest(missing, self._numbers)}"
            )
        return Embedding(self.rows[[place for place in places if place is not None]], tuple(names))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        """The rows, where numpy needs an array."""
        return np.array(self.rows, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.rows)

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
        """16 digits of the SHA-256 of the shape and the numbers as float32, without the names."""
        digest = hashlib.sha256(np.array(self.rows.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(self.rows, dtype="<f4").tobytes())
        return digest.hexdigest()[:16]

    def summary(self) -> Summary:
        """The sizes, the lengths of the rows, and the first names."""
        lengths = np.linalg.norm(self.rows, axis=1)
        names = self.names and ", ".join(self.names[:SHOWN]) + (", …" if len(self.names) > SHOWN else "")
        rows: list[tuple[str, object]] = [
            ("numbers", self.rows.dtype),
            ("length of a row", f"{lengths.min():.3g} … {lengths.max():.3g}, mean {lengths.mean():.3g}"),
            ("names", names),
        ]
        return summary(f"embedding of {counted(self.items, 'row')}, d_model {self.d_model}", rows)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The first row of each name."""
        names = self.names or ()
        return {name: row for row, name in reversed(list(enumerate(names)))}


def places_of(name: str, numbers: Mapping[str, int]) -> list[int]:
    """The numbers of a name without a mark and with each mark, in the order of MARKS."""
    return [numbers[mark + name] for mark in MARKS if mark + name in numbers]


def with_nearest(missing: Sequence[str], known: Iterable[str]) -> str:
    """The missing names for a message, at most SHOWN of them, each with the nearest known names."""
    near = near_names(missing[:SHOWN], known)
    words = [
        f"{name!r} (nearest: {', '.join(map(repr, near[name]))})" if near[name] else repr(name)
        for name in missing[:SHOWN]
    ]
    return ", ".join(words) + (f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else "")


def near_names(names: Sequence[str], known: Iterable[str]) -> dict[str, list[str]]:
    """For each name, up to three known names, without their marks, with nearly the same spelling.

    Only the LIKELY known names that share the most pairs of letters are compared: a vocabulary has 100,000 names.
    """
    unmarked = list(dict.fromkeys(one.lstrip("".join(MARKS)) for one in known))
    holders: dict[str, list[int]] = {pair: [] for name in names for pair in _pairs(name)}
    for number, one in enumerate(unmarked):
        for pair in _pairs(one) & holders.keys():
            holders[pair].append(number)
    found = {}
    for name in names:
        shared = Counter(number for pair in _pairs(name) for number in holders[pair])
        # of names that share equally many pairs, the shorter one is nearer
        likely = sorted(shared, key=lambda number: (-shared[number], len(unmarked[number])))[:LIKELY]
        spellings = {unmarked[number].lower(): unmarked[number] for number in reversed(likely)}
        near = difflib.get_close_matches(name.lower(), spellings, n=3)
        found[name] = [spellings[one] for one in near]
    return found


def _pairs(name: str) -> set[str]:
    """The pairs of neighbouring letters, without the difference of small and capital letters, and both ends."""
    text = f"^{name.lower()}$"
    return {text[place : place + 2] for place in range(len(text) - 1)}


def given_name(thing: Graph | Embedding | ndarray) -> str:
    """The name of a given graph or embedding in the fields of a run: given:FINGERPRINT."""
    return f"{GIVEN}:{(Embedding(thing) if isinstance(thing, ndarray) else thing).fingerprint}"
