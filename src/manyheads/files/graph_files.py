r"""Graphs in files: one relation a line, `source,target`, as item numbers or as labels.

    # items: 4
    source,target
    0,1
    2,0

Lines that begin with # are at the top of the file:
- `# items: 4` is the number of items. Without it, the largest item number decides.
- `# item: "Paris"` is the name of the next item, in the order of the embedding's rows.
- `# sha256: …` is the checksum of everything after this line. At most one line is a checksum.
- `# fields: json` means that a field which begins with a quotation mark is a JSON string. It is written if a label
  could be a formula in a spreadsheet, such as `=1+1`: this label is then written as `"\u003d1\u002b1"`.

A heading such as `source,target` is optional (see `read_graph`). Fields are quoted as in any CSV file; a .tsv file has
tabs instead of commas.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manyheads.errors import InputError, path_of, require_type
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import TEXT_LIMIT, read_bytes
from manyheads.files.embedding_files import check_label
from manyheads.files.graph_headings import NUMBER, HeadingWarning, first_line
from manyheads.problem.graph import Graph
from manyheads.text import FORMULA, shown_text

HEADING = ("source", "target")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
MOST_ITEMS = 2**27  # a larger number is not an item number: an array of that length would fill the memory
UNSTATED_ITEMS, UNSTATED_RATIO = 2**20, 16  # without `# items:`, at most this many items, or for each relation
JSON_FIELDS = "json"


@dataclass(frozen=True)
class EdgeList:
    """The text of an edge list, before its fields are turned into items.

    Attributes:
        path: The file.
        items: The number of items, if the file says it.
        labels: The names of the items, if the file says them.
        fields: The two fields of each relation.
        lines: The line number of each relation.
    """

    path: Path
    items: int | None
    labels: tuple[str, ...] | None
    fields: list[tuple[str, str]]
    lines: list[int]

    @property
    def has_item_numbers(self) -> bool:
        """Whether the first or the second line is a pair of whole numbers; the first may be an unknown heading."""
        return not self.fields or any(all(map(NUMBER.fullmatch, pair)) for pair in self.fields[:2])

    def line_error(self, relation: int, reason: str) -> InputError:
        """An error that names the line of a relation."""
        return InputError(f"{self.path}, line {self.lines[relation]}: {reason}")


def read_graph(
    path: str | Path,
    *,
    items: int | None = None,
    labels: Sequence[str] | None = None,
    header: bool | None = None,
) -> Graph:
    """Read the graph of an edge list.

    With `labels` (or `# item:` lines) every field is one of these names. Without, a file whose first lines are pairs of
    whole numbers holds item numbers. Any other file holds labels, numbered in the order in which they first appear.

    The first line can be a heading: `source,target`, or what `graph_headings.first_line` recognises. A
    `HeadingWarning` says so.

    Args:
        path: A .csv or .tsv file.
        items: The number of items, for a file of item numbers that does not say it.
        labels: The names of the items, in the order of the embedding's rows. `read_labels` reads them from a file.
        header: Whether the first line is a heading; None: it is found out.

    Returns:
        The graph, with labels if the file or the caller names the items.

    Raises:
        InputError: The file cannot be read, or a line is malformed. The message has the number of the line.
    """
    if isinstance(labels, (str, Path)):
        raise InputError(f"labels are a sequence of names, not {str(labels)!r}: read_labels reads them from a file")
    edges = parse(path)
    if labels is not None and edges.labels is not None and tuple(labels) != edges.labels:
        raise InputError(f"{path} has names for its items that differ from the given labels")
    names = edges.labels if labels is None else tuple(labels)
    if names is not None and len(set(names)) < len(names):
        found: set[str] = set()
        twice = next(name for name in names if name in found or found.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"{path} cannot be read with these labels: {twice!r} names two items")
    edges = _without_heading(edges, names, header)
    if not edges.fields and edges.items is None and names is None:
        raise InputError(f"{path} holds no relation and does not say how many items there are")
    if names is None and edges.has_item_numbers:
        return _numbered(edges, items if edges.items is None else edges.items)
    return _labelled(edges, names)


def write_graph(path: str | Path, graph: Graph, *, force: bool = False) -> None:
    """Write a graph, with its items and their names. `read_graph` returns an equal graph.

    Args:
        path: The file; its name must end in .csv or .tsv.
        graph: The graph.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written, or a label is not valid text.
    """
    write_whole(path, pack_graph(path, graph), force=force)


def pack_graph(path: str | Path, graph: Graph) -> bytes:
    """The bytes of a graph's file, for `write_together`.

    Args:
        path: The name of the file; its ending decides the format.
        graph: The graph.

    Returns:
        The bytes, UTF-8 text that begins with the SHA-256 of the rest.

    Raises:
        InputError: The name does not end in .csv or .tsv, or a label is not valid text.
    """
    require_type(graph, Graph, "the graph to write")
    path = path_of(path)
    if path.suffix not in DELIMITERS:
        raise InputError(f"{path} cannot hold a graph: its name must end in .csv or .tsv")
    text = io.StringIO()
    text.write(f"# items: {graph.items}\n")
    is_json = any(map(FORMULA.search, graph.labels or ()))
    if is_json:
        text.write(f"# fields: {JSON_FIELDS}\n")
    text.writelines(f"# item: {_plain_json(label)}\n" for label in graph.labels or ())
    text.write(DELIMITERS[path.suffix].join(HEADING) + "\n")
    # All labels are quoted: a label that begins with # must not look like a comment.
    writer = csv.writer(text, delimiter=DELIMITERS[path.suffix], quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    names = [_field(label, is_json) for label in graph.labels or ()]
    writer.writerows(pairs if graph.labels is None else ((names[i], names[j]) for i, j in pairs))
    try:
        content = text.getvalue().encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path} cannot hold this graph: a label is not valid UTF-8 text") from error
    return f"# sha256: {hashlib.sha256(content).hexdigest()}\n".encode() + content


def parse(path: str | Path) -> EdgeList:
    """Split an edge list into its fields, and read the lines at its top.

    Raises:
        InputError: The file cannot be read, its checksum is wrong, or a line is malformed.
    """
    path = path_of(path)
    content = read_bytes(path, most=TEXT_LIMIT).removeprefix(b"\xef\xbb\xbf")  # a mark that some editors write
    items, labels, line, start = None, [], 0, 0
    is_checked, is_json = False, False
    while content.startswith(b"#", start):
        end = content.find(b"\n", start) + 1 or len(content)
        comment, start, line = content[start:end], end, line + 1
        name, _, value = _text(comment, path, line).removeprefix("#").strip().partition(": ")
        if name == "sha256" and is_checked:  # each one takes the time of the whole file
            raise InputError(f"{path}, line {line}: a second checksum: the file is damaged")
        is_checked = is_checked or name == "sha256"
        if name == "sha256" and value != hashlib.sha256(content[start:]).hexdigest():
            raise InputError(
                f"{path}, line {line}: the checksum does not match the lines after it: the file is damaged, "
                "or was changed by hand (then delete this line)"
            )
        is_json = is_json or (name, value) == ("fields", JSON_FIELDS)
        if name == "items":
            items = _count(value, path, line)
        if name == "item":
            labels.append(_label(value, path, line))
    if labels and items not in (None, len(labels)):
        raise InputError(f"{path} says that it has {items} items, but names {len(labels)}")
    fields, lines = _fields(_text(content[start:], path, line + 1), path, line)
    if is_json:
        fields = [_decoded(pair, path, line) for pair, line in zip(fields, lines, strict=True)]
    return EdgeList(path, items, tuple(labels) or None, fields, lines)


def _fields(text: str, path: Path, line: int) -> tuple[list[tuple[str, str]], list[int]]:
    first = text.lstrip().partition("\n")[0]
    delimiter = DELIMITERS.get(path.suffix.lower(), "\t" if "\t" in first else ",")
    fields: list[tuple[str, str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if len(row) != 2 and row:  # a blank line has no fields
                count = "one field" if len(row) == 1 else f"{len(row)} fields"
                between = "a tab" if delimiter == "\t" else "a comma"
                raise InputError(
                    f"{path}, line {line + reader.line_num}: {count}, not source and target separated by {between}"
                )
            if row:
                fields.append((row[0], row[1]))
                lines.append(line + reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}, line {line + reader.line_num}: {error}") from error
    return fields, lines


def _without_heading(edges: EdgeList, names: tuple[str, ...] | None, header: bool | None) -> EdgeList:
    """The relations without the heading, if there is one; unless the caller decided it, a warning says so."""
    if not edges.fields or header is False:
        return edges
    first, *rest = edges.fields
    doubt = None if header is True or first == HEADING else first_line(first, rest, names)
    if doubt is not None:
        said = "taken for a heading, not for a relation" if doubt == "heading" else "taken for a relation"
        place = f"{edges.path}, line {edges.lines[0]}: {first[0]!r}, {first[1]!r}"
        warnings.warn(HeadingWarning(f"{shown_text(place)} is {said}"), stacklevel=3)
    elif header is not True and first != HEADING:
        return edges
    return edges if doubt == "perhaps" else replace(edges, fields=rest, lines=edges.lines[1:])


def _numbered(edges: EdgeList, items: int | None) -> Graph:
    most = MOST_ITEMS if items is None else items
    ends: list[int] = []
    for relation, pair in enumerate(edges.fields):
        for field in pair:
            if not NUMBER.fullmatch(field):
                raise edges.line_error(relation, f"{field!r} is not an item number, but other lines have item numbers")
            ends.append(int(field))
            if not 0 <= ends[-1] < most:
                raise edges.line_error(relation, f"item {field.strip()} is out of range 0 … {most - 1}")
    count = max(ends) + 1 if items is None else items
    if items is None and count > max(UNSTATED_ITEMS, UNSTATED_RATIO * len(edges.fields)):
        raise edges.line_error(
            ends.index(count - 1) // 2,
            f"item {count - 1} would mean {count:,} items, far more than the relations name: if this is right, add the "
            f"line '# items: {count}' at the top",
        )
    return _graph(edges, count, ends, None)


def _labelled(edges: EdgeList, names: tuple[str, ...] | None) -> Graph:
    number = {name: item for item, name in enumerate(names or ())}
    ends: list[int] = []
    for relation, pair in enumerate(edges.fields):
        for field in pair:
            if field not in number:
                if names is not None:
                    raise edges.line_error(relation, f"unknown label {field!r}")
                if field != field.strip() or not field:
                    raise edges.line_error(relation, f"the label {field!r} is empty or has blanks around it")
                number[field] = len(number)
            ends.append(number[field])
    if edges.items not in (None, len(number)):
        raise InputError(f"{edges.path} says that it has {edges.items} items, but there are {len(number)} labels")
    return _graph(edges, len(number), ends, tuple(number))


def _graph(edges: EdgeList, items: int, ends: list[int], labels: tuple[str, ...] | None) -> Graph:
    sources, targets = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    order = np.lexsort((targets, sources))  # stable: of equal relations, the earlier line is first
    again = order[1:][(np.diff(sources[order]) == 0) & (np.diff(targets[order]) == 0)]
    if again.size:
        first = int(again.min())
        source, target = edges.fields[first]
        raise edges.line_error(first, f"the relation {source!r} → {target!r} is given a second time")
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
        label = str(json.loads(value))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {line}: the label {value!r} has no closing quotation mark") from error
    check_label(label, f"{path}, line {line}")
    return label


def _plain_json(label: str) -> str:
    """The label as a JSON string in which no spreadsheet finds a formula, however it splits the line into cells."""
    return FORMULA.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(label))


def _field(label: str, is_json: bool) -> str:
    return _plain_json(label) if is_json and (FORMULA.search(label) or label.startswith('"')) else label


def _decoded(pair: tuple[str, str], path: Path, line: int) -> tuple[str, str]:
    source, target = (_label(field, path, line) for field in pair)
    return source, target
