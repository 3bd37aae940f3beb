"""Option errors: one sentence with the nearest valid word, if the parser refuses the words of a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from manyheads.errors import did_you_mean
from manyheads.numbers import check_number

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(inf|nan)")
MOST_DIGITS = 400  # of a number in words; Python reads 4,300
MOST_CHOICES = 12  # of a list in a sentence


@dataclass(frozen=True)
class Option:
    """An option of a command, or a word that it takes at a place of its own.

    Attributes:
        names: The ways to write it, e.g. ("--output", "-o"); of a place, its name in the help text.
        placed: Whether it is a place, not an option.
        types: The types that a value can have; (bool,) for an option without a value.
        choices: The words that it can have, if they are listed.
        count: The number of values that it takes; None for any number.
        required: Whether the command needs it.
    """

    names: tuple[str, ...]
    placed: bool
    types: tuple[type, ...]
    choices: tuple[str, ...]
    count: int | None
    required: bool

    def objection(self, value: str) -> str | None:
        """The reason why the value is refused; None if it is accepted."""
        if self.choices and not (NUMBER.fullmatch(value) and float in self.types):
            if value in self.choices:
                return None
            return f"{self.names[0]} is {_either(self.choices)}, not {value!r}" + did_you_mean(
                value, self.choices, ": did you mean {}?"
            )
        if str in self.types or Path in self.types:
            return None
        if NUMBER.fullmatch(value) and len(value) > MOST_DIGITS:
            return f"{self.names[0]} is a number of at most {MOST_DIGITS} digits, not of {len(value):,}"
        if float in self.types:
            return None if NUMBER.fullmatch(value) else f"{self.names[0]} is a number, not {value!r}"
        return None if re.fullmatch("[-+]?[0-9]+", value) else f"{self.names[0]} is a whole number, not {value!r}"


def check_options(command: Any) -> None:
    """Refuse a number that is outside the range of its option, in the groups of options too.

    Args:
        command: The command with its options. The range of an option has its name in `numbers.RANGES`.

    Raises:
        InputError: A number is outside its range. The message says the range.
    """
    for field in fields(command):
        value = getattr(command, field.name)
        if is_dataclass(value):
            check_options(value)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                check_number(field.name, number, said=f"--{field.name.replace('_', '-')}")


def unknown_word(what: str, word: str, known: Sequence[str], *, see: str) -> str:
    """The sentence about a command that does not exist, or is missing."""
    if not word or word.startswith("-"):
        return f"a {what} is missing: choose from {', '.join(known)}"
    every = f"choose from {', '.join(known)}" if len(known) <= MOST_CHOICES else f"{see} lists them"
    return f"there is no {what} {word!r}: " + (did_you_mean(word, known, "did you mean {}?") or every)


def explain(name: str, command: type, words: Sequence[str], refusal: str) -> str:
    """The reason why the parser refused the words of a command.

    Args:
        name: The command's name, e.g. "plan budget".
        command: The command's dataclass.
        words: The words after the name.
        refusal: The parser's own text, used if no other reason is found.
    """
    options = command_options(command)
    known = {spelling: option for option in options if not option.placed for spelling in option.names}
    places = [option for option in options if option.placed]
    given: set[str] = set()
    left, has_option_between = list(words), False
    while left:
        word = left.pop(0)
        if not _is_option(word):
            if not places:
                return f"{name} takes no word {word!r} here: manyheads {name} --help lists its options"
            if has_option_between and places[0].names[0] in given:
                return f"{name}: {word!r} stands behind an option: give it together with the words before the option"
            if said := places[0].objection(word):
                return said
            given.add(places[0].names[0])
            if places[0].count is not None:
                places.pop(0)
            continue
        has_option_between |= bool(given)
        spelling, equals, value = word.partition("=")
        spelling = spelling.replace("_", "-")
        if spelling not in known:
            # dashes are not compared, since all options have them
            bare = (name.lstrip("-") for name in known if name.startswith("--"))
            near = did_you_mean(spelling.lstrip("-"), bare, "did you mean --{}?")
            return f"{name} has no option {spelling}: " + (near or f"manyheads {name} --help lists its options")
        option = known[spelling]
        given.add(option.names[0])
        if equals and option.count == 0:
            return f"{spelling} takes no value, not {value!r}"
        values = [value] if equals else _values(option, left)
        if option.count is not None and len(values) < option.count:
            return f"{spelling} needs {_values_in_words(option)}"
        for value in values:
            if said := option.objection(value):
                return said
    missing = [option.names[0] for option in options if option.required and option.names[0] not in given]
    if missing:
        return f"{name} needs {_list(missing, 'and')}"
    return _flattened(refusal)


def command_options(command: type) -> list[Option]:
    """All options of a command's dataclass, with those of the groups in it."""
    found: list[Option] = []
    hints = get_type_hints(command, include_extras=True)
    for field in fields(command):
        plain, notes = _unwrapped(hints[field.name])
        if is_dataclass(plain) and isinstance(plain, type):
            found += command_options(plain)
        else:
            required = field.default is MISSING and field.default_factory is MISSING
            found.append(_option(field.name, plain, notes, default=field.default, required=required))
    return found


def _option(name: str, plain: Any, notes: Sequence[Any], *, default: object, required: bool) -> Option:
    placed = tyro.conf.Positional in notes or any(getattr(note, "name", None) == "" for note in notes)
    arguments = [note for note in notes if hasattr(note, "metavar") and hasattr(note, "aliases")]
    named = next((note.name for note in arguments if note.name), name).replace("_", "-")
    aliases = tuple(alias for note in arguments for alias in note.aliases or ())
    members, count = _members(plain)
    choices = tuple(str(choice) for one in members if get_origin(one) is Literal for choice in get_args(one))
    types = tuple(one for one in members if isinstance(one, type) and one is not NoneType)
    if types == (bool,):
        named = f"no-{named}" if default is True else named
        count = 0
    metavar = next((note.metavar for note in arguments if note.metavar), name.upper())
    names = (metavar.strip("[]").split()[0],) if placed else (f"--{named}", *aliases)
    return Option(names, placed, types, choices, count, required)


def _unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """The type without its annotations, and these."""
    notes: list[Any] = []
    while get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        notes += more
    return hint, notes


def _members(plain: Any) -> tuple[list[Any], int | None]:
    """The types that one value can have, and the number of values (None: any number)."""
    parts = [_unwrapped(one)[0] for one in get_args(plain)] if get_origin(plain) in (Union, UnionType) else [plain]
    for part in parts:
        if get_origin(part) is tuple:
            inner = get_args(part)
            return [one for one in inner if one is not ...], None if ... in inner else len(inner)
    return parts, 1


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not NUMBER.fullmatch(word)


def _values(option: Option, left: list[str]) -> list[str]:
    """Take the values of an option from the words that are left."""
    taken: list[str] = []
    while left and not _is_option(left[0]) and (option.count is None or len(taken) < option.count):
        taken.append(left.pop(0))
    return taken


def _values_in_words(option: Option) -> str:
    if option.choices:
        return f"a value: {_either(option.choices)}"
    kind = "a whole number" if option.types == (int,) else "a number" if option.types == (float,) else "a value"
    return kind if option.count == 1 else f"{option.count} values"


def _either(choices: Sequence[str]) -> str:
    shown = list(choices[:MOST_CHOICES])
    return _list([*shown, "…"] if len(choices) > MOST_CHOICES else shown, "or")


def _list(words: Iterable[str], last: str) -> str:
    *before, final = words
    return f"{', '.join(before)} {last} {final}" if before else final


def _flattened(refusal: str) -> str:
    """The first statement of the parser's box as one line."""
    lines = [line.strip("│ ") for line in refusal.splitlines() if not line.startswith(("╭", "╰"))]
    end = next((place for place, line in enumerate(lines) if line.startswith("───")), len(lines))
    return " ".join(line for line in lines[:end] if line) or "these options cannot be read"
