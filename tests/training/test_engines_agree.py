"""Two engines, one truth: the native kernel against PyTorch's autograd and optimiser, step by step and in the end."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy import ndarray
from scipy.stats import ks_2samp
from support.runs import changed, make_run

from manyheads import Graph, Outcome
from manyheads.layer.rules import MAX
from manyheads.training import engines, train
from manyheads.training.data import Stream, TrainingData, training_data
from manyheads.training.run import Run

torch = pytest.importorskip("torch", reason="the reference engine needs the torch extra")
from manyheads.training.reference.layer_batch import LayerBatch, train_runs  # noqa: E402

torch.set_num_threads(1)  # the tensors are small, and the other core runs other tests

VARIANTS: dict[str, dict[str, Any]] = {
    "max": {},
    "softmax": {"rule": "softmax"},
    "regular": {"graph": "regular", "degree": 3},
    "regular softmax": {"graph": "regular", "degree": 2, "rule": "softmax"},
    "values": {"objective": "values"},
    "narrow values": {"objective": "values", "message_width": 3},
    "balanced permutation": {"positive_weight": "balanced"},
}
GIVEN: dict[str, dict[str, Any]] = {"given": {}, "given softmax": {"rule": "softmax", "positive_weight": 4.0}}


@dataclass(frozen=True)
class Case:
    """A run in both engines."""

    run: Run

    @property
    def problem(self) -> TrainingData:
        return training_data(self.run)

    def native(self) -> Any:
        return engines.native_kernel(self.run, self.problem)

    def reference(self) -> LayerBatch:
        return LayerBatch([self.run], [self.problem])


def given_case(*, items: int, relations: int, seed: int, **fields: Any) -> Case:
    """A run on a graph of any degrees, loops among them, and on rows of any length."""
    rng = np.random.default_rng(seed)
    sources, targets = np.divmod(rng.choice(items**2, relations, replace=False), items)
    graph = Graph(items, sources, targets)
    embedding = rng.standard_normal((items, fields["d_model"])).astype(np.float32)
    run = make_run(items, seed=seed, graph=graph, embedding=embedding, **fields)
    return Case(run)


def head_gap(case: Case, query: ndarray, key: ndarray, context: ndarray) -> float:
    """How far the second-best head is behind at least, in units of the largest score."""
    x = case.problem.rows[context].astype(np.float64)
    heads = (x @ query) @ (x @ key.repeat(len(query) // len(key), axis=0)).swapaxes(1, 2)
    if case.run.rule is not MAX or case.run.heads == 1:
        return np.inf
    second, first = np.sort(heads, axis=0)[-2:]
    return float((first - second).min() / np.abs(heads).max())


def autograd(case: Case, query: ndarray, key: ndarray, threshold: float, context: ndarray) -> tuple[float, ...]:
    """Loss and gradients by torch, in float64, at these weights."""
    exact = replace(case, run=changed(case.run, precision="float64")).reference()
    with torch.no_grad():
        for part, value in zip(exact.weights, (query, key, threshold), strict=True):
            part.copy_(torch.as_tensor(value, dtype=torch.float64))
    loss, teaches = exact.terms.losses(exact.weights, torch.tensor(context[None].astype(np.int64)))
    gradients = torch.autograd.grad(loss.sum(), exact.adamw.parameters)
    by_threshold = float(gradients[2][0]) if len(gradients) == 3 else 0.0
    return loss.item() if teaches else np.nan, gradients[0][0].numpy(), gradients[1][0].numpy(), by_threshold


SHAPES = st.fixed_dictionaries(
    {
        "items": st.integers(2, 40),
        "d_model": st.integers(1, 24),
        "heads, key_heads": st.sampled_from(
            [
                (1, 1),
                (2, 2),
                (2, 1),
                (3, 3),
                (4, 4),
                (4, 2),
                (4, 1),
                (5, 5),
                (6, 2),
                (12, 12),
                (15, 5),
                (25, 25),
                (24, 2),
            ]
        ),
        "key_width": st.integers(1, 9),
        "context": st.sampled_from([2, 3, 7, 8, 15, 16, 16, 16, 17, 24, 40]),  # 16 has a kernel of its own
        "sharpness": st.sampled_from([10.0, 1.5]),
        "initial_threshold": st.sampled_from([0.0, 0.7, -0.4]),
        "seed": st.integers(0, 2**32),
    }
)


def make_case(kind: str, shape: dict[str, Any], density: float, precision: str) -> Case:
    items = shape["items"]
    heads, key_heads = shape["heads, key_heads"]
    shape = {name: value for name, value in shape.items() if name != "heads, key_heads"}
    shape |= {"heads": heads, "key_heads": key_heads, "context": min(items, shape["context"]), "precision": precision}
    if kind in GIVEN:
        return given_case(relations=round(density * items**2), **shape, **GIVEN[kind])
    variant = VARIANTS[kind]
    if "degree" in variant:
        variant = variant | {"degree": 1 + round(density * (items - 2))}
    return Case(make_run(**shape, **variant))


# a softmax so sharp that its gradient is below what float32 can hold
VANISHING = {"items": 2, "d_model": 1, "heads, key_heads": (25, 25), "key_width": 1, "context": 2}
VANISHING |= {"sharpness": 10.0, "initial_threshold": 0.0, "seed": 0}


@settings(max_examples=100, deadline=None)
@given(
    kind=st.sampled_from([*VARIANTS, *GIVEN]),
    shape=SHAPES,
    density=st.floats(0, 1),
    index=st.integers(0, 1000),
)
@example(kind="given softmax", shape=VANISHING, density=1.0, index=0)
@pytest.mark.parametrize(("precision", "tolerance", "tie"), [("float64", 1e-8, 1e-9), ("float32", 1e-4, 1e-4)])
def test_gradients_are_autograds(
    kind: str, shape: dict[str, Any], density: float, index: int, precision: str, tolerance: float, tie: float
) -> None:
    case = make_case(kind, shape, density, precision)
    kernel, context = case.native(), case.problem.contexts(Stream.TRAIN, index, 1)[0]
    query, key, threshold = kernel.weights()
    assume(head_gap(case, query, key, context) > tie)
    found, expected = kernel.gradient(context), autograd(case, query, key, threshold, context)
    assert found[0] == pytest.approx(expected[0], rel=tolerance, abs=tolerance, nan_ok=True)
    # A gradient is as precise as its largest entry: the small ones are what is left of sums of that size.
    # Near the smallest number of float32 (2**-126) nothing is left of it: the engine's exp ends there.
    size = max(float(np.abs(part).max()) for part in expected[1:])
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=max(tolerance * size, 2.0**-110))


MIDDLING: dict[str, Any] = {"items": 48, "d_model": 12, "heads": 3, "key_width": 5, "seed": 1, "precision": "float64"}
SMALL: dict[str, Any] = {"d_model": 5, "heads": 2, "key_width": 3, "seed": 1, "precision": "float64"}
EDGES: dict[str, Case] = {
    name: Case(make_run(**MIDDLING | variant))
    for name, variant in {
        **VARIANTS,
        "decay": {"weight_decay": 0.1, "beta1": 0.7, "beta2": 0.9, "epsilon": 1e-4, "learning_rate": 0.01},
        "two items": {"context": 2},
        "no positives": {"context": 2, "target_rate": 0.0, "items": 200},
        "no positives, balanced": {"context": 2, "target_rate": 0.0, "items": 200, "graph": "regular"},
        "seldom a valid position": {"context": 3, "target_rate": 0.0, "items": 100, "objective": "values"},
        "all items": {"items": 19, "context": 19},
        "key width 1": {"key_width": 1},
        "one head": {"heads": 1},
        "shared keys": {"heads": 6, "key_heads": 2},
        "shared keys, softmax": {"heads": 6, "key_heads": 2, "rule": "softmax"},
        "shared keys, values": {"heads": 4, "key_heads": 2, "objective": "values"},
        "one key head": {"heads": 3, "key_heads": 1, "graph": "regular", "degree": 3},
        "one key head, contexts of 11": {"heads": 5, "key_heads": 1, "context": 11, "weight_decay": 0.1},
        "one head, softmax": {"heads": 1, "rule": "softmax"},
        "many heads": {"heads": 20, "key_width": 3},
        "many heads, contexts of 33": {"heads": 14, "key_width": 2, "context": 33},
        "many heads in many panels": {"heads": 26, "key_width": 1, "d_model": 75},
        "many heads that share keys": {"heads": 24, "key_heads": 4, "d_model": 40},
        "many heads, values": {"heads": 16, "key_width": 9, "objective": "values"},
        "all other items": {"items": 20, "graph": "regular", "degree": 19},
        "d_model 1": {"d_model": 1},
        "few weights in many panels": {"heads": 1, "key_width": 1, "d_model": 75},
    }.items()
} | {f"given, {relations} relations": given_case(items=20, relations=relations, **SMALL) for relations in (0, 60, 400)}


@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES)
def test_300_steps_are_the_same(case: Case) -> None:
    kernel, batch = case.native(), case.reference()
    np.testing.assert_allclose(kernel.advance(300), batch.advance(300)[:, 0], rtol=1e-8, atol=1e-12)
    for ours, theirs in zip(kernel.weights(), batch.weights, strict=True):
        np.testing.assert_allclose(ours, theirs[0].detach().numpy(), rtol=0, atol=1e-8)
    for order, moments in ((1, batch.adamw.first), (2, batch.adamw.second)):
        for ours, theirs in zip(kernel.moments(order), moments, strict=False):
            np.testing.assert_allclose(ours, theirs[0].numpy(), rtol=0, atol=1e-8 * max(1.0, float(theirs.abs().max())))
    for stream, count in ((Stream.VALIDATION, 60), (Stream.TEST, 70)):
        found, expected = kernel.evaluate(int(stream), count), astuple(batch.evaluate(stream, count)[0])
        assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 2e-6)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.2])
def test_the_optimiser_alone_is_torchs(precision: str, tolerance: float, weight_decay: float) -> None:
    run = make_run(**MIDDLING | {"precision": precision, "learning_rate": 0.01, "weight_decay": weight_decay})
    case = Case(run)
    kernel, dtype = case.native(), getattr(torch, precision)
    parameters = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in kernel.weights()]
    torchs = torch.optim.AdamW(parameters, lr=0.01, weight_decay=weight_decay)
    for context in case.problem.contexts(Stream.TRAIN, 0, 100):
        # the kernel's own gradient goes to both, so only the update is compared
        for parameter, gradient in zip(parameters, kernel.gradient(context)[1:], strict=True):
            parameter.grad = torch.tensor(gradient, dtype=dtype)
        torchs.step()
        kernel.advance(1)
    for ours, theirs in zip(kernel.weights(), parameters, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=100 * tolerance)


@pytest.mark.parametrize("context", [6, 16])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_of_equal_heads_the_first_learns_in_both(precision: str, context: int) -> None:
    rng = np.random.default_rng(0)
    # Whole numbers: every engine's sums are exact in any order, so ties are ties.
    embedding = rng.integers(-1, 2, (40, 7)).astype(np.float32)
    others = {"context": context, "sharpness": 0.25, "precision": precision}
    case = Case(make_run(40, 7, 5, 3, seed=0, embedding=embedding, **others))
    query, key = rng.integers(-1, 2, (2, 5, 7, 3)).astype(np.float64)
    query[4], key[4] = query[2], key[2]
    kernel, row = case.native(), case.problem.contexts(Stream.TRAIN, 0, 1)[0]
    kernel.set_weights(query, key, 0.5)
    x = embedding[row].astype(np.float64)
    heads = (x @ query) @ (x @ key).swapaxes(1, 2)
    assert np.mean((heads == heads.max(axis=0)).sum(axis=0) > 1) > 0.2
    found, expected = kernel.gradient(row), autograd(case, query, key, 0.5, row)
    assert not np.any(found[1][4])
    assert np.any(found[1][2])
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8 if precision == "float64" else 1e-5)


def transition(seed: int, **altered: Any) -> Run:
    """In the middle of the transition, where seeds differ most; a large learning rate reaches it soon."""
    protocol = {
        "steps": 700, "validate_every": 350, "learning_rate": 3e-3, "validation_contexts": 50, "test_contexts": 400
    } | altered  # fmt: skip
    return make_run(items=64, d_model=16, heads=2, key_width=7, seed=seed, **protocol)


def f1_of(outcome: Outcome) -> float:
    assert outcome.micro_f1 is not None
    return outcome.micro_f1


def scores_of_native(seeds: range, **altered: Any) -> list[float]:
    return [f1_of(train(transition(seed, **altered))) for seed in seeds]


@pytest.mark.long
def test_outcomes_are_distributed_alike() -> None:
    runs = [transition(seed) for seed in range(20)]
    outcomes = train_runs(runs, [training_data(run) for run in runs])
    reference = [f1_of(outcome) for outcome in outcomes]
    # seeds apart: two independent samples; an engine that learned a little slower or otherwise is told apart
    assert ks_2samp(reference, scores_of_native(range(100, 170))).pvalue > 0.01
    assert ks_2samp(reference, scores_of_native(range(100, 170), learning_rate=2.1e-3)).pvalue < 0.001
    assert ks_2samp(reference, scores_of_native(range(100, 170), sharpness=3.0)).pvalue < 0.001
    # the same seeds meet the same problem, and in float32 the engines have hardly drifted apart by then
    np.testing.assert_allclose(reference, scores_of_native(range(20)), rtol=0, atol=0.01)
    for outcome in outcomes[:3]:
        ours = train(outcome.run)
        assert (outcome.stopped, outcome.steps, outcome.engine) == ("limit", 700, "reference")
        assert outcome.margin == pytest.approx(ours.margin, rel=0.05)
        assert [check.step for check in outcome.curve] == [check.step for check in ours.curve]
        for theirs, own in zip(outcome.curve, ours.curve, strict=True):
            assert (theirs.score, theirs.loss) == pytest.approx((own.score, own.loss), rel=0.01)


@pytest.mark.parametrize("variant", [{}, {"objective": "values"}], ids=["edges", "values"])
def test_runs_end_alike(variant: dict[str, Any]) -> None:
    # easy enough to be learned at once; with messages, coarse checks soon fail to improve
    fields = {"learning_rate": 0.02, "validate_every": 50, "steps": 2_000}
    evaluation = {"validation_contexts": 40, "test_contexts": 60, "patience": 3, "precision": "float64"}
    runs = [make_run(20, 16, 2, 8, seed=seed, context=8, **fields, **evaluation, **variant) for seed in range(4)]
    outcomes = train_runs(runs, [training_data(run) for run in runs])
    assert len({outcome.steps for outcome in outcomes}) > 1  # each stopped on its own
    for theirs in outcomes:
        ours = train(theirs.run)
        assert (theirs.stopped, theirs.steps) == (ours.stopped, ours.steps) == ("converged", ours.steps)
        assert (theirs.micro_f1, theirs.mse, theirs.zero_mse) == pytest.approx((ours.micro_f1, ours.mse, ours.zero_mse))
        assert theirs.exact_errors == ours.exact_errors
        np.testing.assert_allclose([c.score for c in theirs.curve], [c.score for c in ours.curve], rtol=1e-5)
