"""The reference engine against the paper's formulas, written out one pair at a time, and against torch's own AdamW."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from support.runs import changed, make_run

from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, RULES, rule_named
from manyheads.training import Check, Outcome, train
from manyheads.training.data import Stream, training_data
from manyheads.training.protocol import Protocol
from manyheads.training.run import Run

torch = pytest.importorskip("torch", reason="the reference engine needs the torch extra")
from manyheads.training.reference.layer_batch import AdamW, LayerBatch, converged, train_runs  # noqa: E402  # noqa: E402
from manyheads.training.reference.losses import edge_losses, message_errors, scores  # noqa: E402

torch.set_num_threads(1)  # the tensors are small, and the other core runs other tests
RUNS, CONTEXTS, LENGTH, HEADS, D_MODEL, KEY_WIDTH, D_MSG = 2, 3, 5, 3, 4, 2, 6


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def relations(*, seed: int = 0) -> np.ndarray:
    """At most one target a source; the first context has none at all."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, LENGTH, (RUNS, CONTEXTS, LENGTH))
    related = (np.arange(LENGTH) == targets[..., None]) & rng.integers(0, 2, (RUNS, CONTEXTS, LENGTH, 1)).astype(bool)
    related[0, 0] = False
    return related


def batch(runs: Sequence[Run]) -> LayerBatch:
    return LayerBatch(runs, [training_data(run) for run in runs])


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize(("heads", "key_heads"), [(HEADS, HEADS), (HEADS, 1), (4, 2)])
def test_scores_are_those_of_the_layer(rule: Any, heads: int, key_heads: int) -> None:
    query, key = normal(RUNS, heads, D_MODEL, KEY_WIDTH), normal(RUNS, key_heads, D_MODEL, KEY_WIDTH, seed=2)
    x = normal(RUNS, CONTEXTS, LENGTH, D_MODEL, seed=1)
    found = scores(torch.tensor(query), torch.tensor(key), torch.tensor(x), rule_named(rule)).numpy()
    for run, context in np.ndindex(RUNS, CONTEXTS):
        expected = Layer(query[run], key[run], 0.0, rule).scores(x[run, context])
        np.testing.assert_allclose(found[run, context], expected, rtol=1e-12)


@pytest.mark.parametrize("weight", [15.0, "balanced"])
def test_edge_loss_is_the_sum_over_pairs(weight: float | str) -> None:
    S, related, threshold = 3 * normal(RUNS, CONTEXTS, LENGTH, LENGTH), relations(), normal(RUNS, seed=1)
    arguments = (torch.tensor(S), torch.tensor(related), torch.tensor(threshold))
    found = edge_losses(*arguments, sharpness=10.0, weight=weight).numpy()

    def softplus(z: float) -> float:
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))

    for run, context in np.ndindex(RUNS, CONTEXTS):
        y, total = related[run, context], 0.0
        for p, q in np.ndindex(LENGTH, LENGTH):
            z = 10.0 * (S[run, context, p, q] - threshold[run])
            balanced = (y.size - y.sum()) / y.sum() if y.any() else math.nan
            posweight = balanced if weight == "balanced" else float(weight)
            total += posweight * softplus(-z) if y[p, q] else softplus(z)
        assert found[run, context] == pytest.approx(total / LENGTH**2, rel=1e-12)


def test_message_error_counts_valid_positions_only() -> None:
    S, related, messages = normal(RUNS, CONTEXTS, LENGTH, LENGTH), relations(), normal(RUNS, CONTEXTS, LENGTH, D_MSG)
    found = message_errors(torch.tensor(S), torch.tensor(related), torch.tensor(messages)).numpy()
    for run, context, p in np.ndindex(RUNS, CONTEXTS, LENGTH):
        V, targets = messages[run, context], np.flatnonzero(related[run, context, p])
        predicted = sum(S[run, context, p, q] * V[q] for q in range(LENGTH))
        expected = float(((predicted - V[targets[0]]) ** 2).sum()) if targets.size else 0.0
        assert found[run, context, p] == pytest.approx(expected, rel=1e-12)


def test_the_lowest_of_equal_heads_gets_the_gradient() -> None:
    query, key = (torch.tensor(normal(1, 1, D_MODEL, KEY_WIDTH, seed=n)).repeat(1, HEADS, 1, 1) for n in range(2))
    query.requires_grad_()
    scores(query, key, torch.tensor(normal(1, 1, LENGTH, D_MODEL)), MAX).square().sum().backward()
    assert query.grad[0, 0].abs().min() > 0
    assert not query.grad[0, 1:].any()


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adamw_is_torchs_own_for_the_runs_that_move(weight_decay: float) -> None:
    protocol = Protocol(learning_rate=0.05, weight_decay=weight_decay)
    start = [normal(RUNS, 3, 2), normal(RUNS, seed=1)]
    batched = [torch.tensor(values) for values in start]
    ours = AdamW(protocol, batched)
    alone = [[torch.tensor(values[n], requires_grad=True) for values in start] for n in range(RUNS)]
    theirs = [torch.optim.AdamW(p, lr=0.05, weight_decay=weight_decay) for p in alone]
    rng = np.random.default_rng(2)
    for _ in range(40):
        gradients = [rng.standard_normal(values.shape) * 10 ** rng.uniform(-6, 3) for values in start]
        moving = rng.integers(0, 2, RUNS).astype(bool)
        ours.update([torch.tensor(g) for g in gradients], torch.tensor(moving))
        for n in map(int, np.flatnonzero(moving)):
            for parameter, gradient in zip(alone[n], gradients, strict=True):
                parameter.grad = torch.tensor(gradient[n])
            theirs[n].step()
    for n in range(RUNS):
        for together, single in zip(batched, alone[n], strict=True):
            torch.testing.assert_close(together[n], single.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"rule": "softmax"},
        {"graph": "regular", "degree": 3},
        {"objective": "values", "target_rate": 0.0},
        {"key_heads": 1},
    ],
    ids=lambda variant: ",".join(map(str, variant.values())) or "max",
)
def test_a_batch_is_its_runs_one_at_a_time(variant: Mapping[str, object]) -> None:
    runs = [make_run(24, 8, 2, 3, seed=seed, context=6, precision="float64", **variant) for seed in range(4)]
    together = batch(runs)
    losses, counts = together.advance(60), together.evaluate(Stream.VALIDATION, 50)
    for n, run in enumerate(runs):
        alone = batch([run])
        np.testing.assert_allclose(losses[:, n], alone.advance(60)[:, 0], rtol=1e-9)
        assert astuple(counts[n]) == pytest.approx(astuple(alone.evaluate(Stream.VALIDATION, 50)[0]), rel=1e-9)
        for many, one in zip(together.weights, alone.weights, strict=True):
            torch.testing.assert_close(many[n], one[0], rtol=1e-9, atol=1e-12)


def test_a_context_without_valid_positions_teaches_nothing() -> None:
    # 40 items, contexts of 2, nothing brought in: nearly all contexts hold no pair
    taught = batch([make_run(40, 4, 1, 2, seed=0, context=2, target_rate=0.0, objective="values", weight_decay=0.5)])
    losses = taught.advance(100)
    assert 0 < np.isfinite(losses).sum() < 20
    assert taught.adamw.updates.tolist() == [np.isfinite(losses).sum()]
    before = [part.detach().clone() for part in taught.weights]
    while np.isfinite(taught.advance(1)).any():
        before = [part.detach().clone() for part in taught.weights]
    assert all(torch.equal(b, part) for b, part in zip(before, taught.weights, strict=True))


QUICK = make_run(24, 8, 2, 3, seed=0, context=6, steps=120, validate_every=40, validation_contexts=20, test_contexts=20)


def ended(run: Run, *others: Run, **how: Any) -> list[Outcome]:
    return train_runs([run, *others], [training_data(each) for each in (run, *others)], **how)


def test_a_run_that_diverges_says_so_and_leaves_the_others_alone() -> None:
    rows = np.random.default_rng(0).standard_normal((24, 8)).astype(np.float32)
    wild = rows * np.float32(1e30)  # scores overflow at once
    runs = [changed(QUICK, embedding=each) for each in (rows, wild)]
    problems = [training_data(run) for run in runs]
    tame, diverged = train_runs(runs, problems)
    assert (diverged.stopped, diverged.steps) == ("diverged", 1)
    assert (diverged.micro_f1, diverged.layer, diverged.curve) == (None, None, ())
    assert (tame.stopped, tame.steps, len(tame.curve)) == ("limit", 120, 3)
    alone = train_runs(runs[:1], problems[:1])[0]
    assert tame.layer is not None
    assert alone.layer is not None
    np.testing.assert_allclose(tame.layer.query, alone.layer.query, rtol=1e-4, atol=1e-6)


def test_progress_sees_every_check_and_cancels_one_run() -> None:
    seen: list[tuple[int, int]] = []

    def progress(run: Run, check: Check) -> bool:
        seen.append((run.seed, check.step))
        return (run.seed, check.step) != (1, 80)

    kept, cancelled = ended(QUICK, changed(QUICK, seed=1), progress=progress)
    assert seen == [(0, 40), (1, 40), (0, 80), (1, 80), (0, 120)]
    assert (kept.stopped, cancelled.stopped, cancelled.steps, cancelled.micro_f1) == ("limit", "cancelled", 80, None)


def test_a_time_limit_ends_the_run() -> None:
    [outcome] = ended(changed(QUICK, steps=10**9), time_limit=0.5)
    assert outcome.stopped == "timeout"
    assert 0.5 < outcome.seconds < 30
    assert 0 < outcome.steps < 10**6


def test_the_patience_of_messages_counts_checks_without_a_new_best() -> None:
    run = changed(QUICK, objective="values", patience=2)
    assert not converged(run, [3.0, 2.0, 2.5])
    assert not converged(run, [3.0, 2.0, 2.5, 1.9, 2.0])
    assert converged(run, [3.0, 2.0, 2.0, 2.5])


@pytest.mark.parametrize(
    ("runs", "how", "says"),
    [
        ((QUICK, changed(QUICK, heads=1)), {}, "may differ in their seeds"),
        ((QUICK, changed(QUICK, learning_rate=1.0)), {}, "may differ in their seeds"),
        ((QUICK,), {"device": "abacus"}, "no device 'abacus'"),
        ((QUICK,), {"device": "cuda:99"}, "no device 'cuda:99'"),
        ((QUICK,), {"device": "meta"}, "no device 'meta'"),  # its tensors have no numbers
        ((QUICK,), {"device": "privateuseone"}, "no device 'privateuseone'"),  # a ModuleNotFoundError of torch
    ],
)
def test_what_cannot_be_trained_says_why(runs: tuple[Run, ...], how: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        ended(*runs, **how)


def test_without_torch_the_engine_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("manyheads.training.reference")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="needs torch"):
        train(QUICK, engine="reference")
