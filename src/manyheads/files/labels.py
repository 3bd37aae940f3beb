"""Label lists: the items' names in the order of the embedding's rows."""

from __future__ import annotations

import json
from pathlib import Path

from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_tokens


def read_labels(path: str | Path) -> tuple[str, ...]:
    """One label a line; a list or a vocabulary (label to row) of a .json file; a .gguf model's tokens. None twice."""
    path = Path(path)
    if path.suffix == GGUF_SUFFIX:
        return _once(read_gguf_tokens(path), path)
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    return _once(_json(text, path) if path.suffix.lower() == ".json" else _lines(text), path)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


def _once(labels: list[str], path: Path) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for place, label in enumerate(labels, start=1):
        if first.setdefault(label, place) != place:
            raise InputError(f"{path} gives the label {label!r} as number {first[label]} and again as number {place}")
    return tuple(labels)


def _json(text: str, path: Path) -> list[str]:
    try:
        labels = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON") from error
    if isinstance(labels, dict) and _numbers_all(list(labels.values())):
        return sorted(labels, key=labels.__getitem__)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise InputError(f"{path} is neither a JSON list of strings nor a vocabulary that numbers all rows")
    return labels


def _numbers_all(rows: list[object]) -> bool:
    numbers = [row for row in rows if isinstance(row, int)]
    return len(numbers) == len(rows) > 0 and sorted(numbers) == list(range(len(rows)))
