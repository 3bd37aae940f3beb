"""Records as flat rows, and rows as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.sweep.store.record import Record
from manyheads.text import cell_text

ENDINGS = (".csv", ".jsonl", ".parquet")


def as_row(record: Record) -> dict[str, object]:
    """The run's fields, the scores and all other columns in one row; a missing value is None."""
    rest = {name: value for name, value in asdict(record).items() if name not in ("run", "scores", "curve")}
    return run_columns(record.run) | dict(record.scores) | rest


def run_columns(fields: Mapping[str, object]) -> dict[str, object]:
    """A run's fields as columns, with its D_K; `steps` is the column of the steps made, so the limit has its own."""
    run: dict[str, Any] = dict(fields)
    if "heads" in run and "key_width" in run:
        run["key_budget"] = run.get("key_heads", run["heads"]) * run["key_width"]
    if "steps" in run:
        run["step_limit"] = run.pop("steps")
    return run


def export(rows: Sequence[Mapping[str, object]], path: Path, *, force: bool) -> None:
    """Write all rows or none. The ending of the file decides the format.

    Args:
        rows: One mapping from column to value each; a row may lack columns that other rows have.
        path: A file .csv, .jsonl or .parquet.
        force: Whether an existing file is replaced.

    Raises:
        InputError: The ending is another one, the file exists, it cannot be written, or pyarrow is missing.
    """
    match path.suffix:
        case ".csv":
            write_whole(path, _csv(rows).encode(), force=force)
        case ".jsonl":
            write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode(), force=force)
        case ".parquet":
            write_whole(path, _parquet(rows), force=force)
        case other:
            raise InputError(f"results are exported as {', '.join(ENDINGS)}, not as {other or 'a file without ending'}")


def _names(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Every column of any row: runs of another kind have other fields."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    names = _names(rows)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell_text, names))
    writer.writerows(
        [cell_text(cell) if isinstance(cell := row.get(name), str) else cell for name in names] for row in rows
    )
    return text.getvalue()


def _parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'manyheads[parquet]'") from None
    columns = {name: _one_type([row.get(name) for row in rows]) for name in _names(rows)}
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _one_type(column: list[object]) -> list[object]:
    """A positive weight is "balanced" or a number, but a column of Parquet has one type."""
    words = any(isinstance(value, str) for value in column)
    return [str(value) if words and value is not None else value for value in column]
