"""`manyheads block` and `manyheads heads`: what they say is what was trained, and wrong input is one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.small_models import ROWS, TEXT, TOKENS, write_gguf, write_model, write_tokenizer

from manyheads.block import BlockRun, frozen_table, head_work, table_of, task_of, train_blocks
from manyheads.cli import main
from manyheads.cli.render.progress import strip
from manyheads.errors import InputError
from manyheads.files.layer_files import TrainedBlock, read_block, write_block
from manyheads.problem.embedding import given_name

torch = pytest.importorskip("torch", reason="the block needs the torch extra")
torch.set_num_threads(1)
SMALL = [
    "--context-length",
    "2",
    "--batch",
    "16",
    "--steps",
    "20",
    "--validate-every",
    "8",
    "--validation-examples",
    "50",
]
SMALL += ["--test-examples", "60", "--threads", "1"]
GAUSSIAN = ["block", "--embedding", "gaussian:16", "--items", "11", "--heads", "2", "--key-width", "4", *SMALL]
TINY = BlockRun(11, 16, 2, 4, 0, context=2, batch=16, steps=20, validate_every=8, validation_examples=50,
                test_examples=60)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_several_seeds_are_trained_as_by_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    facts = told([*GAUSSIAN, "--seed", "3", "--seeds", "2", "-o", "best.safetensors"], capsys)
    outcomes = train_blocks([replace(TINY, seed=seed) for seed in (3, 4)])
    for fact, outcome in zip(facts["runs"], outcomes, strict=True):
        assert outcome.test is not None
        assert fact["run"]["id"] == outcome.run.id
        assert (fact["accuracy"], fact["null_rate"]) == (outcome.test.accuracy, outcome.test.null_rate)
        assert [check["step"] for check in fact["curve"]] == [8, 16, 20]
    best = max(outcomes, key=lambda outcome: outcome.best.accuracy if outcome.best else -1)
    block = read_block("best.safetensors")
    assert (block.run, block.embedding) == (best.run, "Gaussian")
    assert best.weights is not None
    for name, weight in best.weights.items():
        np.testing.assert_array_equal(block.weights[name], weight)
    np.testing.assert_array_equal(block.table, table_of(best.run))


def test_people_see_accuracy_null_rate_and_curve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GAUSSIAN, "--seed", "3", "--learning-rate", "1e-2"]) == 0
    said = capsys.readouterr().out
    assert "Gaussian, d_model 16: 11 items and NULL" in said
    assert "2 heads of width 4, D_K 8, 2 pairs" in said
    (outcome,) = train_blocks([replace(TINY, seed=3, learning_rate=1e-2)])
    assert outcome.test is not None
    assert f"{outcome.test.accuracy:.4f}  {outcome.test.null_rate:.4f}" in said
    assert said.splitlines()[-1].endswith(f"limit  {strip([check.accuracy for check in outcome.curve])}")


def test_a_curve_in_one_line() -> None:
    assert strip([0.0, 0.49, 0.5, 1.0]) == "▁▄▅█"
    assert len(strip(list(np.linspace(0, 1, 200)))) == 30
    assert strip([]) == ""


def test_a_diverged_run_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GAUSSIAN, "--learning-rate", "1e30", "--json"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["stopped"], run["accuracy"]) == ("diverged", None)


def test_items_are_a_models_most_frequent_tokens(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "text.txt").write_text(TEXT)
    words = ["block", "--embedding", "tiny.gguf", "--corpus", "text.txt", "--items", "5", "--heads", "2"]
    facts = told([*words, "--key-width", "3", "--seed", "1", *SMALL, "-o", "tiny.safetensors"], capsys)
    expected = frozen_table(ROWS, np.array([7, 10, 3, 8, 9]), items=5, null=0)
    assert facts["embedding"] == "tiny"
    assert facts["runs"][0]["run"]["embedding"] == given_name(expected)
    np.testing.assert_array_equal(read_block("tiny.safetensors").given, expected)


def test_a_reduction_is_recorded_and_the_exact_table_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    words = ["block", "--embedding", "rows.npy", "--null", "0", "--items", "9", "--reduce-to", "2", "--heads", "2"]
    facts = told([*words, "--key-width", "3", "--seed", "1", *SMALL, "-o", "b.safetensors"], capsys)
    run, block = facts["runs"][0]["run"], read_block("b.safetensors")
    assert (run["d_model"], run["reduction"]) == (2, "pca")
    np.testing.assert_array_equal(block.given, frozen_table(ROWS, np.arange(12), items=9, null=0))
    assert block.table.shape == (10, 2)
    assert main(["heads", "b.safetensors", "--per-query", "2"]) == 0  # a given table comes along
    assert "of its attention or more" in capsys.readouterr().out.replace("\n", " ")


BAD = [
    (["--items", "4"], "2·2 + 1 = 5 items, not 4"),
    (["--heads", "3"], "d_model = 16 cannot be divided into the values of 3 heads"),
    (["--seeds", "0"], "--seeds is a whole number from 1"),
    (["--seed", "-1"], "--seed is a whole number from 0 to"),
    (["--threads", "0"], "--threads is a whole number from 1"),
    (["--device", "abacus"], "no device 'abacus'"),
    (["--output", "block.npy"], "--output must end in .safetensors"),
    (["--output", "nowhere/b.safetensors"], "there is no directory nowhere"),
    (["--corpus", "text.txt"], "--corpus does not apply: gaussian:16 is generated"),
    (["--reduce-to", "4"], "--reduce-to does not apply"),
    (["--embedding", "gaussian:x"], "'gaussian:x' is not of the form gaussian:D_MODEL"),
    (["--embedding", "one-hot"], "a block generates gaussian:D_MODEL only, not 'one-hot'"),
    (["--embedding", "rows.npy"], "does not say which row ends a text: give NULL's with --null"),
    (["--embedding", "rows.npy", "--null", "12"], "NULL cannot be row 12: the table has the rows 0 to 11"),
    (["--embedding", "rows.npy", "--null", "0", "--items", "12"], "12 items and NULL need 13 rows, but the table has"),
    (["--embedding", "rows.npy", "--null", "0", "--reduce-to", "17"], "--reduce-to is from 1 to the table's width 16"),
    (["--embedding", "rows.npy", "--null", "0", "--corpus", "text.txt"], "comes without a tokenizer"),
    (["--embedding", "tiny.gguf"], "which tokens of tiny.gguf are the items?"),
    (["--embedding", "tiny.gguf", "--tensor", "wte", "--corpus", "text.txt"], "holds no tensor 'wte'"),
    (["--embedding", "tiny.gguf", "--corpus", "text.txt", "--frequencies", "f"], "give one of them"),
    (["--embedding", "tiny.gguf", "--tokenizer", "short.json"], "--tokenizer goes with --corpus"),
    (["--embedding", "tiny.gguf", "--corpus", "text.txt", "--tokenizer", "long.json"],
     "the tokenizer does not fit the table: long.json has 13 tokens, the table 12 rows"),
    (["--embedding", "tiny.gguf", "--corpus", "text.txt"], "the ranking has 6 tokens besides NULL, but 11 items"),
    (["--embedding", "small/model.safetensors", "--tensor", "wpe", "--corpus", "text.txt"], "has no tensor 'wpe'"),
    (["--embedding", "nowhere.npy"], "nowhere.npy does not exist"),
    (["--embedding", "gpt3"], "gpt3 is not an embedding file"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), BAD)
def test_wrong_input_is_one_sentence_before_anything_is_trained(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if any(word.startswith("tiny") for word in words):
        write_gguf(tmp_path / "tiny.gguf")
        write_tokenizer(tmp_path / "long.json", (*TOKENS, "d"))
    if any(word.startswith("small") for word in words):
        write_model(tmp_path / "small", {"eos_token_id": 0})
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "text.txt").write_text(TEXT)
    monkeypatch.setattr("manyheads.block.block_batch.BlockBatch.advance", lambda *_: pytest.fail("it was trained"))
    assert main([*GAUSSIAN, *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def partitioned(run: BlockRun, group: np.ndarray) -> dict[str, np.ndarray]:
    """Weights over one-hot rows by which head group[q] attends to the pair of π(q), and every other head to NULL."""
    null, successors = run.items, task_of(run).successors
    query = np.zeros((run.heads, run.d_model, run.key_width), dtype=np.float32)
    for head, item in np.ndindex(run.heads, run.items):
        query[head, item, successors[item] if group[item] == head else null] = 10
    from manyheads.block.block_network import initial_weights

    weights = {name: tensor.float().numpy() for name, tensor in initial_weights(run).by_name().items()}
    key = np.broadcast_to(10 * np.eye(run.d_model, dtype=np.float32), query.shape)
    return weights | {"query": query, "key": np.ascontiguousarray(key)}


ONE_HOT = np.eye(12, dtype=np.float32)
KNOWN = BlockRun(11, 12, 3, 12, 7, embedding=given_name(ONE_HOT), context=2)


def test_the_partition_of_a_hand_made_block_is_found() -> None:
    group = np.random.default_rng(0).integers(0, 3, size=11)
    work = head_work(KNOWN, partitioned(KNOWN, group), ONE_HOT)
    np.testing.assert_array_equal(work.queries, np.flatnonzero(task_of(KNOWN).successors != np.arange(11)))
    np.testing.assert_array_equal(work.first, group[work.queries])
    np.testing.assert_array_equal(work.servers, 1)
    np.testing.assert_allclose(work.mean, [(group[work.queries] == head).mean() for head in range(3)], atol=0.02)


def test_heads_that_do_the_same_and_heads_that_do_nothing_are_told() -> None:
    weights = partitioned(KNOWN, np.zeros(11, dtype=int))
    twins = weights | {"query": np.repeat(weights["query"][:1], 3, axis=0)}
    np.testing.assert_array_equal(head_work(KNOWN, twins, ONE_HOT).servers, 3)
    idle = head_work(KNOWN, weights | {"key": 0 * weights["key"]}, ONE_HOT)
    np.testing.assert_allclose(idle.attention, 1 / 4, rtol=1e-5)  # two pairs, NULL, the query
    assert (idle.first == -1).all()


def test_the_command_tells_and_draws_the_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = np.arange(11) % 3
    write_block("known.safetensors", TrainedBlock(KNOWN, partitioned(KNOWN, group), ONE_HOT, "one-hot"))
    facts = told(["heads", "known.safetensors", "--picture", "heads"], capsys)
    assert facts["served_by"] == group[facts["queries"]].tolist()
    assert (tmp_path / "heads.png").stat().st_size > 5_000
    assert main(["heads", "known.safetensors", "--picture", "heads"]) == 2
    assert "exists" in capsys.readouterr().err
    np.save("other.npy", ONE_HOT)
    for words, sentence in (
        (["heads", "other.npy"], "is not a safetensors file"),
        (["heads", "known.safetensors", "--per-query", "0"], "--per-query is a whole number from 1"),
        (["heads", "known.safetensors", "--device", "abacus"], "no device 'abacus'"),
    ):
        assert main(words) == 2
        assert sentence in capsys.readouterr().err


def test_weights_of_another_shape_are_refused() -> None:
    weights = partitioned(KNOWN, np.zeros(11, dtype=int))
    with pytest.raises(InputError, match="do not have the shapes of a block"):
        head_work(replace(KNOWN, heads=2), weights, ONE_HOT)


def test_a_changed_block_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.safetensors"
    write_block(path, TrainedBlock(KNOWN, partitioned(KNOWN, np.zeros(11, dtype=int)), ONE_HOT, "one-hot"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not match its checksum"):
        read_block(path)
