"""Rows: what a page of docs/ is written from, stored as CSV in docs/data."""

from __future__ import annotations

import csv
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
Row = dict[str, Any]


def write_rows(name: str, rows: Sequence[Row]) -> None:
    """Store rows, numbers to six digits."""
    with (DATA / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


def read_rows(name: str) -> list[Row]:
    """Read stored rows, none where there is no file; what looks like a number is one."""
    path = DATA / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "": None}.get(text, text)


def there(rows: Sequence[Row], **key: Any) -> bool:
    """Whether a row with these values is among them."""
    return any(all(row[name] == value for name, value in key.items()) for row in rows)


def only(rows: Sequence[Row], **key: Any) -> Row:
    """The one row with these values."""
    (row,) = (row for row in rows if all(row[name] == value for name, value in key.items()))
    return row


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def machine_rows() -> list[Row]:
    """What rows were computed with."""
    return [
        {"fact": "machine", "value": f"{platform.machine()}, {platform.system()}"},
        {"fact": "Python", "value": platform.python_version()},
        {"fact": "numpy", "value": np.__version__},
    ]
