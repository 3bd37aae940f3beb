"""IdentifiedRun: a run whose id is the hash of its fields."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar

from manyheads.numbers import check_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)  # made once, for speed


def canonical_json(value: object) -> str:
    """The bytes whose hash is the id: keys sorted, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def fields_id(run_fields: Mapping[str, object]) -> str:
    """16 hexadecimal digits of the SHA-256 of the fields: equal fields have equal ids on every machine."""
    return hashlib.sha256(canonical_json(run_fields).encode()).hexdigest()[:16]


class IdentifiedRun(ABC):
    """A frozen run of any kind that a store keeps under its id."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, object]:
        """Every field that decides the result, defaults resolved, and the version of the protocol."""

    @cached_property  # a sweep asks for the ids of its runs many times
    def id(self) -> str:
        """16 hexadecimal digits of the SHA-256 of the fields: equal fields have equal ids on every machine."""
        return fields_id(self.fields)


class BatchedRun(IdentifiedRun):
    """A run that can be trained together with others, in one set of tensors.

    Attributes:
        seed: The seed of the run.
        problem_seed: The seed of its problem and its examples; None: that of the run.
        OWN_FIELDS: The fields in which the runs of one batch may differ.
    """

    OWN_FIELDS: ClassVar[tuple[str, ...]]
    seed: int
    problem_seed: int | None

    @property
    def problem(self) -> int:
        """The seed of the problem and its examples."""
        return self.seed if self.problem_seed is None else self.problem_seed

    @property
    def shared_fields(self) -> dict[str, object]:
        """The fields that all runs of one batch have in common."""
        return {name: value for name, value in self.fields.items() if name not in self.OWN_FIELDS}


def normalise_numbers(run: DataclassInstance, **names: str) -> None:
    """Make counts of a frozen dataclass int and all other numbers float, so that 10 and 10.0 have one id.

    Args:
        run: The dataclass. The range of a field is that of its name in `numbers.RANGES`; a word or None has none.
        **names: The names of the ranges of those fields whose range has another name.

    Raises:
        InputError: A field is no number of its kind, or lies outside its range.
    """
    for name, has_words, may_be_none in _numeric_fields(type(run)):
        value = getattr(run, name)
        if (has_words and isinstance(value, str)) or (may_be_none and value is None):
            continue
        number = check_number(names.get(name, name), value, said=name)
        if number is not value:
            object.__setattr__(run, name, number)


@cache  # there are thousands of runs
def _numeric_fields(kind: type[DataclassInstance]) -> tuple[tuple[str, bool, bool], ...]:
    """Every field that is a number: its name, whether it may be a word, and whether it may be None."""
    typed = [(field.name, str(field.type)) for field in fields(kind)]
    return tuple(
        (name, "Literal" in text, text.endswith("None")) for name, text in typed if text.startswith(("int", "float"))
    )
