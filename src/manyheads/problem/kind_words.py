"""The grammar NAME:NUMBER:NUMBER in which every command and every task names a family of graphs or embeddings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from manyheads.errors import InputError, did_you_mean
from manyheads.numbers import RANGES, check_number

Value = int | float


@dataclass(frozen=True)
class Parameter:
    """A number after the name of a kind, e.g. DEGREE in regular:ITEMS:DEGREE."""

    name: str
    type: Literal["int", "float"] = "int"

    def parse(self, word: str) -> Value | None:
        """The number, or None where the word is no such number."""
        pattern = "[0-9]{1,400}" if self.type == "int" else r"[0-9]+(\.[0-9]*)?"
        return None if not re.fullmatch(pattern, word) else int(word) if self.type == "int" else float(word)


K = TypeVar("K")


def form_of(name: str, parameters: Sequence[Parameter]) -> str:
    """How the kind is written, e.g. regular:ITEMS:DEGREE."""
    return ":".join([name, *(parameter.name.upper() for parameter in parameters)])


def split_words(words: str, kinds: Mapping[str, K], *, what: str, forms: Sequence[str]) -> tuple[K, list[str]]:
    """The kind that the words name and the words after its name; an unknown name is refused with the nearest one."""
    name, *rest = words.split(":")
    if name not in kinds:
        raise InputError(f"unknown kind of {what} {name!r}{did_you_mean(name, kinds)}: choose from {', '.join(forms)}")
    return kinds[name], rest


def parse_values(words: str, rest: Sequence[str], parameters: Sequence[Parameter], *, form: str) -> tuple[Value, ...]:
    """The numbers after a kind's name, one for each parameter."""
    values = [parameter.parse(word) for parameter, word in zip(parameters, rest, strict=False)]
    if len(rest) != len(parameters) or None in values:
        raise InputError(f"{words!r} is not of the form {form}")
    for parameter, value in zip(parameters, values, strict=True):
        name = parameter.name if parameter.name in RANGES else "constants" if parameter.type == "float" else "items"
        check_number(name, value, said=f"{parameter.name.upper()} of {form}")
    return tuple(value for value in values if value is not None)


def value_word(value: Value) -> str:
    """A parameter as it is written; words that are read again give the same number, to its last bit."""
    if isinstance(value, int):
        return str(value)
    return np.format_float_positional(value, trim="-")


def seed_word(value: Value) -> int:
    """A parameter as a word of a seed: an integer as it is, a float by its bits."""
    return value if isinstance(value, int) else int(np.float64(value).view(np.uint64))
