"""Training of blocks: against a plain loop over the textbook block, and each promise with a test that can fail."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from manyheads.block import Answers, BlockRun, table_of, task_of, train_blocks
from manyheads.errors import InputError
from manyheads.problem.embedding import given_name
from manyheads.sweep import BlockTrainer, Store, Trainer, sweep, threads
from manyheads.training.data import Stream

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="the block needs the torch extra")
from support.textbook_block import textbook_logits  # noqa: E402

from manyheads.block import block_training  # noqa: E402
from manyheads.block.block_batch import BlockBatch  # noqa: E402
from manyheads.block.block_network import BlockWeights, encode, initial_weights  # noqa: E402

torch.set_num_threads(1)
TINY = BlockRun(
    items=11, d_model=16, heads=2, key_width=4, seed=0, context=2, batch=16, steps=20, validate_every=8,
    validation_examples=50, test_examples=60,
)  # fmt: skip


def tables(*runs: BlockRun) -> list[np.ndarray]:
    return [table_of(run) for run in runs]


@pytest.mark.parametrize("final_norm", [False, True])
def test_training_follows_the_textbook_block_under_torchs_plain_adamw(final_norm: bool) -> None:
    run = replace(TINY, final_norm=final_norm)
    batch = BlockBatch([run], tables(run))
    losses = batch.advance(6)
    table, task, first = torch.tensor(table_of(run)), task_of(run), initial_weights(run)
    weights = first.with_tensors(tensor.float().requires_grad_() for tensor in first.by_name().values())
    adamw = torch.optim.AdamW(weights.by_name().values(), lr=1e-3, weight_decay=0.01, foreach=False)
    for step in range(6):
        examples = task.batches(Stream.TRAIN, step, 1, size=run.batch)
        x = encode(table[None], torch.tensor(examples.queries)[None], torch.tensor(examples.pairs)[None])[0]
        answers = textbook_logits(weights, x, table, norm_epsilon=1e-5)
        loss = torch.nn.functional.cross_entropy(answers, torch.tensor(examples.labels))
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        assert losses[step, 0] == pytest.approx(loss.item(), rel=1e-5)
    for name, tensor in batch.weights.by_name().items():
        torch.testing.assert_close(tensor[0], weights.by_name()[name], rtol=1e-3, atol=1e-5, msg=name)


def test_a_block_learns_the_task() -> None:
    run = replace(TINY, d_model=32, key_width=8, batch=64, steps=120, validate_every=40, learning_rate=1e-2)
    (outcome,) = train_blocks([run])
    assert (outcome.stopped, outcome.steps, [check.step for check in outcome.curve]) == ("limit", 120, [40, 80, 120])
    assert outcome.test is not None
    assert outcome.test.accuracy > 0.5  # guessing among the members of the context: 1/4
    assert outcome.curve[-1].loss < outcome.curve[0].loss


def test_seeds_trained_together_are_as_if_alone() -> None:
    runs = [replace(TINY, seed=seed) for seed in (4, 9)]
    together = train_blocks(runs)
    for run, beside in zip(runs, together, strict=True):
        (alone,) = train_blocks([run])
        assert alone.weights is not None
        assert beside.weights is not None
        assert (alone.test, alone.best and alone.best.step) == (beside.test, beside.best and beside.best.step)
        for name, weight in alone.weights.items():
            np.testing.assert_allclose(beside.weights[name], weight, rtol=1e-3, atol=1e-5)
    assert together[0].curve != together[1].curve


def test_only_runs_of_one_shape_go_together() -> None:
    with pytest.raises(InputError, match="may differ in their seeds and embeddings only"):
        train_blocks([TINY, replace(TINY, heads=4)])


def test_strides_do_not_change_the_training() -> None:
    whole, parts = (BlockBatch([TINY], tables(TINY)) for _ in range(2))
    np.testing.assert_allclose(np.concatenate([parts.advance(2), parts.advance(3)]), whole.advance(5), rtol=1e-6)


def test_the_test_is_of_the_best_validated_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [TINY, replace(TINY, seed=1)]
    right = iter([(10, 40), (30, 20), (30, 45)])  # of both, at steps 8, 16 and 20
    seen: list[tuple[Stream, int, Tensor]] = []

    def scripted(batch: BlockBatch, weights: BlockWeights, stream: Stream, count: int) -> list[Answers]:
        seen.append((stream, batch.step, weights.query.detach().clone()))
        return [Answers(n, 0, count) for n in (next(right) if stream == Stream.VALIDATION else (7, 8))]

    monkeypatch.setattr(BlockBatch, "evaluate", scripted)
    first, second = train_blocks(runs)
    assert (first.best and first.best.step, first.test) == (16, Answers(7, 0, 60))
    assert (second.best and second.best.step, second.test) == (20, Answers(8, 0, 60))
    assert [(stream, step) for stream, step, _ in seen] == [
        (Stream.VALIDATION, 8), (Stream.VALIDATION, 16), (Stream.VALIDATION, 20), (Stream.TEST, 20),
    ]  # fmt: skip
    assert torch.equal(seen[3][2], torch.stack([seen[1][2][0], seen[2][2][1]]))
    assert not torch.equal(seen[1][2][0], seen[2][2][0])
    assert first.weights is not None
    np.testing.assert_array_equal(first.weights["query"], seen[1][2][0].numpy())


def test_answers_are_counted_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = BlockBatch([TINY, replace(TINY, seed=1)], tables(TINY, replace(TINY, seed=1)))
    batch.advance(3)
    whole = batch.evaluate(batch.weights, Stream.TEST, 60)
    monkeypatch.setattr("manyheads.block.block_batch.NUMBERS_AT_ONCE", 2_000)
    assert batch.evaluate(batch.weights, Stream.TEST, 60) == whole
    examples = task_of(TINY).batches(Stream.TEST, 0, 1, size=60)
    table = torch.tensor(table_of(TINY))
    own = batch.weights.with_tensors(tensor[0] for tensor in batch.weights.by_name().values())
    x = encode(table[None], torch.tensor(examples.queries)[None], torch.tensor(examples.pairs)[None])[0]
    named = textbook_logits(own, x, table, norm_epsilon=1e-5).argmax(dim=1).numpy()
    assert whole[0] == Answers(int((named == examples.labels).sum()), int((named == TINY.items).sum()), 60)


def test_a_loss_that_is_no_number_ends_its_own_run_as_diverged() -> None:
    wild = replace(TINY, learning_rate=1e30, weight_decay=0.0)
    (outcome,) = train_blocks([wild])
    assert (outcome.stopped, outcome.test) == ("diverged", None)
    assert 1 < outcome.steps < 8  # before the first check
    assert (outcome.best, outcome.weights, outcome.curve) == (None, None, ())


def test_a_diverged_run_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [replace(TINY, seed=seed, validate_every=16) for seed in (4, 9)]  # two strides
    whole = train_blocks(runs)

    def spoiled(run: BlockRun) -> BlockWeights:
        weights = initial_weights(run)
        return weights._replace(key=weights.key * float("nan")) if run.seed == 4 else weights

    monkeypatch.setattr("manyheads.block.block_batch.initial_weights", spoiled)
    first, second = train_blocks(runs)
    assert (first.stopped, first.steps) == ("diverged", 1)
    assert (second.stopped, second.test, second.curve) == ("limit", whole[1].test, whole[1].curve)


def test_weights_that_are_no_numbers_after_the_last_step_are_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockBatch, "finite_runs", lambda batch: np.array([batch.step < 20]))
    (outcome,) = train_blocks([TINY])
    assert (outcome.stopped, outcome.test, len(outcome.curve)) == ("diverged", None, 2)


def test_a_run_ends_at_its_time_limit() -> None:
    (outcome,) = train_blocks([replace(TINY, steps=10**6)], time_limit=0.2)
    assert (outcome.stopped, outcome.test) == ("timeout", None)
    assert 0.2 < outcome.seconds < 5


def test_a_run_that_shall_not_keep_going_is_cancelled() -> None:
    asked: Iterator[bool] = iter([True, False])
    (outcome,) = train_blocks([TINY], keep_going=lambda: next(asked))
    assert (outcome.stopped, outcome.steps, outcome.test) == ("cancelled", 2 * block_training.STRIDE, None)
    (finished,) = train_blocks([replace(TINY, steps=8)], keep_going=lambda: False)
    assert finished.stopped == "limit"  # it has nothing left to do


def test_bfloat16_is_float32_to_its_precision() -> None:
    exact, mixed = (BlockBatch([run], tables(run)) for run in (TINY, replace(TINY, precision="bfloat16")))
    fine, coarse = exact.advance(4), mixed.advance(4)
    np.testing.assert_allclose(coarse, fine, rtol=0.02)
    assert (coarse != fine).all()
    assert all(tensor.dtype == torch.float32 for tensor in mixed.weights.by_name().values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_cuda_is_the_cpu_to_float_tolerance(precision: Literal["float32", "bfloat16"]) -> None:
    run = replace(TINY, precision=precision)
    losses = [BlockBatch([run], tables(run), device=device).advance(4) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4 if precision == "float32" else 0.02)


def test_blocks_go_through_sweep_and_store(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((12, 16)).astype(np.float32)
    runs = [replace(TINY, seed=seed, embedding=given_name(table)) for seed in (0, 1)]
    trainer = BlockTrainer(table=table)
    assert isinstance(trainer, Trainer)
    assert pickle.loads(pickle.dumps(trainer)).refusal(runs[0]) is None  # it travels
    with Store.write(tmp_path / "s.db") as store:
        first = sweep(runs, store, trainer=trainer, workers=threads(2))
        assert sweep(runs, store, trainer=trainer) == first
        assert [record.id for record in store.records({"kind": "block", "heads": 2})] == [run.id for run in runs]
    for run, record in zip(runs, first, strict=True):
        (alone,) = train_blocks([run], table=table)
        assert alone.test is not None
        assert (record.engine, record.status, record.steps) == ("folded-cpu", "limit", 20)
        assert record.run == run.fields
        assert record.score("accuracy") == alone.test.accuracy
        assert record.score("null_rate") == alone.test.null_rate
        assert record.score("best_validation") == max(check.accuracy for check in alone.curve)
        assert [check[:2] for check in json.loads(record.curve)] == [[c.step, c.accuracy] for c in alone.curve]


def test_a_diverged_block_is_stored_as_diverged_without_an_accuracy(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        (record,) = sweep([replace(TINY, learning_rate=1e30)], store, trainer=BlockTrainer())
    assert (record.status, record.score("accuracy")) == ("diverged", None)


@pytest.mark.parametrize(
    ("trainer", "run", "says"),
    [
        (BlockTrainer(table=np.ones((11, 16))), replace(TINY, embedding="given:0"), r"need \(12, 16\)"),
        (BlockTrainer(table=np.ones((12, 16))), TINY, "the run names gaussian"),
        (BlockTrainer(), replace(TINY, embedding="given:0"), "pass this table too"),
        (BlockTrainer(device="abacus"), TINY, "no device 'abacus'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is(
    tmp_path: Path, trainer: BlockTrainer, run: BlockRun, says: str
) -> None:
    with Store.write(tmp_path / "s.db") as store:
        with pytest.raises(InputError, match=says):
            sweep([run], store, trainer=trainer)
        assert store.records() == []


def test_without_torch_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "manyheads.block.block_batch", None)
    with pytest.raises(InputError, match=r"install 'manyheads\[torch\]'"):
        train_blocks([TINY])
    monkeypatch.setattr("manyheads.sweep.trainers.find_spec", lambda name: None)
    assert BlockTrainer().refusal(TINY) == "a block needs torch: pip install 'manyheads[torch]'"
