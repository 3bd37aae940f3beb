"""The command line: every case of the table, in words, tables, JSON, exit codes and files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cases import CASES, SEED, Case

from manyheads.certificate import certify
from manyheads.cli import COMMANDS, main
from manyheads.files import read_embedding, read_graph, read_layer, read_provenance, write_graph

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
    certificate = certify(layer, embedding, graph, context_length=case.lengths)
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
    certificate = certify(layer, embedding, graph, context_length=case.lengths)
    assert said == ""
    assert " ".join(str(certificate).split()) in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80
    assert not any(line.endswith(" ") for line in told.splitlines())
    assert os.listdir() == []


def test_a_crowded_embedding_is_a_note_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--graph", "permutation:16", "--embedding", "gaussian:16", "--key-width", "64", "--block-size", "1"]
    assert main(["compile", *arguments, "--threshold", "best"]) == 0
    assert capsys.readouterr().out.startswith("note: d_model = 16 is below 16·ln 16")
    assert main(["compile", *arguments, "--threshold", "best", "--json"]) == 0
    assert "d_model = 16 is below" in json.loads(capsys.readouterr().out)["notes"][0]


def test_a_witness_has_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    Path("names.txt").write_text("".join(f"item {i}\n" for i in range(16)))
    narrow = ["--graph", "permutation:16", "--embedding", "one-hot", "--construction", "one-hot", "--key-width", "3"]
    assert main(["compile", *narrow, "--labels", "names.txt", "--save-graph", "graph.csv"]) == 1
    assert "witness    item 2 → item 9, no relation" in capsys.readouterr().out
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


def test_found_block_size_and_scale(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--graph", "permutation:16", "--embedding", "gaussian:256"]
    by_certificate = ["--construction", "incoherent", "--key-width", "64", "--block-size", "certificate"]
    assert main(["compile", *problem, *by_certificate]) == 0
    assert "found by certificate: Theorem B.5" in capsys.readouterr().out
    searched = ["--construction", "softmax", "--key-width", "256", "--block-size", "8", "--scale", "search"]
    assert main(["compile", *problem, *searched, "--context-length", "12", "--threshold", "best"]) == 0
    assert "of 5 tried the one with the widest window" in capsys.readouterr().out


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
    assert main([*words, "--block-size", "0"]) == 2
    assert "--block-size is at least 1, not 0" in capsys.readouterr().err


def test_smallest_where_no_width_works(capsys: pytest.CaptureFixture[str]) -> None:
    crowded = ["--graph", "permutation:32", "--embedding", "gaussian:4", "--smallest", "--block-size", "32"]
    assert main(["compile", *crowded, "-o", "layer.safetensors"]) == 1
    told = capsys.readouterr().out
    assert told.count("no width works at block size 32: not even the limit of large widths") == 2
    assert os.listdir() == []
    # the limit separates, but not within the budget
    narrow = ["--graph", "permutation:12", "--embedding", "gaussian:64", "--smallest", "--block-size", "12"]
    assert main(["compile", *narrow, "--max-budget", "2", "--threshold", "best"]) == 1
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


def manyheads(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyheads", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]


class TestAsAProcess:
    def test_exit_codes(self) -> None:
        one_hot = ("compile", "--graph", "permutation:8", "--embedding", "one-hot", "--construction", "one-hot")
        assert manyheads(*one_hot).returncode == 0
        assert manyheads(*one_hot, "--key-width", "1").returncode == 1
        bad = manyheads(*one_hot, "--key-width", "0")
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr == "manyheads: the key width must be at least 1, not 0\n"

    def test_a_reader_who_leaves_early(self) -> None:
        words = f"{sys.executable} -m manyheads compile --graph permutation:8 --embedding one-hot --key-width 64"
        piped = f"{{ {words}; echo $? >&2; }} | true"
        done = subprocess.run(piped, shell=True, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("", "0\n")

    def test_the_command_line_does_not_load_what_only_some_commands_need(self) -> None:
        heavy = ("matplotlib", "scipy.stats", "torch")
        loaded = f"import sys, manyheads.cli; print([m for m in {heavy} if m in sys.modules])"
        done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60)
        assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [[], ["compil"], ["certify"], ["compile", "--grph", "x"], ["compile", "--key-width", "wide"]]
)
def test_options_that_do_not_exist(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "manyheads 0.1.0\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert name in capsys.readouterr().out
    assert main([name, "--help"]) == 0
    options = re.split(r"^\W+(?=--?[a-z])", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    assert len(options) >= 3
    for option in options:
        assert len(option.split()) > 4, f"{option} explains nothing"


def test_a_file_named_like_a_drawing_is_reached_by_its_path() -> None:
    case = CASES[0]
    write_graph("permutation.csv", case.build()[0])
    os.rename("permutation.csv", "permutation")
    words = ["compile", "--graph", "./permutation", "--embedding", "one-hot", "--construction", "one-hot"]
    assert main(words) == 0
