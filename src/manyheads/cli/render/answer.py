"""Answer: the result of a command as JSON and as tables, and the small pieces of which all tables are made."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    Attributes:
        facts: The result for programs; `json_value` turns it into JSON.
        shown: The same for people: tables and lines.
        yes: Whether the answer is yes (exit code 0) or no (1).
    """

    facts: Mapping[str, object]
    shown: Sequence[RenderableType]
    yes: bool


@runtime_checkable
class Command(Protocol):
    """A frozen dataclass whose fields are the options and whose docstring is the help text."""

    @property
    def json(self) -> bool:
        """Whether the facts are printed as JSON, not the tables."""

    def run(self) -> Answer:
        """Do the work; bad input raises InputError."""


def rendered(shown: Sequence[RenderableType]) -> str:
    """The tables and lines as text for this terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(*shown, sep="\n")
    # rich fills every line of a table with spaces; they are removed, so that a person can copy the text
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def json_value(value: object) -> object:
    """The value as JSON has it: infinite and undefined numbers are null, paths and rules are their text."""
    from manyheads.layer.rules import Rule

    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(name): json_value(part) for name, part in value.items()}
        case list() | tuple():
            return [json_value(part) for part in value]
        case Path() | Rule():
            return str(value)
        case _:
            return value


def pairs_table(rows: Iterable[tuple[str, str]]) -> Table:
    """A table of names and texts, a pair on each row; a long text wraps within its column."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(Text(name, style="dim"), Text(text))
    return table


def shown_notes(notes: Iterable[str]) -> list[RenderableType]:
    """A line for each note."""
    from rich.text import Text

    return [Text(f"note: {note}", style="yellow") for note in notes]


def say_note(note: str) -> None:
    """Print a note about the input at once, on stderr: the answer may take long, and programs read stdout."""
    print(f"note: {note}", file=sys.stderr, flush=True)


def shown_files(paths: Iterable[Path]) -> list[RenderableType]:
    """A line for each file that the command wrote."""
    from rich.text import Text

    return [Text(f"wrote {path}") for path in paths]


def in_heads(heads: int, key_width: int) -> str:
    """A number of heads and their width in words, e.g. "4 heads of width 6"."""
    return f"{heads} head{'' if heads == 1 else 's'} of width {key_width}"
