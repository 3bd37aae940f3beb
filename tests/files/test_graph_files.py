"""Edge lists: every graph comes back as it was, and a line that cannot be right is named."""

from __future__ import annotations

import csv
import io
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Graph, InputError, permutation_graph
from manyheads.files import read_graph, write_graph
from manyheads.files.graph_headings import HeadingWarning

TEXT = st.characters(exclude_categories=["Cs"])  # whatever UTF-8 can hold: commas, quotes, line ends, NUL, …


@settings(max_examples=60)
@given(
    items=st.integers(1, 6),
    pairs=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
    labels=st.none() | st.lists(st.text(TEXT, max_size=5), min_size=6, max_size=6, unique=True),
    suffix=st.sampled_from([".csv", ".tsv"]),
)
def test_a_graph_comes_back_as_it_was(
    items: int,
    pairs: set[tuple[int, int]],
    labels: list[str] | None,
    suffix: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ends = np.array([pair for pair in pairs if max(pair) < items], dtype=np.int64).reshape(-1, 2)
    graph = Graph(items, ends[:, 0], ends[:, 1], None if labels is None else tuple(labels[:items]))
    path = tmp_path_factory.getbasetemp() / f"graph{suffix}"
    write_graph(path, graph, force=True)
    assert read_graph(path) == graph


def read(tmp_path: Path, text: str, name: str = "graph.csv", **options: object) -> Graph:
    (tmp_path / name).write_bytes(text.encode())
    return read_graph(tmp_path / name, **options)  # type: ignore[arg-type]


def pairs(graph: Graph) -> list[tuple[str, str]]:
    return [(graph.name(i), graph.name(j)) for i, j in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "name", "items", "expected"),
    [
        ("0,2\n1,0\n", "g.csv", 3, [("0", "2"), ("1", "0")]),
        ("source,target\n0,2\n", "g.csv", 3, [("0", "2")]),
        ("# items: 5\n0, 2\n", "g.csv", 5, [("0", "2")]),
        ("# taken from elsewhere\n\n0,2\n\n", "g.csv", 3, [("0", "2")]),
        ("0,2\r\n1,0\r\n", "g.csv", 3, [("0", "2"), ("1", "0")]),
        ("\ufeff0,2\n1,0", "g.csv", 3, [("0", "2"), ("1", "0")]),
        ("0\t2\n", "g.tsv", 3, [("0", "2")]),
        ("0\t2\n", "g.txt", 3, [("0", "2")]),
        ("0,2\n", "g.txt", 3, [("0", "2")]),
        ("Rome,Italy\nOslo,Norway\n", "g.csv", 4, [("Rome", "Italy"), ("Oslo", "Norway")]),
        ('"a,b",c\nc,"#d"\n', "g.csv", 3, [("a,b", "c"), ("c", "#d")]),
        ("# item: b\n# item: a\n# item: c\na,b\n", "g.csv", 3, [("a", "b")]),
        ("# items: 2\nsource,target\n", "g.csv", 2, []),
        ("source,target\nsource,target\n", "g.csv", 2, [("source", "target")]),
    ],
)
def test_what_an_edge_list_may_look_like(
    tmp_path: Path, text: str, name: str, items: int, expected: list[tuple[str, str]]
) -> None:
    graph = read(tmp_path, text, name)
    assert (graph.items, pairs(graph)) == (items, expected)


COUNTRIES = "France,Paris\nItaly,Rome\nSpain,Madrid\n"


@pytest.mark.parametrize(
    ("text", "options", "relations"),
    [
        ("country,capital\n" + COUNTRIES, {}, 3),
        ("Country,Capital\n" + COUNTRIES, {}, 3),
        ("land,hauptstadt\n" + COUNTRIES, {}, 3),  # the only small letters
        ("from,to\ncat,chat\n", {}, 1),
        ("from,to\n0,1\n", {}, 1),
        ("anything,else\n0,1\n2,0\n", {}, 2),
        ("english,french\ncat,chat\n", {"labels": ["cat", "chat", "dog"]}, 1),
    ],
)
def test_a_heading_is_recognised_and_said(tmp_path: Path, text: str, options: dict[str, Any], relations: int) -> None:
    with pytest.warns(HeadingWarning, match="line 1: .* is taken for a heading"):
        assert read(tmp_path, text, **options).relations == relations
    assert read(tmp_path, text, header=True, **options).relations == relations
    if "labels" not in options and not text[-2].isdigit():
        assert read(tmp_path, text, header=False).relations == relations + 1


def test_a_first_line_that_could_be_a_heading_is_a_relation_with_a_note(tmp_path: Path) -> None:
    with pytest.warns(HeadingWarning, match="taken for a relation: header=True or header=False decides it"):
        assert read(tmp_path, "cat,chat\ndog,chien\ncow,vache\n").relations == 3


@pytest.mark.parametrize(
    "text",
    [
        COUNTRIES,
        "from,to\nto,from\n",  # the words occur again
        "country,capital\nFrance,country\nItaly,Rome\n",
        "land,Paris\nItaly,Rome\nSpain,Madrid\n",
        "a1,b2\nItaly,Rome\n",
    ],
)
def test_a_relation_is_no_heading(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).relations == text.count("\n")


def test_labels_are_numbered_as_given_or_as_they_appear(tmp_path: Path) -> None:
    assert read(tmp_path, "b,a\n").labels == ("b", "a")
    graph = read(tmp_path, "b,a\n", labels=["a", "b", "c"])
    assert (graph.labels, graph.sources.tolist(), graph.targets.tolist()) == (("a", "b", "c"), [1], [0])
    graph = read(tmp_path, "b,a\n", labels=["c", "b", "a"])  # neither in the order of the file nor of the alphabet
    assert (graph.labels, graph.sources.tolist(), graph.targets.tolist()) == (("c", "b", "a"), [1], [2])
    # item numbers that are labels: the list says so
    assert read(tmp_path, "7,5\n", labels=["5", "7"]).sources.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("0,1\n5,0\n", {"items": 4}, "line 2: item 5 is out of range 0 … 3"),
        ("# items: 4\n0,1\n0,4\n", {}, "line 3: item 4 is out of range"),
        ("0,1\n-1,0\n", {}, "line 2: item -1 is out of range"),
        ("0,1\n0,999999999999\n", {}, "line 2: item 999999999999 is out of range"),
        ("0,1\n1,2\n0,1\n", {}, "line 3: the relation '0' → '1' is given a second time"),
        ("a,b\nb,c\n\nb,c\na,b\n", {}, "line 4: the relation 'b' → 'c'"),
        ("0,1\n2\n", {}, "line 2: one field"),
        ("0,1,1\n", {}, "line 1: 3 fields"),
        ("0;1\n", {}, "line 1: one field"),
        ("0,1\n1,2O\n", {}, "line 2: '2O' is not an item number"),
        ("from,1\n0,1\n", {}, "line 1: 'from' is not an item number"),
        ("from,to\n0,1\n", {"header": False}, "line 1: 'from' is not an item number, but other lines have"),
        ("a,b\n", {"header": True}, "holds no relation"),
        ("0,1\n0,١\n", {}, "line 2: '١' is not an item number"),  # digits of another script
        ("source,target\na,b\nx,b\n", {"labels": ["a", "b"]}, "line 3: unknown label 'x'"),
        ("# item: a\n# item: b\na,b\na,x\n", {}, "line 4: unknown label 'x'"),
        ("a, b\nb,c\n", {}, "line 1: the label ' b' is empty or has blanks"),
        ("a,\n", {}, "line 1: the label '' is empty"),
        ('a,"b\n', {}, "line 1: unexpected end of data"),
        ("# items: many\n0,1\n", {}, "line 1: 'many' is not a number of items"),
        ("# items: 3\n# item: a\n# item: b\na,b\n", {}, "says that it has 3 items, but names 2"),
        ("# items: 3\na,b\n", {}, "says that it has 3 items, but there are 2 labels"),
        ('# item: "a\na,a\n', {}, "line 1: the label"),
        ("# item: a\n# item: a\na,a\n", {}, "these labels: 'a' names two items"),
        ("# item: a\na,a\n", {"labels": ["b"]}, "names for its items that differ"),
        ("a,a\n", {"labels": ["b", "a", "b"]}, "these labels: 'b' names two items"),
        ("source,target\n", {}, "holds no relation"),
    ],
)
def test_a_line_that_cannot_be_right_is_named(tmp_path: Path, text: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, text, **options)
    assert "\n" not in str(caught.value)
    assert "graph.csv" in str(caught.value)


def test_reading_many_names_takes_linear_time(tmp_path: Path) -> None:
    """WN18RR has 40,000 named items: neither names nor bytes may cost the square of their number."""
    labels = [f"{i:07}".ljust(500, "x") for i in range(15_000)]
    graph = Graph(len(labels), np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), tuple(labels))
    write_graph(tmp_path / "graph.csv", graph)
    begun = time.process_time()
    assert read_graph(tmp_path / "graph.csv") == graph
    assert time.process_time() - begun < 1.5


def test_text_in_another_encoding_is_refused_by_line(tmp_path: Path) -> None:
    (tmp_path / "graph.csv").write_bytes("# été\nRome,Italia\nMünchen,Bayern\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read_graph(tmp_path / "graph.csv")
    (tmp_path / "graph.csv").write_bytes("Rome,Italia\nMünchen,Bayern\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 2: not UTF-8"):
        read_graph(tmp_path / "graph.csv")


def test_a_file_changed_by_hand_says_which_line_to_delete(tmp_path: Path) -> None:
    path = tmp_path / "graph.csv"
    write_graph(path, permutation_graph(4, seed=0))
    checksum, rest = path.read_text().split("\n", 1)
    path.write_text(f"{checksum}\n{rest.replace('items: 4', 'items: 5')}")
    with pytest.raises(InputError, match="line 1: the checksum does not match the lines after it"):
        read_graph(path)
    path.write_text(rest.replace("items: 4", "items: 5"))
    assert read_graph(path).items == 5


def test_a_graph_that_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    graph = permutation_graph(2, seed=0)
    with pytest.raises(InputError, match=r"\.csv or \.tsv"):
        write_graph(tmp_path / "graph.txt", graph)
    with pytest.raises(InputError, match="UTF-8"):
        write_graph(tmp_path / "graph.csv", graph.with_labels(["a", "\ud800"]))
    assert not list(tmp_path.iterdir())


FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "a;=cmd|' /C calc'!A0",
    "a, =b",
    '"=x"',
    "\uff1d1",
    "x=1",
    "Rome",
    '"',
)


def cells(text: str) -> list[str]:
    """The cells that a spreadsheet can find in a text: split at any separator, with or without quotation marks."""
    bare = [cell for line in text.splitlines() for cell in re.split("[,;\t| ]", line)]
    return [cell.strip("\"'") for cell in bare] + [
        cell for line in csv.reader(io.StringIO(text)) for cell in line if not cell.startswith("#")
    ]


@pytest.mark.parametrize("name", ["graph.csv", "graph.tsv"])
def test_no_label_is_a_formula_in_a_spreadsheet(tmp_path: Path, name: str) -> None:
    ends = np.arange(len(FORMULAS))
    graph = Graph(len(FORMULAS), ends, np.roll(ends, 1), FORMULAS)
    write_graph(tmp_path / name, graph)
    assert read_graph(tmp_path / name) == graph
    text = (tmp_path / name).read_text()
    assert not [cell for cell in cells(text) if cell[:1] and cell[0] in "=+-@\t\uff1d"]


@settings(max_examples=60)
@given(labels=st.lists(st.text("=+-@\"',\\ua\n é;", max_size=6), min_size=2, max_size=5, unique=True))
def test_labels_that_look_like_formulas_or_json_come_back(
    labels: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ends = np.arange(len(labels))
    graph = Graph(len(labels), ends, ends, tuple(labels))
    path = tmp_path_factory.getbasetemp() / "formulas.csv"
    write_graph(path, graph, force=True)
    assert read_graph(path) == graph


def test_ordinary_labels_are_written_as_before(tmp_path: Path) -> None:
    write_graph(tmp_path / "a.csv", permutation_graph(2, seed=0).with_labels(["well-known", 'say "x"']))
    text = (tmp_path / "a.csv").read_text()
    assert "fields: json" not in text
    assert '# item: "well-known"' in text
