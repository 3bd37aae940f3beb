"""Identified: a run with a meaning, its fields as JSON has them, and an id, which is their hash."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING

from manyheads.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def meaning_json(value: object) -> str:
    """The very bytes whose hash is the id."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def meaning_id(meaning: Mapping[str, object]) -> str:
    """16 hexadecimal digits of the SHA-256 of a meaning: equal for equal meanings, wherever they run."""
    return hashlib.sha256(meaning_json(meaning).encode()).hexdigest()[:16]


class Identified(ABC):
    """A frozen run, of whatever kind, that is stored and found again by what it means."""

    @property
    @abstractmethod
    def meaning(self) -> Mapping[str, object]:
        """Every field that decides what comes out, defaults settled, and the version of the protocol."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the meaning: equal for equal meanings, wherever they run."""
        return _id(self)


@lru_cache(maxsize=1 << 16)  # a sweep asks for the ids of its runs again and again
def _id(run: Identified) -> str:
    return meaning_id(run.meaning)


def settle_numbers(run: DataclassInstance) -> None:
    """Whole numbers of a frozen run become int and the others float, so that 10 and 10.0 mean the same run."""
    for field in fields(run):
        value, kind = getattr(run, field.name), str(field.type)
        words = isinstance(value, str) and "Literal" in kind
        if words or not kind.startswith(("int", "float")) or (value is None and kind.endswith("None")):
            continue
        try:
            settled = index(value) if kind.startswith("int") else float(value)
        except (TypeError, ValueError):
            wanted = "a whole number" if kind.startswith("int") else "a number"
            raise InputError(f"{field.name} must be {wanted}, not {value!r}") from None
        if not math.isfinite(settled):
            raise InputError(f"{field.name} must be a finite number, not {settled}")
        object.__setattr__(run, field.name, settled)


def check_ranges(
    run: DataclassInstance,
    *,
    counts: Sequence[str] = (),
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    below_one: Sequence[str] = (),
) -> None:
    """Refuse the first of these fields that lies outside its range; one that is None or a word has none."""
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
