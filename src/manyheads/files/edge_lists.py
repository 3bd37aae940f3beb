"""Graphs in files: one relation a line, `source,target`, as item numbers or as labels.

    # items: 4
    source,target
    0,1
    2,0

Lines that begin with # stand at the top. `# items: 4` says how many items there are (else: up to the largest number
seen); `# item: "Paris"` names the next item, in the order of the embedding's rows; `# sha256: …` guards all that
follows it. `source,target` is an optional heading. Fields are quoted as in any CSV; a .tsv file has tabs for commas.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole, write_whole
from manyheads.problem.graph import Graph

HEADING = ("source", "target")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
MOST_ITEMS = 2**27  # a number beyond this is no item number, and an array of that length would fill the memory
NUMBER = re.compile(r" *[+-]?[0-9]{1,18} *", re.ASCII)


@dataclass(frozen=True)
class EdgeList:
    """An edge list as it stands in its file, before its fields mean items."""

    path: Path
    items: int | None
    labels: tuple[str, ...] | None
    fields: list[tuple[str, str]]
    lines: list[int]  # where each pair of fields stands

    @property
    def in_numbers(self) -> bool:
        """Whether its first lines, a foreign heading aside, are pairs of whole numbers."""
        return not self.fields or any(all(map(NUMBER.fullmatch, pair)) for pair in self.fields[:2])

    def wrong(self, relation: int, what: str) -> InputError:
        """The error that names the line."""
        return InputError(f"{self.path}, line {self.lines[relation]}: {what}")


def read_graph(path: str | Path, *, items: int | None = None, labels: Sequence[str] | None = None) -> Graph:
    """The graph of an edge list; a line that cannot be right is named by its number.

    With `labels` (or `# item:` lines) every field is one of these names. Without, a file whose first lines are pairs of
    whole numbers holds item numbers; any other holds labels, which are numbered in the order they first appear.
    `items` says how many items there are where a file of item numbers does not.
    """
    edges = parse(Path(path))
    if labels is not None and edges.labels is not None and tuple(labels) != edges.labels:
        raise InputError(f"{path} names its items itself, and otherwise than the given labels")
    names = edges.labels if labels is None else tuple(labels)
    if names is not None and len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"{path} cannot be read with labels of which {twice!r} names two items")
    if names is None and edges.in_numbers:
        return _numbered(edges, items if edges.items is None else edges.items)
    return _labelled(edges, names)


def write_graph(path: str | Path, graph: Graph, *, force: bool = False) -> None:
    """Write the relations and items, names included, so that `read_graph` gives the very same graph back."""
    path = Path(path)
    if path.suffix not in DELIMITERS:
        raise InputError(f"{path} cannot hold a graph: its name must end in .csv or .tsv")
    text = io.StringIO()
    text.write(f"# items: {graph.items}\n")
    text.writelines(f"# item: {json.dumps(label)}\n" for label in graph.labels or ())
    text.write(DELIMITERS[path.suffix].join(HEADING) + "\n")
    # Labels are quoted throughout, so that one which begins with # is no comment.
    writer = csv.writer(text, delimiter=DELIMITERS[path.suffix], quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    writer.writerows(pairs if graph.labels is None else ((graph.name(i), graph.name(j)) for i, j in pairs))
    try:
        content = text.getvalue().encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path} cannot hold this graph: a label is not text that UTF-8 can hold") from error
    write_whole(path, f"# sha256: {hashlib.sha256(content).hexdigest()}\n".encode() + content, force=force)


def parse(path: Path) -> EdgeList:
    """The lines of an edge list, split into fields, with what its top says about the items."""
    content = read_whole(path).removeprefix(b"\xef\xbb\xbf")  # the mark some editors put before UTF-8
    items, labels, line, start = None, [], 0, 0
    while content.startswith(b"#", start):
        end = content.find(b"\n", start) + 1 or len(content)
        comment, start, line = content[start:end], end, line + 1
        name, _, value = _text(comment, path, line).removeprefix("#").strip().partition(": ")
        if name == "sha256" and value != hashlib.sha256(content[start:]).hexdigest():
            raise InputError(
                f"{path}, line {line}: the checksum is not that of what follows, so the file is damaged, "
                "or was changed by hand (then delete this line)"
            )
        if name == "items":
            items = _count(value, path, line)
        if name == "item":
            labels.append(_label(value, path, line))
    if labels and items not in (None, len(labels)):
        raise InputError(f"{path} says that it has {items} items and names {len(labels)}")
    fields, lines = _fields(_text(content[start:], path, line + 1), path, line)
    if not fields and items is None and not labels:
        raise InputError(f"{path} holds no relation and does not say how many items there are")
    return EdgeList(path, items, tuple(labels) or None, fields, lines)


def _fields(text: str, path: Path, line: int) -> tuple[list[tuple[str, str]], list[int]]:
    first = text.lstrip().partition("\n")[0]
    delimiter = DELIMITERS.get(path.suffix.lower(), "\t" if "\t" in first else ",")
    fields: list[tuple[str, str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if len(row) != 2 and row:  # a blank line is no row
                count = "one field" if len(row) == 1 else f"{len(row)} fields"
                between = "a tab" if delimiter == "\t" else "a comma"
                raise InputError(
                    f"{path}, line {line + reader.line_num}: {count}, not source and target with {between}"
                )
            if row:
                fields.append((row[0], row[1]))
                lines.append(line + reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}, line {line + reader.line_num}: {error}") from error
    headed = fields[:1] == [HEADING]
    return fields[headed:], lines[headed:]


def _numbered(edges: EdgeList, items: int | None) -> Graph:
    most = MOST_ITEMS if items is None else items
    ends: list[int] = []
    for relation, pair in enumerate(edges.fields):
        for field in pair:
            if not NUMBER.fullmatch(field):
                raise edges.wrong(relation, f"{field!r} is not an item number as on the lines around it")
            ends.append(int(field))
            if not 0 <= ends[-1] < most:
                raise edges.wrong(relation, f"item {field.strip()} is out of range 0 … {most - 1}")
    return _graph(edges, max(ends) + 1 if items is None else items, ends, None)


def _labelled(edges: EdgeList, names: tuple[str, ...] | None) -> Graph:
    number = {name: item for item, name in enumerate(names or ())}
    ends: list[int] = []
    for relation, pair in enumerate(edges.fields):
        for field in pair:
            if field not in number:
                if names is not None:
                    raise edges.wrong(relation, f"unknown label {field!r}")
                if field != field.strip() or not field:
                    raise edges.wrong(relation, f"the label {field!r} is empty or has blanks around it")
                number[field] = len(number)
            ends.append(number[field])
    if edges.items not in (None, len(number)):
        raise InputError(f"{edges.path} says that it has {edges.items} items, but there are {len(number)} labels")
    return _graph(edges, len(number), ends, tuple(number))


def _graph(edges: EdgeList, items: int, ends: list[int], labels: tuple[str, ...] | None) -> Graph:
    sources, targets = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    order = np.lexsort((targets, sources))  # stable: of equal relations the earlier line comes first
    again = order[1:][(np.diff(sources[order]) == 0) & (np.diff(targets[order]) == 0)]
    if again.size:
        first = int(again.min())
        source, target = edges.fields[first]
        raise edges.wrong(first, f"the relation {source!r} → {target!r} is given a second time")
    return Graph(items, sources, targets, labels)


def _text(content: bytes, path: Path, line: int) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        raise InputError(f"{path}, line {line}: not UTF-8 text") from error


def _count(value: str, path: Path, line: int) -> int:
    if not NUMBER.fullmatch(value) or not 1 <= int(value) <= MOST_ITEMS:
        raise InputError(f"{path}, line {line}: {value!r} is not a number of items")
    return int(value)


def _label(value: str, path: Path, line: int) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {line}: the label {value!r} is not closed as it should be") from error
