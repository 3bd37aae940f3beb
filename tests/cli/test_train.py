"""`manyheads train`: the same run as through the library, its files, its progress, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyheads.cli import main
from manyheads.cli.commands.train import standing
from manyheads.cli.options.protocol_options import Protocol
from manyheads.files import read_embedding, read_graph, read_layer, read_provenance
from manyheads.training import Check, Run, train
from manyheads.training.data import problem_of

RUN = Run(32, 16, 2, 6, seed=3, steps=1_500)
WORDS = ["--graph", "permutation:32", "--embedding", "gaussian:16", "--heads", "2", "--key-width", "6", "--seed", "3"]
FILES = ["-o", "layer.safetensors", "--save-graph", "graph.csv", "--save-embedding", "rows.npy"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_the_run_is_the_librarys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *WORDS, "--steps", "1500", *FILES, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    outcome, problem = train(RUN), problem_of(RUN)
    assert told["run"]["id"] == RUN.id
    assert (told["micro_f1"], told["steps"], told["stopped"]) == (outcome.micro_f1, 1_500, "limit")
    assert (told["exact_errors"], told["margin"]) == (outcome.exact_errors, outcome.margin)
    assert [check["score"] for check in told["curve"]] == [check.score for check in outcome.curve]
    written = read_layer("layer.safetensors")
    np.testing.assert_array_equal(written.query, outcome.layer.query)
    assert read_provenance("layer.safetensors")["run"] == RUN.id
    assert read_graph("graph.csv") == problem.graph
    np.testing.assert_array_equal(read_embedding("rows.npy"), problem.embedding)
    # its files are a problem of their own, on which the same layer has the same errors
    assert main(["certify", "layer.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy", "--json"]) == 1
    certificate = json.loads(capsys.readouterr().out)["certificate"]
    assert certificate["margin"] == told["margin"]


def test_a_given_graph_and_embedding_are_trained_on(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", *WORDS, "--steps", "10", *FILES])
    capsys.readouterr()
    given = ["--graph", "graph.csv", "--embedding", "rows.npy", "--heads", "2", "--key-width", "6", "--seed", "3"]
    assert main(["train", *given, "--steps", "1500", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run"]["graph"].startswith("given:")
    assert told["run"]["embedding"].startswith("given:")
    assert told["run"]["items"] == 32
    assert 0 < told["micro_f1"] < 1
    # a permutation is trained alike, whether the run drew it or a file holds it
    assert main(["train", *WORDS, "--steps", "1500", "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    assert (drawn["micro_f1"], drawn["margin"]) == (told["micro_f1"], told["margin"])
    assert main(["train", *given, "--steps", "10", "--positive-weight", "balanced", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["positive_weight"] == "balanced"


def test_every_constant_of_the_run_is_an_option() -> None:
    told = {"items", "d_model", "heads", "key_width", "seed", "problem_seed", "graph", "degree", "embedding"}
    assert vars(Protocol()).keys() | told == vars(RUN).keys()
    assert replace(RUN, **vars(Protocol())) == replace(RUN, steps=Run.steps)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["test F1", "pairs, margin", "limit after 1,500 steps"]),
        (["--objective", "values"], ["test MSE", "predicting zero"]),
        (["--graph", "regular:32:3", "--rule", "softmax"], ["test F1", "rule softmax"]),
    ],
)
def test_the_table_has_what_was_measured(words: list[str], says: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *WORDS, "--steps", "1500", *words]) == 0
    told, said = capsys.readouterr()
    assert said == ""
    assert all(words in told for words in says)
    assert max(map(len, told.splitlines())) <= 80
    assert os.listdir() == []


def test_a_run_that_diverges_is_a_no_and_leaves_no_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *WORDS, "--learning-rate", "1e38", "-o", "layer.safetensors", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["stopped"], told["micro_f1"], told["written"]) == ("diverged", None, [])
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--context", "33"], "33 distinct items cannot be drawn from 32"),
        (["--graph", "regular:32:32"], "cannot have degree 32"),
        (["--graph", "regular:32"], "is not of the form regular:ITEMS:DEGREE"),
        (["--graph", "nowhere.csv"], "nowhere.csv"),
        (["--embedding", "gaussian:0"], "d_model must be at least 1"),
        (["--heads", "0"], "heads must be at least 1"),
        (["--labels", "names.txt"], "--labels does not apply"),
        (["--tensor", "rows"], "--tensor does not apply"),
        (["--device", "cuda"], "native engine runs on the cpu"),
        (["-o", "layer.npy"], "--output must end in .safetensors"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *WORDS, *words]) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said.startswith("manyheads: ")
    assert says in said
    assert said.count("\n") == 1
    assert os.listdir() == []


def test_progress_says_where_the_run_stands() -> None:
    check = Check(step=1_000, score=0.5, loss=0.1)
    run = replace(RUN, steps=20_000)
    assert standing(run, check, 10.0) == "step 1,000/20,000, validation F1 0.5000, 100 steps/s, 0:03:10 left"


@pytest.fixture
def heed_ctrl_c() -> Iterator[None]:
    """A test run in the background inherits that SIGINT is ignored, and Python then leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heed_ctrl_c")
def test_ctrl_c_stops_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--graph", "permutation:512", "--embedding", "gaussian:512", "--heads", "8", "--key-width", "16"]
    endless = ["--seed", "0", "--steps", "1000000000", "--patience", "1000000000"]
    main(["train", *words, *endless[:2], "--steps", "1"])  # everything is imported
    capsys.readouterr()
    pressed = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    begun = time.monotonic()
    assert main(["train", *words, *endless, "-o", "layer.safetensors"]) == 130
    assert 1.0 <= time.monotonic() - begun < 6.0  # 0.1 s later where nothing else runs
    assert capsys.readouterr() == ("", "manyheads: interrupted\n")
    assert os.listdir() == []
