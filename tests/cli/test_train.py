"""`manyheads train`: the same run as through the library, its files, its progress, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from manyheads.cli import main
from manyheads.cli.commands.train import check_line
from manyheads.cli.option_errors import command_options
from manyheads.cli.options.protocol_options import TrainingOptions
from manyheads.files import (
    read_embedding,
    read_graph,
    read_layer,
    read_provenance,
    write_embedding,
    write_graph,
)
from manyheads.layer.rules import MAX, SOFTMAX
from manyheads.problem.embedding import Embedding
from manyheads.sweep import Store
from manyheads.training import Check, Protocol, Run, Task, train

TASK = Task("permutation:32", "gaussian:16")
RUN = Run(TASK, heads=2, key_width=6, seed=3, protocol=Protocol(steps=1_500))
EASY = ["--goal", "0.001"]  # short runs
WORDS = [
    "--graph",
    "permutation:32",
    "--embedding",
    "gaussian:16",
    "--heads",
    "2",
    "--key-width",
    "6",
    "--seed",
    "3",
    *EASY,
]
FILES = ["-o", "layer.safetensors", "--save-graph", "graph.csv", "--save-embedding", "rows.npy"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("given", [False, True], ids=["drawn", "from files"])
@pytest.mark.parametrize(
    "constants",
    [[], ["--context-length", "8", "--target-rate", "0.25", "--learning-rate", "0.003", "--rule", "softmax"]],
    ids=["the paper's", "others"],
)
def test_train_measure_and_the_library_name_one_run(
    given: bool, constants: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that one command has stored is not trained again by another one."""
    task = ["--graph", "permutation:16", "--embedding", "gaussian:8"]
    problem = Task("permutation:16", "gaussian:8").draw(7)
    if given:
        write_graph("given.csv", problem.graph)
        write_embedding("rows.npy", problem.rows)
        task = ["--graph", "given.csv", "--embedding", "rows.npy"]
    same = [*task, *constants, "--steps", "100", "--validate-every", "100", "--json"]
    main(["measure", *same, "--heads", "2", "--seeds", "1", "--max-runs", "1"])
    with Store.read(Path("manyheads.db")) as store:
        (record,) = store.records()
    capsys.readouterr()
    heads, key_width = 2, int(str(record.run["key_width"]))
    assert record.run["heads"] == heads
    main(["train", *same, "--heads", str(heads), "--key-width", str(key_width)])
    run = json.loads(capsys.readouterr().out)["run"]
    assert (run["id"], run["graph"]) == (record.id, record.run["graph"])
    whole = Task(problem.graph, problem.rows) if given else Task("permutation:16", "gaussian:8")
    paper = Protocol(steps=100, validate_every=100)
    library = Run(
        replace(whole, context=8, target_rate=0.25) if constants else whole,
        heads=2,
        key_width=key_width,
        seed=0,
        rule=SOFTMAX if constants else MAX,
        protocol=replace(paper, learning_rate=0.003) if constants else paper,
    )
    assert library.id == record.id


def test_the_run_is_the_librarys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *WORDS, "--steps", "1500", *FILES, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    outcome, problem = train(RUN), TASK.draw(3)
    assert told["run"]["id"] == RUN.id
    assert (told["micro_f1"], told["steps"], told["stopped"]) == (outcome.micro_f1, 1_500, "limit")
    assert (told["exact_errors"], told["margin"]) == (outcome.exact_errors, outcome.margin)
    assert [check["score"] for check in told["curve"]] == [check.score for check in outcome.curve]
    written = read_layer("layer.safetensors")
    assert outcome.layer is not None
    np.testing.assert_array_equal(written.query, outcome.layer.query)
    assert read_provenance("layer.safetensors")["run"] == RUN.id
    assert read_graph("graph.csv") == problem.graph
    np.testing.assert_array_equal(Embedding.of(read_embedding("rows.npy")).rows, problem.rows)
    # its files are a problem of their own, on which the same layer has the same errors
    assert main(["certify", "layer.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy", "--json"]) == 1
    certificate = json.loads(capsys.readouterr().out)["certificate"]
    assert certificate["margin"] == told["margin"]


def test_a_given_graph_and_embedding_are_trained_on(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", *WORDS, "--steps", "10", *FILES])
    capsys.readouterr()
    given = [
        "--graph",
        "graph.csv",
        "--embedding",
        "rows.npy",
        "--heads",
        "2",
        "--key-width",
        "6",
        "--seed",
        "3",
        *EASY,
    ]
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


def test_every_constant_of_the_protocol_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    names = {option.names[0] for option in command_options(TrainingOptions)}
    assert {f"--{constant.name.replace('_', '-')}" for constant in fields(Protocol)} < names
    values = {"steps": 30, "validate_every": 10, "validation_contexts": 20, "test_contexts": 30, "patience": 2,
              "sharpness": 5.0, "positive_weight": 3.0, "initial_scale": 0.5, "initial_threshold": 0.25,
              "learning_rate": 0.01, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6,
              "stop_above": 0.9, "precision": "float64"}  # fmt: skip
    assert values.keys() == {constant.name for constant in fields(Protocol)}
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["train", *WORDS, *words, "--target-rate", "0.25", "--context-length", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["run"]
    assert {name: told[name] for name in values} == values
    assert (told["target_rate"], told["context"]) == (0.25, 8)


@pytest.mark.parametrize("graph", ["random:32:40", "star-in:32", "power-law:32:40:2.5"])
def test_every_kind_of_graph_and_embedding_is_trained(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--graph", graph, "--embedding", "sparse-binary:16", "--heads", "1", "--key-width", "4", "--steps", "20"]
    assert main(["train", *words, "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)["run"]
    assert (told["graph"], told["embedding"], told["seed"]) == (graph, "sparse-binary:16", 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["test F1", "pairs, margin", "limit after 1,500 steps"]),
        (["--objective", "values"], ["test MSE", "predicting zero"]),
        (["--heads", "4", "--key-heads", "2"], ["that share 2 key", "test F1"]),
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
        (["--context-length", "33"], "33 distinct items cannot be drawn from 32"),
        (["--graph", "regular:32:32"], "degree 1 to 31, not 32"),
        (["--graph", "regular:32"], "is not of the form regular:ITEMS:DEGREE"),
        (["--graph", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--graph", "permuation:32"], "did you mean permutation:ITEMS?"),
        (["--embedding", "gaussian:0"], "D_MODEL of gaussian:D_MODEL is a whole number from 1"),
        (["--heads", "0"], "--heads is a whole number from 1"),
        (["--key-heads", "0"], "--key-heads is a whole number from 1"),
        (["--heads", "4", "--key-heads", "3"], "4 heads cannot share 3 key heads evenly"),
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
    run = replace(RUN, protocol=Protocol())
    assert check_line(run, check, 10.0) == "step 1,000/20,000, validation F1 0.5000, 100 steps/s, 0:03:10 left"


@pytest.fixture
def heed_ctrl_c() -> Iterator[None]:
    """A test run in the background inherits that SIGINT is ignored, and Python then leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heed_ctrl_c")
def test_ctrl_c_stops_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--graph", "permutation:512", "--embedding", "gaussian:512", "--heads", "8", "--key-width", "16"]
    endless = ["--steps", "1000000000", "--patience", "1000000000"]
    main(["train", *words, "--steps", "1"])  # everything is imported
    capsys.readouterr()
    pressed = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    begun = time.monotonic()
    assert main(["train", *words, *endless, "-o", "layer.safetensors"]) == 130
    assert 1.0 <= time.monotonic() - begun < 6.0  # 0.1 s later where nothing else runs
    assert capsys.readouterr() == ("", "manyheads: interrupted\n")
    assert os.listdir() == []
