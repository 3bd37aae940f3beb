"""The fused step against the formulas written out in numpy: losses, gradients by finite differences, AdamW, counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray
from support.runs import changed, make_run

from manyheads import Graph, Layer, regular_graph
from manyheads._native import Training
from manyheads.training.data import Stream, TrainingData, initial_weights, training_data
from manyheads.training.engines import native_kernel
from manyheads.training.outcome import Tally
from manyheads.training.run import Run


@dataclass(frozen=True)
class Point:
    """Where a loss is taken: the weights and the threshold."""

    query: ndarray
    key: ndarray
    threshold: float


def start(run: Run, threshold: float = 0.07) -> Point:
    query, key = initial_weights(run)
    return Point(query, key, threshold)


def labels(problem: TrainingData, context: ndarray) -> ndarray:
    return problem.graph.adjacency()[np.ix_(context, context)]


def loss_of(run: Run, problem: TrainingData, context: ndarray, at: Point) -> float:
    """The loss of one context as docs/reference/claims.md states it, from App. A.1."""
    layer = Layer(at.query, at.key, at.threshold, run.rule.name)
    scores, related = layer.scores(problem.rows[context]), labels(problem, context)
    if problem.messages is not None:
        values = problem.messages[context]
        distances = [np.sum((scores[p] @ values - values[q]) ** 2) for p, q in zip(*np.nonzero(related), strict=True)]
        return float(np.mean(distances)) if distances else math.nan
    z, weight = run.protocol.sharpness * (scores - at.threshold), run.fields["positive_weight"]
    if weight == "balanced":
        weight = (related.size - related.sum()) / related.sum() if related.any() else 0.0
    return float(np.where(related, weight * np.logaddexp(0, -z), np.logaddexp(0, z)).mean())


def moved(at: Point, direction: Point, size: float) -> Point:
    return Point(
        at.query + size * direction.query, at.key + size * direction.key, at.threshold + size * direction.threshold
    )


def directions(at: Point, seed: int) -> list[Point]:
    """Random directions for each query head alone, each key head alone, the threshold alone, and all together."""
    rng, no_query, no_key = np.random.default_rng(seed), np.zeros(at.query.shape), np.zeros(at.key.shape)
    query, key = rng.standard_normal(at.query.shape), rng.standard_normal(at.key.shape)
    alone = [Point(no_query, no_key, 1.0), Point(query, key, 1.0)]
    for head in range(len(query)):
        one = no_query.copy()
        one[head] = rng.standard_normal(query.shape[1:])
        alone.append(Point(one, no_key, 0.0))
    for head in range(len(key)):
        one = no_key.copy()
        one[head] = rng.standard_normal(key.shape[1:])
        alone.append(Point(no_query, one, 0.0))
    return alone


def check_slopes(
    run: Run, problem: TrainingData, context: ndarray, at: Point, gradient: Point, tolerance: float, size: float = 2e-7
) -> None:
    """The gradient's slope in every direction is the central difference quotient of loss_of."""
    for direction in directions(at, seed=0):
        slope = np.vdot(gradient.query, direction.query) + np.vdot(gradient.key, direction.key)
        slope += gradient.threshold * direction.threshold
        ahead, behind = (loss_of(run, problem, context, moved(at, direction, s)) for s in (size, -size))
        assert slope == pytest.approx((ahead - behind) / (2 * size), rel=tolerance, abs=max(tolerance / 100, 2e-7))


VARIANTS: dict[str, dict[str, Any]] = {
    "max": {},
    "softmax": {"rule": "softmax"},
    "regular": {"graph": "regular", "degree": 3},
    "regular softmax": {"graph": "regular", "degree": 3, "rule": "softmax"},
    "values": {"objective": "values"},
    "values, narrow": {"objective": "values", "message_width": 3},
    "light positives": {"positive_weight": 3.0},
    "balanced": {"positive_weight": "balanced"},
}

# (items, d_model, heads, key_width, context)
SHAPES = [
    (24, 16, 4, 5, 16), (30, 5, 3, 2, 7), (20, 17, 1, 9, 13), (9, 3, 2, 1, 9), (12, 8, 5, 1, 2), (40, 33, 2, 3, 33),
    (40, 12, 13, 3, 16), (20, 40, 24, 2, 11),
]  # fmt: skip


def check_gradient(run: Run, at: Point, tolerance: float) -> None:
    problem = training_data(run)
    kernel = native_kernel(run, problem)
    kernel.set_weights(at.query, at.key, at.threshold)
    for context in problem.contexts(Stream.VALIDATION, 0, 2):
        loss, by_query, by_key, by_threshold = kernel.gradient(context)
        expected = loss_of(run, problem, context, at)
        if math.isnan(expected):  # the value channel without a valid position
            assert math.isnan(loss)
            assert not any(np.any(g) for g in (by_query, by_key, by_threshold))
            continue
        assert loss == pytest.approx(expected, rel=tolerance, abs=tolerance)
        check_slopes(run, problem, context, at, Point(by_query, by_key, by_threshold), tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_difference_quotients(variant: str, shape: tuple[int, int, int, int, int]) -> None:
    items, d_model, heads, key_width, context = shape
    run = make_run(items, d_model, heads, key_width, seed=2, context=context, **VARIANTS[variant])
    check_gradient(changed(run, precision="float64"), start(run), tolerance=1e-6)
    single = changed(run, precision="float32")
    query, key = (w.astype(np.float32).astype(np.float64) for w in initial_weights(run))
    rounded = Point(query, key, 0.0625)
    check_gradient(single, rounded, tolerance=1e-4)


# (heads, key_heads, key_width, context)
SHARED = [(4, 2, 5, 16), (4, 1, 5, 16), (6, 2, 3, 11), (9, 3, 2, 33), (5, 1, 9, 16), (8, 1, 1, 16)]


@pytest.mark.parametrize("shape", SHARED, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_shared_key_head_has_the_gradients_of_all_heads_that_read_it(
    variant: str, shape: tuple[int, int, int, int], precision: str
) -> None:
    heads, key_heads, key_width, context = shape
    run = make_run(40, 12, heads, key_width, seed=2, context=context, precision=precision, **VARIANTS[variant])
    shared, problem = changed(run, key_heads=key_heads), training_data(run)
    query, key = initial_weights(shared)
    of_shared, of_own = native_kernel(shared, problem), native_kernel(run, problem)
    of_shared.set_weights(query, key, 0.07)
    of_own.set_weights(query, key.repeat(heads // key_heads, axis=0), 0.07)
    for context_items in problem.contexts(Stream.VALIDATION, 0, 3):
        loss, by_query, by_key, by_threshold = of_shared.gradient(context_items)
        own_loss, by_own_query, by_own_key, by_own_threshold = of_own.gradient(context_items)
        np.testing.assert_array_equal((loss, by_threshold), (own_loss, by_own_threshold))
        np.testing.assert_array_equal(by_query, by_own_query)
        summed = by_own_key.reshape(key_heads, -1, *by_own_key.shape[1:]).sum(axis=1)
        size = float(np.abs(by_own_key).max())
        np.testing.assert_allclose(by_key, summed, rtol=0, atol=size * (1e-14 if precision == "float64" else 1e-5))


@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_gradients_of_shared_keys_are_difference_quotients(rule: str) -> None:
    for heads, key_heads, key_width, context in SHARED:
        run = make_run(40, 12, heads, key_width, seed=2, context=context, precision="float64", rule=rule)
        run = changed(run, key_heads=key_heads)
        check_gradient(run, start(run), tolerance=1e-6)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_gradients_in_any_shape(data: st.DataObject) -> None:
    items = data.draw(st.integers(4, 24))
    variant = VARIANTS[data.draw(st.sampled_from(sorted(VARIANTS)))]
    run = make_run(
        items=items,
        d_model=data.draw(st.integers(1, 20)),
        heads=data.draw(st.integers(1, 4)),
        key_width=data.draw(st.integers(1, 7)),
        context=data.draw(st.integers(2, items)),
        seed=data.draw(st.integers(0, 50)),
        target_rate=data.draw(st.sampled_from([0.0, 0.5, 1.0])),
        precision="float64",
        **variant,
    )
    check_gradient(run, start(run), tolerance=1e-5)


def given_run(graph: Graph, **fields: Any) -> tuple[Run, TrainingData]:
    run = make_run(graph.items, 6, 3, 2, seed=1, graph=graph, precision="float64", **fields)
    return run, training_data(run)


def test_a_tie_goes_to_the_lowest_head() -> None:
    run = make_run(24, 16, 3, 5, seed=0, precision="float64")
    problem = training_data(run)
    query, key = initial_weights(run)
    query[:], key[:] = query[:1], key[:1]  # three times the same head
    kernel = native_kernel(run, problem)
    kernel.set_weights(query, key, 0.1)
    _, by_query, by_key, _ = kernel.gradient(problem.contexts(Stream.TRAIN, 0, 1)[0])
    assert np.abs(by_query[0]).max() > 0
    assert not by_query[1:].any()
    assert not by_key[1:].any()


def test_a_context_without_relations_has_only_negatives() -> None:
    graph = Graph(20, np.array([0]), np.array([1]))
    variants: list[dict[str, Any]] = [{}, {"positive_weight": 4.0}, {"rule": "softmax"}]
    for fields in variants:
        run, problem = given_run(graph, context=5, **fields)
        context = np.array([4, 9, 2, 7, 11], dtype=np.int32)
        loss, by_query, by_key, by_threshold = native_kernel(run, problem).gradient(context)
        at = start(run, threshold=0.0)
        assert loss == pytest.approx(loss_of(run, problem, context, at), rel=1e-12)
        check_slopes(run, problem, context, at, Point(by_query, by_key, by_threshold), 1e-5)
        assert by_threshold < 0  # nothing speaks for a lower threshold


def test_a_complete_graph_has_almost_only_positives() -> None:
    graph = regular_graph(9, 8, seed=0)
    run, problem = given_run(graph, context=9)
    context = np.arange(9, dtype=np.int32)[::-1].copy()
    loss, by_query, by_key, by_threshold = native_kernel(run, problem).gradient(context)
    at = start(run, threshold=0.0)
    assert loss == pytest.approx(loss_of(run, problem, context, at), rel=1e-12)
    check_slopes(run, problem, context, at, Point(by_query, by_key, by_threshold), 1e-5)


@pytest.mark.parametrize("scale", [1e-3, 30.0, 300.0])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_losses_of_flat_and_of_steep_scores(scale: float, precision: str) -> None:
    """exp(−|u|) from almost 1 to far below the smallest number: nothing overflows, nothing is lost."""
    run = make_run(24, 16, 2, 4, seed=0, precision=precision, initial_scale=scale)
    problem = training_data(run)
    kernel, context = native_kernel(run, problem), problem.contexts(Stream.TRAIN, 0, 1)[0]
    query, key, _ = kernel.weights()
    loss, by_query, by_key, by_threshold = kernel.gradient(context)
    assert loss == pytest.approx(loss_of(run, problem, context, Point(query, key, 0.0)), rel=1e-5)
    assert all(np.isfinite(g).all() for g in (by_query, by_key, by_threshold))


def adamw(run: Run, value: ndarray, gradients: list[ndarray]) -> tuple[ndarray, ndarray, ndarray]:
    """AdamW as Loshchilov and Hutter wrote it, for given gradients."""
    first, second = np.zeros_like(value), np.zeros_like(value)
    for t, gradient in enumerate(gradients, start=1):
        value = value * (1 - run.protocol.learning_rate * run.protocol.weight_decay)
        first = run.protocol.beta1 * first + (1 - run.protocol.beta1) * gradient
        second = run.protocol.beta2 * second + (1 - run.protocol.beta2) * gradient**2
        unbiased = first / (1 - run.protocol.beta1**t), second / (1 - run.protocol.beta2**t)
        value = value - run.protocol.learning_rate * unbiased[0] / (np.sqrt(unbiased[1]) + run.protocol.epsilon)
    return value, first, second


@pytest.mark.parametrize("variant", [{}, {"weight_decay": 0.3, "epsilon": 1e-3, "beta1": 0.7, "beta2": 0.95}], ids=str)
def test_the_optimiser_is_adamw(variant: dict[str, float]) -> None:
    run = make_run(30, 19, 3, 3, seed=4, precision="float64", initial_threshold=0.2, **variant)
    problem = training_data(run)
    kernel = native_kernel(run, problem)
    gradients: list[tuple[ndarray, ndarray, ndarray]] = []
    for context in problem.contexts(Stream.TRAIN, 0, 40):
        loss, by_query, by_key, by_threshold = kernel.gradient(context)
        gradients.append((by_query, by_key, np.asarray(by_threshold)))
        assert kernel.advance(1)[0] == loss  # the step meets the same context, and reports the loss before it
    assert kernel.steps == 40
    first, second = kernel.moments(1), kernel.moments(2)
    for n, (begun, ended) in enumerate(zip((*initial_weights(run), 0.2), kernel.weights(), strict=True)):
        expected = adamw(run, np.asarray(begun), [g[n] for g in gradients])
        found = (np.asarray(ended), np.asarray(first[n]), np.asarray(second[n]))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-14)


def test_a_value_context_without_a_valid_position_makes_no_update() -> None:
    graph = Graph(40, np.array([0]), np.array([1]))
    run, problem = given_run(graph, context=4, objective="values", target_rate=0.0)
    kernel = native_kernel(run, problem)
    before = kernel.weights()
    contexts = problem.contexts(Stream.TRAIN, 0, 200)
    valid = np.array([labels(problem, context).any() for context in contexts])
    assert valid.any()
    first = int(np.argmax(valid))
    assert np.isnan(kernel.advance(first)).all()
    for old, new in zip(before, kernel.weights(), strict=True):
        np.testing.assert_array_equal(np.asarray(old), np.asarray(new))
    assert np.isfinite(kernel.advance(1)).all()
    # the optimiser's count starts here: its first step is lr·sign of the gradient
    moved = np.abs(kernel.weights()[0] - before[0])
    assert moved.max() == pytest.approx(run.protocol.learning_rate, rel=1e-3)


def recount(run: Run, problem: TrainingData, kernel: Training, stream: Stream, count: int) -> Tally:
    query, key, threshold = kernel.weights()
    layer = Layer(query, key, threshold, run.rule.name)
    hits = alarms = misses = positions = 0
    distance = zero = 0.0
    for context in problem.contexts(stream, 0, count):
        related, rows = labels(problem, context), problem.rows[context]
        if problem.messages is not None:
            values = problem.messages[context]
            predicted = layer.scores(rows) @ values
            for p, q in zip(*np.nonzero(related), strict=True):
                distance += float(np.sum((predicted[p] - values[q]) ** 2))
                zero += float(np.sum(values[q] ** 2))
                positions += 1
            continue
        seen = layer.recognise(rows)
        hits += int((seen & related).sum())
        alarms += int((seen & ~related).sum())
        misses += int((~seen & related).sum())
    return Tally(hits, alarms, misses, distance, zero, positions)


@pytest.mark.parametrize("count", [3, 300], ids=["context by context", "all pairs at once"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("context", [16, 11])
@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2)], ids=["own keys", "shared keys"])
def test_evaluation_counts_what_a_recount_counts(
    variant: str, count: int, context: int, heads: int, key_heads: int
) -> None:
    run = make_run(37, 12, heads, 4, seed=5, context=context, precision="float64", **VARIANTS[variant])
    run = changed(run, key_heads=key_heads)
    problem = training_data(run)
    kernel = native_kernel(run, problem)
    kernel.advance(400)
    query, key, threshold = kernel.weights()
    kernel.set_weights(query, key, threshold / 2)  # low enough to recognise pairs so early
    ours = Tally(*kernel.evaluate(int(Stream.TEST), count))
    theirs = recount(run, problem, kernel, Stream.TEST, count)
    assert (ours.hits, ours.false_alarms, ours.misses) == (theirs.hits, theirs.false_alarms, theirs.misses)
    assert ours.positions == theirs.positions
    assert ours.distance == pytest.approx(theirs.distance, rel=1e-9)
    assert ours.distance_of_zero == pytest.approx(theirs.distance_of_zero, rel=1e-9)
    assert ours.hits + ours.false_alarms > 0 or run.task.objective == "values"


def test_both_ways_of_counting_decide_alike() -> None:
    """300 contexts at once go through all pairs; one at a time they cannot."""
    run = make_run(37, 12, 3, 4, seed=5)
    problem = training_data(run)
    kernel = native_kernel(run, problem)
    kernel.advance(300)
    at_once = kernel.evaluate(int(Stream.TEST), 300)[:3]
    growing = [kernel.evaluate(int(Stream.TEST), n)[:3] for n in (1, 2, 3, 4)]
    query, key, threshold = kernel.weights()
    layer = Layer(query.astype(np.float32), key.astype(np.float32), threshold)
    recognised = [layer.recognise(problem.rows[c]) for c in problem.contexts(Stream.TEST, 0, 300)]
    assert sum(at_once[:2]) == pytest.approx(sum(int(r.sum()) for r in recognised), abs=2)  # float32 against float64
    assert all(a[0] + a[2] <= b[0] + b[2] for a, b in pairwise(growing))
