"""Identified: a run whose id is the hash of its fields."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from manyheads.numbers import check_number

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


class BatchedRun(Identified):
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
    for field in fields(run):
        value, kind = getattr(run, field.name), str(field.type)
        words = isinstance(value, str) and "Literal" in kind
        if words or not kind.startswith(("int", "float")) or (value is None and kind.endswith("None")):
            continue
        number = check_number(names.get(field.name, field.name), value, said=field.name)
        object.__setattr__(run, field.name, number)
