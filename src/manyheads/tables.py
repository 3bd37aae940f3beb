"""Short tables of values: one list of rows is shown in notebooks as HTML, and in terminals as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyheads.errors import InputError
from manyheads.text import html_text, shown_text

MOST_LINES = 15
MOST_CHARACTERS = 200  # of a cell: a reason or a list of names is shortened in its middle


@dataclass(frozen=True)
class Summary:
    """A value for people: a title, and below it pairs of a name and a text; at most MOST_LINES lines.

    Attributes:
        title: One line.
        rows: The pairs.
    """

    title: str
    rows: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The table as lines of text, the names in a column."""
        rows = [(shown_text(name), shown_text(text, most=MOST_CHARACTERS)) for name, text in self._shown()]
        width = max((len(name) for name, _ in rows), default=0) + 2
        return "\n".join([shown_text(self.title), *(f"{name:<{width}}{text}" for name, text in rows)])

    def html(self) -> str:
        """The table as HTML without scripts and styles of its own; foreign text is escaped."""
        cells = "".join(
            f"<tr><th>{html_text(name)}</th><td>{html_text(text, most=MOST_CHARACTERS)}</td></tr>"
            for name, text in self._shown()
        )
        return f"<table><caption>{html_text(self.title)}</caption>{cells}</table>"

    def _shown(self) -> Sequence[tuple[str, str]]:
        if len(self.rows) < MOST_LINES:
            return self.rows
        kept = self.rows[: MOST_LINES - 2]
        return [*kept, ("…", f"{len(self.rows) - len(kept)} more lines")]


class Shown:
    """A value that shows itself as its summary: in a notebook, in a terminal, and with `print`."""

    def summary(self) -> Summary:
        """The value in a title and at most 14 rows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()


def summary(title: str, rows: Iterable[tuple[str, object]]) -> Summary:
    """A summary of these rows; a row whose value is None is left out."""
    return Summary(title, tuple((name, str(value)) for name, value in rows if value is not None))


def markdown_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(markdown_table(("m", "D_K"), [("64", "16")]))
    | m | D_K |
    |---|---|
    | 64 | 16 |
    """
    rule = "|" + "---|" * len(headings)
    head, *body = (f"| {' | '.join(cells)} |" for cells in (headings, *lines))
    return "\n".join([head, rule, *body])


def counted(number: int, noun: str) -> str:
    """A number and its noun, which ends in s unless the number is 1.

    >>> counted(1, "head"), counted(1024, "item")
    ('1 head', '1,024 items')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def graph_sizes(items: int, relations: int) -> str:
    """The sizes of a graph in words.

    >>> graph_sizes(64, 1)
    '64 items, 1 relation'
    """
    return f"{counted(items, 'item')}, {counted(relations, 'relation')}"


def in_heads(heads: int, key_width: int, key_heads: int | None = None) -> str:
    """A number of heads and their width in words, and the number of key heads if heads share keys.

    >>> in_heads(4, 6), in_heads(4, 6, 1)
    ('4 heads of width 6', '4 heads of width 6 that share 1 key head')
    """
    shared = "" if key_heads in (None, heads) else f" that share {counted(key_heads or 0, 'key head')}"
    return f"{counted(heads, 'head')} of width {key_width:,}{shared}"


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """Rows as a data frame of pandas.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError("a data frame needs pandas, which is not installed: pip install pandas") from None
    return pd.DataFrame(list(rows))
