"""Training of retrieval networks: one run, several runs together, and through sweep and store."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.tiny_retrieval import TINY

from manyheads import InputError
from manyheads.retrieval import (
    RetrievalRun,
    draw_examples,
    sum_of_maxima,
    train_retrievals,
)
from manyheads.retrieval.retrieval_examples import digit_patches, examples_of
from manyheads.sweep import GroupTrainer, LayerTrainer, RetrievalTrainer, Store, Trainer, sweep, threads

torch = pytest.importorskip("torch", reason="retrieval networks need the torch extra")
from manyheads.retrieval import retrieval_training  # noqa: E402
from manyheads.retrieval.network_weights import NetworkWeights, initial_weights  # noqa: E402
from manyheads.retrieval.retrieval_batch import RetrievalBatch, learning_rate  # noqa: E402
from manyheads.retrieval.retrieval_network import plain_answers  # noqa: E402

torch.set_num_threads(1)


def test_training_follows_the_plain_network_under_torchs_plain_adam() -> None:
    batch = RetrievalBatch([TINY], [examples_of(TINY)])
    losses = batch.advance(6)
    examples = examples_of(TINY)
    mean, spread = examples.targets[:60].mean(), examples.targets[:60].std()
    first = initial_weights(TINY)
    weights = first.with_tensors(tensor.float().requires_grad_() for tensor in first)
    adam = torch.optim.Adam(list(weights), betas=(TINY.beta1, TINY.beta2), eps=TINY.epsilon, foreach=False)
    order = np.concatenate([np.random.default_rng((23, 0, 60, 16)).permutation(60)])
    for step in range(3):  # the first epoch has three whole batches
        chosen = order[16 * step : 16 * (step + 1)]
        adam.param_groups[0]["lr"] = 1e-2 * (step + 1) / 4 * 0.5 * (1 + np.cos(np.pi * step / 20))
        said = plain_answers(weights, torch.tensor(examples.tokens[chosen]))
        loss = (said - torch.tensor((examples.targets[chosen] - mean) / spread, dtype=torch.float32)).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert losses[step, 0] == pytest.approx(loss.item(), rel=1e-4)


def test_the_rate_rises_and_falls_to_nothing() -> None:
    rates = [learning_rate(TINY, step) for step in range(TINY.steps)]
    assert np.argmax(rates) in (3, 4)
    assert rates[-1] < 0.01 * max(rates)
    assert learning_rate(replace(TINY, warm_up=0), 0) == TINY.learning_rate


def test_nmse_is_the_definition() -> None:
    runs = [TINY, replace(TINY, heads=1), replace(TINY, seed=3)]
    batch = RetrievalBatch(runs, [examples_of(run) for run in runs])
    batch.advance(3)
    for place, run in enumerate(runs):
        examples = examples_of(run)
        weights = NetworkWeights(**{name: torch.tensor(array) for name, array in batch.weights_of(place).items()})
        said = plain_answers(weights, torch.tensor(examples.tokens[60:])).detach().numpy()
        said = said * examples.targets[:60].std() + examples.targets[:60].mean()
        wanted = np.mean((said - examples.targets[60:]) ** 2) / np.var(examples.targets[60:])
        assert batch.nmse(slice(60, 90))[place] == pytest.approx(wanted, rel=1e-4)


def test_runs_trained_together_are_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [TINY, replace(TINY, heads=1, head_width=5), replace(TINY, seed=3)]
    together = train_retrievals(runs)
    for run, beside in zip(runs, together, strict=True):
        (alone,) = train_retrievals([run])
        assert alone.nmse is not None
        assert beside.nmse == pytest.approx(alone.nmse, rel=1e-3)
        assert beside.training_nmse == pytest.approx(alone.training_nmse, rel=1e-3)
        assert alone.weights is not None
        assert beside.weights is not None
        for name, weight in alone.weights.items():
            np.testing.assert_allclose(beside.weights[name], weight, rtol=2e-3, atol=1e-4)
    assert [check.step for check in together[0].curve] == [8, 16, 20]
    assert together[0].curve[-1].nmse == together[0].nmse


def test_a_network_learns_its_task() -> None:
    run = replace(
        TINY, task="max_and_min", dimension=2, input_width=1, mlp_width=8, steps=300, learning_rate=3e-2,
        training_examples=500, validation_examples=100, batch=64, validate_every=300,
    )  # fmt: skip
    (outcome,) = train_retrievals([run])
    assert (outcome.stopped, outcome.steps) == ("limit", 300)
    assert outcome.nmse is not None
    assert outcome.nmse < 0.1  # the mean token alone leaves about two thirds


def test_only_runs_of_one_make_go_together() -> None:
    with pytest.raises(InputError, match="differ in their seeds and heads only"):
        train_retrievals([TINY, replace(TINY, mlp_width=7)])


def test_a_run_that_diverges_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [TINY, replace(TINY, seed=3)]
    whole = train_retrievals(runs)

    def spoiled(run: RetrievalRun) -> NetworkWeights:
        weights = initial_weights(run)
        return weights._replace(key=weights.key * float("nan")) if run.seed == 0 else weights

    monkeypatch.setattr("manyheads.retrieval.retrieval_batch.initial_weights", spoiled)
    first, second = train_retrievals(runs)
    assert (first.stopped, first.steps, first.nmse, first.weights) == ("diverged", 1, None, None)
    assert (second.stopped, second.nmse) == ("limit", whole[1].nmse)


def test_a_run_ends_when_it_shall() -> None:
    (late,) = train_retrievals([replace(TINY, steps=10**6, validate_every=10**6)], time_limit=0.1)
    assert (late.stopped, late.nmse) == ("timeout", None)
    asked: Iterator[bool] = iter([True, False])
    (stopped,) = train_retrievals([replace(TINY, steps=10**6, validate_every=10**6)], keep_going=lambda: next(asked))
    assert (stopped.stopped, stopped.steps) == ("cancelled", 2 * retrieval_training.STRIDE)


def test_any_task_can_be_trained_on_by_its_examples() -> None:
    task = sum_of_maxima(np.array([[0.6, -0.8]]), 5, subsets=(np.array([0, 2, 4]),))
    examples = draw_examples(task, 90, seed=2)
    run = replace(TINY, task=examples.name, dimension=1, input_width=3)
    (outcome,) = train_retrievals([run], examples=examples)
    assert outcome.nmse is not None
    with pytest.raises(InputError, match="pass these examples too"):
        train_retrievals([run])
    with pytest.raises(InputError, match="the run names maxima"):
        train_retrievals([TINY], examples=examples)
    with pytest.raises(InputError, match=r"has? the shape|have the shape"):
        train_retrievals([replace(run, length=6)], examples=examples)


def test_runs_that_fit_are_trained_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(runs, **options):  # type: ignore[no-untyped-def]
        calls.append(len(runs))
        return train_retrievals(runs, **options)

    monkeypatch.setattr("manyheads.sweep.trainers.train_retrievals", counted)
    runs = [*(replace(TINY, seed=seed) for seed in (0, 1, 2)), replace(TINY, mlp_width=7), replace(TINY, heads=1)]
    trainer = RetrievalTrainer(tokens=160)  # two runs of 16 examples of five tokens
    assert isinstance(trainer, Trainer)
    assert isinstance(trainer, GroupTrainer)
    assert not isinstance(LayerTrainer(), GroupTrainer)
    assert pickle.loads(pickle.dumps(trainer)).refusal(TINY) is None  # it travels
    deep = replace(TINY, layers=2)  # where heads that are filled up cost time
    assert trainer.fits([deep], replace(deep, seed=1))
    assert not trainer.fits([deep], replace(deep, heads=1))
    with Store.write(tmp_path / "s.db") as store:
        first = sweep(runs, store, trainer=trainer, workers=threads(1))
        assert calls == [2, 1, 1, 1]
        assert sweep(runs, store, trainer=trainer) == first
    for run, record in zip(runs, first, strict=True):
        (alone,) = train_retrievals([run])
        assert (record.kind, record.engine, record.status, record.steps) == ("retrieval", "folded-cpu", "limit", 20)
        assert record.run == run.fields
        assert record.score("nmse") == pytest.approx(alone.nmse, rel=1e-3)
        assert [check[0] for check in json.loads(record.curve)] == [8, 16, 20]


def test_a_call_that_fails_is_stored_as_failed_for_all_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runs, **options):  # type: ignore[no-untyped-def]
        raise RuntimeError("no memory")

    monkeypatch.setattr("manyheads.sweep.trainers.train_retrievals", broken)
    with Store.write(tmp_path / "s.db") as store:
        runs = [TINY, replace(TINY, seed=1)]
        records = sweep(runs, store, trainer=RetrievalTrainer(), workers=threads(1), tries=1)
    assert [(record.status, record.error, record.score("nmse")) for record in records] == [
        ("failed", "RuntimeError: no memory", None)
    ] * 2


@pytest.mark.parametrize(
    ("trainer", "run", "says"),
    [
        (RetrievalTrainer(device="abacus"), TINY, "no device 'abacus'"),
        (RetrievalTrainer(), replace(TINY, task="given:0"), "pass these examples too"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is(
    tmp_path: Path, trainer: RetrievalTrainer, run: RetrievalRun, says: str
) -> None:
    with Store.write(tmp_path / "s.db") as store:
        with pytest.raises(InputError, match=says):
            sweep([run], store, trainer=trainer)
        assert store.records() == []


def test_without_torch_or_scikit_learn_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"install 'manyheads\[digits\]'"):
        digit_patches(16)
    monkeypatch.setitem(sys.modules, "manyheads.retrieval.retrieval_batch", None)
    with pytest.raises(InputError, match=r"install 'manyheads\[torch\]'"):
        train_retrievals([TINY])
    monkeypatch.setattr("manyheads.sweep.trainers.find_spec", lambda name: None if name == "torch" else name)
    assert RetrievalTrainer().refusal(TINY) == "a retrieval network needs torch: pip install 'manyheads[torch]'"
