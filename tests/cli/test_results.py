"""`manyheads results`: lists, filters and exports what a store holds."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from support.runs import changed, make_run
from support.sabotage import TINY, Sabotaged, tiny

from manyheads.bounds import bits_per_weight
from manyheads.capacity import Point, StoredProblem, experiments, run_bits, threshold
from manyheads.cli import main
from manyheads.cli.render.capacity_table import law_facts
from manyheads.sweep import Store, sweep


@pytest.fixture(autouse=True)
def _a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with Store.write(Path("manyheads.db")) as store:
        sweep([*tiny(range(4), [2, 3]), changed(TINY, graph="regular", degree=2)], store)
        sweep(tiny([17]), store, trainer=Sabotaged())


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    main(["results", *words, "--json"])
    return json.loads(capsys.readouterr().out)


def test_it_lists_and_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--limit", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["items", "d_model", "graph"]
    assert len(lines) == 1 + 3 + 2
    assert lines[-1] == "manyheads.db holds 1 failed, 9 limit"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 10),
        (["--seed", "2"], 2),
        (["--key-width", "3", "--seed", "2"], 1),
        (["--key-budget", "3"], 4),
        (["--key-heads", "1"], 10),
        (["--key-heads", "2"], 0),
        (["--status", "failed"], 1),
        (["--graph", "regular"], 1),
        (["--degree", "2"], 1),
        (["--items", "9"], 0),
        (["--rule", "max", "--engine", "native", "--kind", "layer", "--heads", "1", "--d-model", "4"], 10),
    ],
)
def test_it_filters(words: list[str], count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(told(words, capsys)["results"]) == count
    assert main(["results", *words]) == (0 if count else 1)


def test_a_failed_run_has_no_score_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = told(["--status", "failed"], capsys)["results"]
    assert (row.get("micro_f1"), row["error"]) == (None, "ArithmeticError: seventeen")


def test_every_export_holds_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("csv", "jsonl", "parquet"):
        assert main(["results", "--output", f"all.{ending}"]) == 0
    capsys.readouterr()
    rows = told([], capsys)["results"]
    names = list(dict.fromkeys(name for row in rows for name in row))
    assert [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()] == rows
    with open("all.csv", newline="") as file:
        listed = list(csv.DictReader(file))
    assert list(listed[0]) == names
    assert [row["id"] for row in listed] == [row["id"] for row in rows]
    assert [row["micro_f1"] for row in listed] == [str(row.get("micro_f1") or "") for row in rows]
    table = pyarrow.parquet.read_table("all.parquet").to_pylist()
    for stored, row in zip(table, rows, strict=True):
        weight = str(row["positive_weight"])  # "balanced" or a number: a column of Parquet has one type
        assert stored == {name: row.get(name) for name in names} | {"positive_weight": weight}
    assert main(["results", "--output", "all.csv"]) == 2
    assert main(["results", "--output", "all.csv", "--seed", "1", "--force"]) == 0
    assert len(Path("all.csv").read_text().splitlines()) == 3


def test_the_capacities_in_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--capacity", "--goal", "0.01"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("smallest key budgets for F1 ≥ 0.01")
    assert "three different sizes" in said
    facts = told(["--capacity", "--goal", "0.01"], capsys)
    assert [problem["seeds"] for problem in facts["problems"]] == [4, 1]
    assert facts["laws"] == []
    for found in facts["problems"]:
        run, bits = found["run"], found["bits_per_weight"]
        assert bits["weights"] == 2 * run["d_model"] * found["key_budget"]
        kind = "2-regular graphs" if run["graph"] == "regular" else "permutations"
        assert bits["family"] == f"{kind} of {run['items']} items"
    assert f" {bits['value']:.3g}\n" in said


def test_a_list_of_runs_shows_bits_per_weight(capsys: pytest.CaptureFixture[str]) -> None:
    rows = told([], capsys)["results"]
    assert {row["graph"] for row in rows} == {"permutation", "regular"}
    for row in rows:
        words = f"regular:{row['items']}:{row['degree']}"  # a 1-regular graph is a permutation
        assert row["bits_per_weight"] == bits_per_weight(words, weights=2 * row["d_model"] * row["key_budget"]).value
    assert main(["results", "--key-width", "3", "--seed", "2"]) == 0
    names, cells = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    (row,) = told(["--key-width", "3", "--seed", "2"], capsys)["results"]
    assert cells[names.index("bits")] == f"{row['bits_per_weight']:.2f}"
    assert run_bits({"graph": "given:0123", "items": 8}) is None
    assert run_bits({"kind": "retrieval"}) is None


def test_a_given_graph_has_no_bits_per_weight_in_a_store() -> None:
    """The store knows a given graph by its fingerprint; a graph that is drawn, by its words or its degree."""
    fields = dict(make_run(64, 16, 1, 1, seed=0).fields)
    met = threshold([Point(1, 5, ((0, 1.0), (1, 1.0)))], target=0.99)
    assert StoredProblem(fields | {"graph": "given:0123"}, met, 2, 2).bits_per_weight is None
    for graph, degree, words in (("regular", 3, "regular:64:3"), ("random:64:80", 1, "random:64:80")):
        stored = StoredProblem(fields | {"graph": graph, "degree": degree}, met, 2, 2)
        assert stored.bits_per_weight == bits_per_weight(words, weights=160)
    never = threshold([Point(1, 5, ((0, 0.5), (1, 0.5)))], target=0.99)
    assert StoredProblem(fields, never, 2, 2).bits_per_weight is None


def test_no_law_goes_through_two_rules(capsys: pytest.CaptureFixture[str]) -> None:
    def problem(items: int, key_budget: int, rule: str) -> StoredProblem:
        fields = dict(make_run(items, 16, 1, 1, seed=0, rule=rule).fields)
        return StoredProblem(fields, threshold([Point(1, key_budget, ((0, 1.0), (1, 1.0)))], target=0.99), 2, 2)

    found = [problem(items, items // 4, "max") for items in (64, 128, 256)]
    found += [problem(items, items, "softmax") for items in (64, 128, 256)]
    by_max, by_softmax = experiments(found)
    assert (by_max.words, by_softmax.words) == ("rule max", "rule softmax")
    assert by_softmax.laws[0].regression.slope == pytest.approx(4 * by_max.laws[0].regression.slope)
    assert law_facts(by_max.laws[0], by_max)["among"] == {"rule": "max"}
    assert [one.words for one in experiments(found[:3])] == [""]


def test_experiments_are_named_by_their_keys() -> None:
    runs = [make_run(64, 16, 4, 1, seed=0, key_heads=key_heads) for key_heads in (None, 1, 2)]
    met = threshold([Point(4, 5, ((0, 1.0), (1, 1.0)))], target=0.99)
    found = experiments([StoredProblem(dict(run.fields), met, 2, 2) for run in runs])
    words = {"every head has its own keys", "all heads share 1 key head", "heads share 2 key heads"}
    assert {one.words for one in found} == words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--status", "foo"], "there is no status 'foo': choose from converged"),
        (["--status", "convergd"], "there is no status 'convergd': did you mean converged?"),
        (["--store", "nowhere.db"], "there is no store at nowhere.db"),
        (["--store", "text.db"], "not a manyheads store"),
        (["--limit", "0"], "--limit is a whole number from 1"),
        (["--output", "all.xlsx"], "--output must end in .csv, .jsonl or .parquet"),
        (["--output", "nowhere/all.csv"], "no directory"),
        (["--output", "all.csv", "--capacity"], "leave --capacity out"),
        (["--capacity", "--goal", "good"], "--goal is a target F1"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.db").write_text("nothing of the kind\n" * 20)
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    assert main(["results", *words]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith("manyheads: ")
    assert says in said
    assert said.count("\n") == 1
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before
