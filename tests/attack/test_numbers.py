"""A short dose of the attack on numbers, and single numbers that once hung the program or filled the memory.

`python -m attack.numbers 9000 --torch` is the long dose.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from attack.numbers import BASES, FAILURES, run_child

import manyheads.numbers
from manyheads import InputError, gaussian, permutation_graph
from manyheads._native import Fitting32, Settings, Training
from manyheads.block.block_run import BlockRun
from manyheads.block.block_training import train_blocks
from manyheads.cli import main
from manyheads.cli.commands import command_class, command_names
from manyheads.cli.option_errors import command_options
from manyheads.numbers import (
    BUDGET,
    CONTEXT,
    CONTEXTS,
    ITEMS,
    RANGES,
    STEPS,
    THREADS,
    WIDTH,
    check_number,
    require_memory,
)
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.retrieval.retrieval_training import train_retrievals

COUNT, SEED = 18, 1_000
GIGABYTE = 10**9


def test_hostile_numbers_are_refused_or_valid() -> None:
    counts, errors = run_child(COUNT, seed=SEED)
    assert not any(counts.get(outcome) for outcome in FAILURES), errors
    assert sum(counts.values()) == COUNT
    assert counts["refused"] > COUNT / 2


def test_every_numeric_option_has_a_range() -> None:
    for name in command_names():
        assert name in BASES
        for option in command_options(command_class(name)):
            if not option.placed and {int, float} & set(option.types):
                assert option.names[0].removeprefix("--").replace("-", "_") in RANGES, (name, option)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("heads", 0, "heads is a whole number from 1 to 1,048,576, not 0"),
        ("heads", True, "heads is a whole number from 1 to 1,048,576, not True"),
        ("heads", 2.0, "heads is a whole number from 1 to 1,048,576, not 2.0"),
        ("heads", "2", "heads is a whole number from 1 to 1,048,576, not '2'"),
        ("d_model", 10**5000, "d_model is a whole number from 1 to 16,777,216, not a number of about 5,001 digits"),
        ("beta1", 1, "beta1 is a number from 0 to below 1, not 1"),
        ("epsilon", float("nan"), "epsilon is a number above 0 and at most 1e+38, not nan"),
        ("time_limit", 0.0, "time_limit is a number above 0 and at most 1,000,000,000, not 0.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,  # a number can be too long to print
)
def test_a_number_outside_its_range_is_refused_with_the_range(name: str, value: object, says: str) -> None:
    with pytest.raises(InputError) as refused:
        check_number(name, value)
    assert str(refused.value) == says


def test_numbers_in_their_range_are_normalised() -> None:
    assert (check_number("heads", np.int64(3)), type(check_number("heads", np.int64(3)))) == (3, int)
    assert type(check_number("epsilon", 1)) is float


def test_more_than_half_of_the_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manyheads.numbers, "free_memory", lambda: 2 * GIGABYTE)
    require_memory(GIGABYTE, "this")
    with pytest.raises(InputError, match=r"^this needs about 1.01 GB of memory, more than half of the 2 GB"):
        require_memory(1.01 * GIGABYTE, "this")


REFUSED_BEFORE_ALLOCATION = {
    "permutation": "fit --graph permutation:1000000000 --embedding gaussian:8",
    "few relations, many items": "fit --graph far.csv --embedding gaussian:8",
    "one-hot": "train --graph permutation:100000 --embedding one-hot --heads 1 --key-width 2",
    "random": "plan budget --graph random:100000:9000000000 --d-model 8",
    "construction": "compile --graph permutation:64 --embedding gaussian:16 --key-width 16777216",
    "weights of a run": "train --graph permutation:32 --embedding gaussian:16 --heads 1024 --key-width 100000",
    "contexts of a run": "train --graph permutation:32 --embedding gaussian:16 --heads 1 --key-width 2"
    " --test-contexts 1000000000",
    "fit": "fit --graph permutation:64 --embedding gaussian:16 --heads 1024 --key-width 100000",
    "retrieval": "retrieve --error 1 --context-length 2147483647",
}


@pytest.mark.parametrize("case", REFUSED_BEFORE_ALLOCATION)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manyheads.numbers, "free_memory", lambda: GIGABYTE)
    monkeypatch.chdir(tmp_path)
    Path("far.csv").write_text("# items: 134217728\n0,134217727\n")
    begun = time.process_time()
    assert main(REFUSED_BEFORE_ALLOCATION[case].split()) == 2
    assert "of memory, more than half of the 1 GB that are free" in capsys.readouterr().err
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "run",
    [
        BlockRun(items=10**6, d_model=2**16, heads=1, key_width=2, seed=0),
        BlockRun(items=40, d_model=2**16, heads=1, key_width=2, seed=0),
        BlockRun(items=40, d_model=8, heads=1, key_width=2, seed=0, test_examples=10**9),
        BlockRun(items=40, d_model=8, heads=1, key_width=2, seed=0, batch=2**20),
        # each of these took more than 1 GB where the estimate was at most 0.4
        BlockRun(items=300, d_model=32, heads=1, key_width=2**16, seed=0, batch=2048),
        BlockRun(items=300, d_model=32, heads=1, key_width=4, seed=0, batch=2048, mlp_width=2**16),
        BlockRun(items=40, d_model=512, heads=512, key_width=1, seed=0, batch=512),
        RetrievalRun(dimension=2, length=2**15, heads=2, head_width=2, seed=0),
        RetrievalRun(dimension=2, length=8, heads=2**10, head_width=2**10, seed=0),
        RetrievalRun(dimension=2, length=8, heads=2, head_width=2, seed=0, training_examples=10**9),
        RetrievalRun(dimension=2, length=64, heads=256, head_width=2, seed=0, mlp_width=2048, training_examples=200),
    ],
)
def test_trainings_that_do_not_fit_into_memory_are_refused(
    run: BlockRun | RetrievalRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(*_: object) -> None:  # what comes first if nothing is refused
        raise AssertionError("memory would be allocated")

    monkeypatch.setattr(manyheads.numbers, "free_memory", lambda: GIGABYTE)
    monkeypatch.setattr("manyheads.block.block_training.table_of", allocate)
    monkeypatch.setattr("manyheads.retrieval.retrieval_training.examples_of", allocate)
    with pytest.raises(InputError, match="of memory, more than half of the 1 GB that are free"):
        train_blocks([run]) if isinstance(run, BlockRun) else train_retrievals([run])


WRONG_ARGUMENTS = """
from functools import partial
import numpy as np
import manyheads as mh
from manyheads.bounds import freedom_key_width
problem, ones = mh.draw_problem("permutation:8", "gaussian:4"), np.ones((1, 4, 2))
for call in (
    partial(mh.star_graph, "8", direction="out"),
    partial(freedom_key_width, items="64", relations=64, d_model=16, heads=2),
    partial(freedom_key_width, items=64, relations=[64], d_model=16, heads=2),
    partial(mh.smallest, problem, max_budget=2.5),
    partial(mh.construct.smallest, problem, threshold="best", seed=0, max_budget="4"),
    partial(mh.construct.softmax, problem, key_width=2, seed=0, scale=10**400),
    partial(mh.construct.mended_softmax, problem, key_width=0, context_length=4, seed=0),
    partial(mh.Layer, ones, ones, threshold="1"),
    partial(mh.Layer, ones, ones, threshold=10**400),
):
    try:
        print("accepted", call, call())
    except mh.InputError as error:
        assert " is a " in str(error), error
"""


def test_arguments_that_are_no_numbers_are_refused_by_the_library() -> None:
    """In a process without the type checks of the tests: each was a TypeError, ZeroDivisionError or OverflowError."""
    done = subprocess.run([sys.executable, "-c", WRONG_ARGUMENTS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("words", ["all:99999", "all:1000000000000", "powers:99999999999"])
def test_many_head_counts_are_refused_at_once(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.process_time()
    assert main(["measure", "--graph", "permutation:16", "--embedding", "gaussian:4", "--heads", words]) == 2
    assert "--heads is a whole number from 1 to" in capsys.readouterr().err
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "config",
    [
        {"num_attention_heads": 10**6, "head_dim": 10**6},
        {"num_attention_heads": 2**19, "head_dim": 512},
        {"hidden_size": 10**400},
        {"vocab_size": 2**31 - 1, "num_attention_heads": 720720, "head_dim": 4},
    ],
)
def test_an_audit_of_huge_sizes_answers_at_once(
    config: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(sizes | {"vocab_size": 1000, "intermediate_size": 64} | config))
    begun = time.process_time()
    assert main(["audit", str(path)]) in (0, 2)
    assert len(capsys.readouterr().err.splitlines()) <= 1
    assert time.process_time() - begun < 5


def native_settings(**changes: int) -> Settings:
    settings = Settings()
    sizes = {"items": 2**20, "d_model": 4, "heads": 1, "key_width": 2, "context": 4, "steps": 10, "validate_every": 5}
    sizes["key_heads"] = 1
    counts = {"validation_contexts": 5, "test_contexts": 5, "patience": 3}
    for name, value in (sizes | counts | changes).items():
        setattr(settings, name, value)
    return settings


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("items", ITEMS.most), ("d_model", WIDTH.most), ("heads", BUDGET.most // 2), ("key_heads", 1),
        ("key_width", BUDGET.most), ("context", CONTEXT.most), ("steps", STEPS.most),
        ("validate_every", STEPS.most), ("validation_contexts", CONTEXTS.most),
        ("test_contexts", CONTEXTS.most), ("patience", CONTEXTS.most),
    ],
)  # fmt: skip
def test_the_engine_has_the_limits_of_the_table(name: str, most: int) -> None:
    native_settings(**{name: most}).check()
    for value in (0, -1, most + 1):
        with pytest.raises(ValueError, match="is from"):
            native_settings(**{name: value}).check()


def test_the_engine_refuses_sizes_that_it_cannot_count() -> None:
    graph, rows = permutation_graph(8, seed=0), gaussian(8, 4, seed=0)
    for changes in ({"heads": 0}, {"key_width": 0}, {"validate_every": 0}, {"heads": 2**16, "key_width": 2**16}):
        with pytest.raises(ValueError, match="is from 1 to"):
            Training(native_settings(items=8, **changes), "float32", graph.row_starts, graph.targets, rows, None)
    for heads, key_width, threads in (
        (2**16, 2**16, 1),
        (0, 1, 1),
        (1, 0, 1),
        (1, 2, 0),
        (1, 2, int(THREADS.most) + 1),
    ):
        with pytest.raises(ValueError, match="is from 1 to"):
            Fitting32(graph.row_starts, graph.targets, rows, heads, key_width, threads)


@pytest.mark.parametrize("options", [["--heads", "2", "--key-width", "6"], ["--smallest"]], ids=["fit", "search"])
def test_threads_that_do_not_start_are_a_sentence(options: list[str]) -> None:
    """With little address space a thread does not start: once this ended the process ("terminate called")."""
    words = ["fit", "--graph", "permutation:64", "--embedding", "gaussian:16", *options]
    code = (
        "import resource, sys; from pathlib import Path; from manyheads.cli import main\n"
        "import manyheads.fitting\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 400 * 2**20, resource.RLIM_INFINITY))\n"
        f"sys.exit(main({[*words, '--workers', '1000']!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "use fewer workers" in done.stderr
    assert len(done.stderr.splitlines()) == 1
