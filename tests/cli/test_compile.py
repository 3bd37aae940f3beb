"""`manyheads compile`: every case of the table, in words, tables, JSON, exit codes, files and bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.cases import CASES, SEED, Case
from support.commands import refused

from manyheads import Layer, gaussian, permutation_graph
from manyheads.certificate import certify
from manyheads.cli import main
from manyheads.files import (
    read_embedding,
    read_graph,
    read_layer,
    read_provenance,
    write_embedding,
    write_graph,
    write_layer,
)
from manyheads.problem.problem import Problem

ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@ALL
def test_compile_then_certify_from_the_files(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["-o", "layer.safetensors", "--save-graph", "graph.csv", "--save-embedding", "rows.npy"]
    expected = 0 if case.verdict == "holds" else 1
    assert main(["compile", *case.arguments(), *files, "--json"]) == expected
    told, said = capsys.readouterr()
    compiled = json.loads(told)
    assert said == ""
    assert compiled["certificate"]["verdict"] == case.verdict
    assert compiled["written"] == ["layer.safetensors", "graph.csv", "rows.npy"]
    # the same as through the library, to the last bit
    graph, embedding, layer = case.build()
    written = read_layer("layer.safetensors")
    assert (written.threshold, written.rule) == (layer.threshold, layer.rule)
    np.testing.assert_array_equal(written.query, layer.query)
    np.testing.assert_array_equal(written.key, layer.key)
    assert read_graph("graph.csv") == graph
    np.testing.assert_array_equal(read_embedding("rows.npy"), embedding)
    certificate = certify(layer, Problem(graph, embedding), context_length=case.lengths)
    assert compiled["certificate"] == json.loads(json.dumps(certificate.to_json()))
    # and again from what the files hold
    lengths = [] if case.context_length is None else ["--context-length", case.context_length]
    again = ["certify", "layer.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy", *lengths]
    assert main([*again, "--json"]) == expected
    certified = json.loads(capsys.readouterr().out)
    assert certified["certificate"] == compiled["certificate"]
    assert certified["layer"] == compiled["layer"]
    assert certified["layer"]["provenance"]["seed"] == SEED


@ALL
def test_the_table_says_what_the_certificate_says(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compile", *case.arguments()])
    told, said = capsys.readouterr()
    graph, embedding, layer = case.build()
    certificate = certify(layer, Problem(graph, embedding), context_length=case.lengths)
    assert said == ""
    assert " ".join(str(certificate).split()) in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80
    assert not any(line.endswith(" ") for line in told.splitlines())
    assert os.listdir() == []


def test_a_crowded_embedding_is_a_note_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--graph", "permutation:16", "--embedding", "gaussian:16", "--key-width", "64", "--matching-size", "1"]
    assert main(["compile", *arguments, "--threshold", "best"]) == 0
    assert capsys.readouterr().out.startswith("note: d_model = 16 is below 16·ln 16")
    assert main(["compile", *arguments, "--threshold", "best", "--json"]) == 0
    assert "d_model = 16 is below" in json.loads(capsys.readouterr().out)["notes"][0]


def test_a_witness_has_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    Path("names.txt").write_text("".join(f"item {i}\n" for i in range(16)))
    narrow = ["--graph", "permutation:16", "--embedding", "one-hot", "--construction", "one-hot", "--key-width", "3"]
    assert main(["compile", *narrow, "--labels", "names.txt", "--save-graph", "graph.csv"]) == 1
    assert "witness          item 2 → item 9, no relation" in capsys.readouterr().out
    assert read_graph("graph.csv").name(2) == "item 2"


def test_a_graph_without_a_count_of_items_takes_the_embeddings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("graph.csv").write_text("0,1\n")  # says nothing of items 2 and 3
    np.save("rows.npy", np.eye(4, dtype=np.float16))
    assert main(["compile", "--graph", "graph.csv", "--embedding", "rows.npy", "--key-width", "32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["items"] == 4


def test_without_a_certificate_nothing_is_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--graph", "permutation:48", "--embedding", "gaussian:64", "--key-width", "4", "--no-certify"]
    assert main(["compile", *arguments]) == 0
    told = capsys.readouterr().out
    assert told.startswith("layer ")
    assert "holds" not in told
    assert "window" not in told
    assert main(["compile", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"] is None


def test_found_matching_size_and_scale(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--graph", "permutation:16", "--embedding", "gaussian:256"]
    by_certificate = ["--construction", "incoherent", "--key-width", "64", "--matching-size", "certificate"]
    assert main(["compile", *problem, *by_certificate]) == 0
    assert "found by certificate: Theorem B.5" in capsys.readouterr().out
    searched = ["--construction", "softmax", "--key-width", "256", "--matching-size", "8", "--logit-scale", "search"]
    assert main(["compile", *problem, *searched, "--context-length", "12", "--threshold", "best"]) == 0
    assert "has the widest window of the 5 that were tried" in capsys.readouterr().out


def test_smallest(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--graph", "permutation:12", "--embedding", "gaussian:32", "--smallest"]
    assert main(["compile", *problem, "-o", "layer.safetensors", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [search["threshold"] for search in found["searches"]] == ["paper", "best"]
    budgets = [search["best"]["key_budget"] for search in found["searches"] if search["best"]]
    assert found["layer"]["key_budget"] == min(budgets) == read_layer("layer.safetensors").key_budget
    assert found["certificate"]["verdict"] == "holds"
    assert main(["compile", *problem, "--threshold", "best"]) == 0
    told = capsys.readouterr().out
    assert "with the best threshold" in told
    assert "with the paper's threshold" not in told
    assert f"smallest D_K {found['searches'][1]['best']['key_budget']}" in told


@pytest.mark.parametrize("graph", ["# items: 6\n", "# items: 2\n0,0\n0,1\n1,0\n1,1\n", "# items: 1\n0,0\n"])
def test_smallest_of_graphs_with_one_kind_of_pair(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plain.csv").write_text(graph)
    words = ["compile", "--graph", "plain.csv", "--embedding", "gaussian:4", "--smallest"]
    assert main(words) in (0, 1)
    assert capsys.readouterr().err == ""
    assert main([*words, "--matching-size", "0"]) == 2
    assert "--matching-size is a whole number from 1" in capsys.readouterr().err


def test_smallest_where_no_width_works(capsys: pytest.CaptureFixture[str]) -> None:
    crowded = ["--graph", "permutation:32", "--embedding", "gaussian:4", "--smallest", "--matching-size", "32"]
    assert main(["compile", *crowded, "-o", "layer.safetensors"]) == 1
    told = capsys.readouterr().out
    assert told.count("no width works at matching size 32: not even the limit of large widths") == 2
    assert os.listdir() == []
    # the limit separates, but not within the budget
    narrow = ["--graph", "permutation:12", "--embedding", "gaussian:64", "--smallest", "--matching-size", "12"]
    assert main(["compile", *narrow, "--max-key-budget", "2", "--threshold", "best"]) == 1
    assert "no width works within D_K ≤ 2" in capsys.readouterr().out


class TestFiles:
    COMPILE = ("compile", "--graph", "permutation:8", "--embedding", "one-hot", "--construction", "one-hot")

    def test_an_existing_file_needs_force(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("layer.safetensors").write_text("precious")
        assert main([*self.COMPILE, "-o", "layer.safetensors", "--save-graph", "graph.csv"]) == 2
        assert "already exists" in capsys.readouterr().err
        assert Path("layer.safetensors").read_text() == "precious"
        assert os.listdir() == ["layer.safetensors"]
        assert main([*self.COMPILE, "-o", "layer.safetensors", "--force"]) == 0
        assert read_layer("layer.safetensors").d_model == 8

    def test_a_refuted_layer_is_written_all_the_same(self) -> None:
        assert main([*self.COMPILE, "--key-width", "1", "-o", "layer.safetensors"]) == 1
        assert read_layer("layer.safetensors").key_width == 1

    def test_provenance_tells_how_to_build_it_again(self) -> None:
        main([*self.COMPILE, "--graph-seed", "5", "-o", "layer.safetensors"])
        assert read_provenance("layer.safetensors") == {
            "graph": "permutation:8",
            "embedding": "one-hot",
            "graph_seed": 5,
            "embedding_seed": 1,
            "construction": "one-hot",
            "seed": 2,
            "proved": "float64, float32, bfloat16",
        }

    @pytest.mark.parametrize("where", ["manyheads.certificate.certify", "os.fsync"])
    def test_an_interrupt_leaves_nothing(
        self, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(where, interrupt)
        assert main([*self.COMPILE, "-o", "layer.safetensors", "--save-graph", "graph.csv"]) == 130
        assert capsys.readouterr() == ("", "manyheads: interrupted\n")
        assert os.listdir() == []


def test_a_file_named_like_a_kind_is_reached_by_its_path() -> None:
    case = CASES[0]
    write_graph("permutation.csv", case.build()[0])
    os.rename("permutation.csv", "permutation")
    words = ["compile", "--graph", "./permutation", "--embedding", "one-hot", "--construction", "one-hot"]
    assert main(words) == 0


@pytest.fixture
def _with_good_files() -> None:
    query, key = np.random.default_rng(0).standard_normal((2, 2, 4, 3))
    write_graph("graph.csv", permutation_graph(6, seed=0))
    write_embedding("rows.npy", gaussian(6, 4, seed=0))
    write_layer("layer.safetensors", Layer(query, key, threshold=0.0))


COMPILE = ["compile", "--graph", "graph.csv", "--embedding", "rows.npy"]
DRAWN = ["compile", "--graph", "permutation:8", "--embedding", "gaussian:8", "--key-width", "4"]
WORDS = [
    ([*COMPILE, "--key-width", "0"], "--key-width is a whole number from 1"),
    ([*COMPILE, "--key-width", "-3"], "--key-width is a whole number from 1"),
    ([*COMPILE, "--key-width", "4", "--matching-size", "0"], "--matching-size is a whole number from 1"),
    ([*COMPILE, "--key-width", "4", "--matching-size", "few"], "--matching-size is a whole number, not 'few'"),
    ([*COMPILE, "--key-width", "4", "--matching-size", "profile"], "--matching-size is a whole number, not 'profile'"),
    (COMPILE, "the general construction needs --key-width"),
    ([*COMPILE, "--key-width", "4", "--graph-seed", "1"], "--graph-seed does not apply: graph.csv is a file"),
    ([*COMPILE, "--key-width", "4", "--embedding-seed", "1"], "--embedding-seed does not apply: rows.npy is a file"),
    ([*COMPILE, "--key-width", "4", "--tensor", "wte"], "holds one array and no tensor 'wte'"),
    ([*COMPILE, "--key-width", "4", "--labels", "no.txt"], "no.txt does not exist"),
    ([*COMPILE, "--key-width", "4", "--seed", "-1"], "--seed is a whole number from 0 to"),
    ([*COMPILE, "--key-width", "4", "--threshold", "high"], "--threshold is a number, not 'high'"),
    ([*COMPILE, "--key-width", "4", "--threshold", "inf"], "--threshold is a number from"),
    ([*COMPILE, "--key-width", "4", "--threshold", "best", "--no-certify"], "cannot go with --no-certify"),
    ([*COMPILE, "--key-width", "4", "--logit-scale", "2"], "--logit-scale does not apply to the general construction"),
    ([*COMPILE, "--key-width", "4", "--signatures", "rademacher"], "--signatures does not apply to the general"),
    ([*COMPILE, "--key-width", "4", "--max-key-budget", "9"], "--max-key-budget goes with --smallest"),
    ([*COMPILE, "--key-width", "4", "--smallest"], "--key-width does not go with --smallest"),
    ([*COMPILE, "--smallest", "--max-key-budget", "0"], "--max-key-budget is a whole number from 1"),
    ([*COMPILE, "--smallest", "--threshold", "3"], "--smallest takes --threshold paper or best"),
    ([*COMPILE, "--smallest", "--construction", "softmax"], "a softmax layer is certified for contexts of a length"),
    ([*COMPILE, "--smallest", "--construction", "one-hot"], "not the one-hot construction"),
    ([*COMPILE, "--smallest", "--matching-size", "0"], "--matching-size is a whole number from 1"),
    ([*COMPILE, "--smallest", "--matching-size", "few"], "--matching-size is a whole number, not 'few'"),
    ([*COMPILE, "--smallest", "--no-certify"], "--no-certify does not go with --smallest"),
    ([*COMPILE, "--construction", "one-hot"], "construction I needs one-hot items"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "signs"], "--signatures is rademacher or bernoulli:P"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "bernoulli:2"], "between 0 and 1, not at 2"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "bernoulli"], "is a number, not ''"),
    ([*DRAWN, "--construction", "softmax"], "a softmax layer is certified for contexts of a length"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "9"], "run from 2 to the number of items, 8"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "4:2"], "not from 4 to 2"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "all"], "--context-length is a number such as 64"),
    (
        [*DRAWN, "--construction", "softmax", "--context-length", "2:4", "--logit-scale", "search"],
        "--logit-scale search is for contexts of one length",
    ),
    ([*DRAWN, "--construction", "softmax", "--context-length", "4", "--logit-scale", "0"], "scale of the logits"),
    ([*DRAWN, "--tensor", "wte"], "--tensor does not apply: gaussian:8 is generated"),
    ([*DRAWN, "--embedding-seed", "-1"], "--embedding-seed is a whole number from 0 to"),
    ([*DRAWN, "--graph", "permutation"], "'permutation' is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "permutation:0"], "ITEMS of permutation:ITEMS is a whole number from 1"),
    ([*DRAWN, "--graph", "permutation:8:8"], "is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "permutation:-8"], "is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "power-law:8:9:1"], "the exponent of a power-law graph must exceed 2"),
    (
        [*DRAWN, "--graph", "permuted:8"],
        "'permuted:8' is neither a file nor a kind of graph: did you mean permutation:ITEMS?",
    ),
    ([*DRAWN, "--graph", "regular:8:8"], "has degree 1 to 7, not 8"),
    ([*DRAWN, "--embedding", "gaussian:0"], "D_MODEL of gaussian:D_MODEL is a whole number from 1"),
    (
        [*DRAWN, "--embedding", "gauss:8"],
        "'gauss:8' is neither a file nor a kind of embedding: did you mean gaussian:D_MODEL?",
    ),
    ([*DRAWN, "--graph", "random:8:20", "--construction", "compressive"], "needs a permutation graph"),
    ([*DRAWN, "--graph", "capitals"], "neither a file nor a kind of graph: choose from permutation:ITEMS, regular:"),
    ([*DRAWN, "--construction", "fit"], "--construction is one-hot, compressive, softmax, incoherent or general, not"),
    ([*DRAWN, "--heads", "2"], "compile has no option --heads"),
    ([*DRAWN, "--graph", "permutation:1073741824"], "needs about 103 GB of memory, more than half of the"),
]


@pytest.mark.usefixtures("_with_good_files")
@pytest.mark.parametrize(("words", "says"), WORDS, ids=[" ".join(words[5:]) for words, _ in WORDS])
def test_compile_refuses_what_makes_no_sense(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["-o", "new.safetensors", "--save-graph", "new.csv", "--save-embedding", "new.npy"]
    assert says in refused([*words, *outputs], capsys)


OUTPUTS = [
    (["-o", "new.pt"], "--output must end in .safetensors"),
    (["--save-graph", "new.json"], "--save-graph must end in .csv or .tsv"),
    (["--save-embedding", "new.bin"], "--save-embedding must end in .npy or .safetensors"),
    (["-o", "missing/new.safetensors"], "there is no directory missing"),
    (["-o", "a" * 235 + ".safetensors"], "cannot be written: File name too long"),
    (["-o", "layer.safetensors"], "layer.safetensors already exists"),
    (["-o", "new.safetensors", "--save-graph", "graph.csv"], "graph.csv already exists"),
    (["-o", "new.safetensors", "--save-embedding", "new.safetensors"], "two of the files to write have the same name"),
    (["-o", "directory.safetensors", "--force"], "it exists and is not a regular file"),
]


@pytest.mark.usefixtures("_with_good_files")
@pytest.mark.parametrize(("outputs", "says"), OUTPUTS, ids=[says for _, says in OUTPUTS])
def test_compile_refuses_before_the_work_what_it_cannot_write_after(
    outputs: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("directory.safetensors").mkdir()
    monkeypatch.setattr("manyheads.construct.compressive", lambda *_, **__: pytest.fail("the work was begun"))
    assert says in refused([*DRAWN, *outputs], capsys)
