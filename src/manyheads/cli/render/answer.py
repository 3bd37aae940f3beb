"""Answer: the result of a command as JSON and as tables, the small pieces of all tables, and the ways to print."""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, runtime_checkable

from manyheads.errors import InputError
from manyheads.text import shown_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
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


class Collector(io.StringIO):
    """Collects text that is formed as for stdout: colours in a terminal, characters that stdout can encode."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stdout

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of stdout."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether stdout is a terminal."""
        return self._stream is not None and self._stream.isatty()


def rendered(shown: Sequence[RenderableType]) -> str:
    """The tables and lines as text for this terminal: foreign text in them is shown, not obeyed."""
    collector = Collector()
    shown_console(highlight=False, file=collector).print(*shown, sep="\n")
    # rich fills every line of a table with spaces; they are removed, so that a person can copy the text
    return "\n".join(line.rstrip() for line in collector.getvalue().splitlines())


def shown_console(**options: Any) -> Console:
    """A console that prints markup and emoji codes literally, and control characters as escapes."""
    from rich.console import Console
    from rich.segment import Segment

    class ShownConsole(Console):
        """Every piece of text passes here, also that of a cell in a table."""

        def render(self, *given: Any, **more: Any) -> Iterable[Segment]:
            for segment in super().render(*given, **more):
                lines = (shown_text(line, most=sys.maxsize) for line in segment.text.split("\n"))
                yield segment if segment.control else segment._replace(text="\n".join(lines))

    return ShownConsole(markup=False, emoji=False, **options)


def tell(text: str) -> bool:
    """Print an answer on stdout; characters that stdout cannot encode become escapes.

    Returns:
        Whether anybody reads it. After the reader has closed the pipe, there is silence.

    Raises:
        InputError: stdout cannot be written, e.g. because the disk is full.
    """
    encoding = Collector().encoding
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        _discard(sys.stdout)
        return False
    except OSError as error:
        _discard(sys.stdout)
        raise InputError(f"the answer cannot be printed: {error.strerror}") from None
    return True


def say(text: object) -> None:
    """Print one line about the work on stderr. Work goes on where stderr cannot be written."""
    try:
        print(shown_text(text), file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Lead a stream that cannot be written to the null device: its rest is flushed when the process ends."""
    with contextlib.suppress(OSError):  # a stream without a number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


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
        table.add_row(Text(name, style="dim"), Text(shown_text(text)))
    return table


def shown_notes(notes: Iterable[str]) -> list[RenderableType]:
    """A line for each note."""
    from rich.text import Text

    return [Text(shown_text(f"note: {note}"), style="yellow") for note in notes]


def shown_files(paths: Iterable[Path]) -> list[RenderableType]:
    """A line for each file that the command wrote."""
    from rich.text import Text

    return [Text(shown_text(f"wrote {path}")) for path in paths]
