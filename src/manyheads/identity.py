"""Identified: a run whose id is the hash of its fields."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING

from manyheads.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def canonical_json(value: object) -> str:
    """The bytes whose hash is the id: keys sorted, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fields_id(run_fields: Mapping[str, object]) -> str:
    """16 hexadecimal digits of the SHA-256 of the fields: equal fields have equal ids on every machine."""
    return hashlib.sha256(canonical_json(run_fields).encode()).hexdigest()[:16]


class Identified(ABC):
    """A frozen run of any kind that a store keeps under its id."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, object]:
        """Every field that decides the result, defaults resolved, and the version of the protocol."""

    @cached_property  # a sweep asks for the ids of its runs many times
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the fields: equal fields have equal ids on every machine."""
        return fields_id(self.fields)


def normalise_numbers(run: DataclassInstance) -> None:
    """Make whole numbers of a frozen dataclass int and all other numbers float, so that 10 and 10.0 have one id.

    Raises:
        InputError: A field is no finite number, or a whole number is needed.
    """
    for field in fields(run):
        value, kind = getattr(run, field.name), str(field.type)
        words = isinstance(value, str) and "Literal" in kind
        if words or not kind.startswith(("int", "float")) or (value is None and kind.endswith("None")):
            continue
        try:
            number = index(value) if kind.startswith("int") else float(value)
        except (TypeError, ValueError):
            wanted = "a whole number" if kind.startswith("int") else "a number"
            raise InputError(f"{field.name} must be {wanted}, not {value!r}") from None
        if not math.isfinite(number):
            raise InputError(f"{field.name} must be a finite number, not {number}")
        object.__setattr__(run, field.name, number)


def check_ranges(
    run: DataclassInstance,
    *,
    counts: Sequence[str] = (),
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    below_one: Sequence[str] = (),
) -> None:
    """Refuse the first of these fields that lies outside its range. A field that is None or a word has no range."""
    ranges: tuple[tuple[Sequence[str], Callable[[float], bool], str], ...] = (
        (counts, lambda value: value >= 1, "be at least 1"),
        (positive, lambda value: value > 0, "be positive"),
        (not_negative, lambda value: value >= 0, "not be negative"),
        (below_one, lambda value: 0 <= value < 1, "lie in [0, 1)"),
    )
    for names, is_fine, wanted in ranges:
        for name in names:
            value = getattr(run, name)
            if isinstance(value, (int, float)) and not is_fine(value):
                raise InputError(f"{name} must {wanted}, not {value}")
