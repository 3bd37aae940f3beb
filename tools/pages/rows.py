"""Rows: the measured numbers of a page, stored as CSV in docs/data, and their form as text."""

from __future__ import annotations

import csv
import fcntl
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "data"
Row = dict[str, Any]
Tables = Mapping[str, list[Row]]


def write_rows(name: str, rows: Sequence[Row]) -> None:
    """Store the rows as docs/data/<name>.csv, floats with six digits."""
    with (DATA / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(rounded, rows))


def append_row(name: str, row: Row) -> None:
    """Store one row of a table; two processes may write at the same time."""
    path = DATA / f"{name}.csv"
    with path.open("a", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow(rounded(row))
        file.flush()


def rounded(row: Row) -> Row:
    """The row with its floats as text of six digits, which is how a row is stored."""
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}


def read_rows(name: str) -> list[Row]:
    """Read docs/data/<name>.csv; numbers become numbers, an empty cell None; no rows if there is no file."""
    path = DATA / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def read_tables(names: Sequence[str]) -> Tables:
    """Several tables by their names."""
    return {name: read_rows(name) for name in names}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "": None}.get(text, text)


def matching(rows: Sequence[Row], **where: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row[column] == value for column, value in where.items())]


def only(rows: Sequence[Row], **where: Any) -> Row:
    """The single row that has these values; an error if there are none or several."""
    (row,) = matching(rows, **where)
    return row


def machine_rows() -> list[Row]:
    """The machine and the versions with which rows are computed."""
    return [
        {"fact": "machine", "value": f"{platform.machine()}, {platform.system()}"},
        {"fact": "Python", "value": platform.python_version()},
        {"fact": "numpy", "value": np.__version__},
    ]


def machine_text(rows: Sequence[Row]) -> str:
    """The machine's facts as one phrase."""
    return ", ".join(f"{row['fact']} {row['value']}" for row in rows)


def number(value: float) -> str:
    """Three digits, with a comma for thousands and no exponent for large numbers."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; floats by `number`, everything else by str."""
    cells = [[number(cell) if isinstance(cell, float) else str(cell) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(head), ["---"] * len(head), *cells])


def fill(module_file: str, facts: Mapping[str, object]) -> str:
    """The text of page.md beside a module, each {{fact}} replaced by its value.

    Raises:
        ValueError: if the template names a fact that is not given, or does not use one that is.
    """
    template = Path(module_file).with_name("page.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\{\{(\w+)\}\}", template))
    if used != set(facts):
        raise ValueError(f"missing facts: {sorted(used - set(facts))}, unused facts: {sorted(set(facts) - used)}")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: str(facts[found[1]]), template)
