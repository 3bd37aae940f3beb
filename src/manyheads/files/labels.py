"""Label lists: the items' names in the order of the embedding's rows."""

from __future__ import annotations

import json
from pathlib import Path

from manyheads.errors import InputError
from manyheads.files.whole import read_whole


def read_labels(path: str | Path) -> tuple[str, ...]:
    """One label a line, or a JSON list of strings where the name ends in .json; none twice."""
    path = Path(path)
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    labels = _json_list(text, path) if path.suffix.lower() == ".json" else text.removesuffix("\n").split("\n")
    first: dict[str, int] = {}
    for place, label in enumerate(labels, start=1):
        if first.setdefault(label, place) != place:
            raise InputError(f"{path} gives the label {label!r} as number {first[label]} and again as number {place}")
    return tuple(labels)


def _json_list(text: str, path: Path) -> list[str]:
    try:
        labels = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise InputError(f"{path} is not a JSON list of strings")
    return labels
