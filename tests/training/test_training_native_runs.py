"""Whole runs of the native engine: how they end, that they repeat bit by bit, and that they can be stopped."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.runs import changed, make_run

from manyheads import InputError, _native, certify
from manyheads.layer.rules import SUM
from manyheads.training import Check, Outcome, Run, train
from manyheads.training.data import Stream, initial_weights, training_data
from manyheads.training.engines import kernel_settings, native_kernel, step_flops
from manyheads.training.protocol import Precision

QUICK = make_run(items=32, d_model=16, heads=2, key_width=8, seed=0, steps=6_000)


def bits(outcome: Outcome) -> tuple[object, ...]:
    assert outcome.layer is not None
    weights = (outcome.layer.query.tobytes(), outcome.layer.key.tobytes(), outcome.layer.threshold)
    return (*weights, outcome.curve, outcome.micro_f1, outcome.mse, outcome.steps, outcome.exact_errors)


MANY = [
    QUICK,
    changed(QUICK, seed=1, steps=700),
    changed(QUICK, rule="softmax", steps=700),
    changed(QUICK, objective="values", steps=700),
    changed(QUICK, graph="regular", degree=3, context=9, steps=700),
    changed(QUICK, precision="float64", steps=700, d_model=21),
]


def test_the_same_run_gives_the_same_bits_on_any_thread_and_in_any_order() -> None:
    alone = [bits(train(run)) for run in MANY]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(train, MANY))
        backwards = list(pool.map(train, MANY[::-1]))
    assert [bits(outcome) for outcome in together] == alone
    assert [bits(outcome) for outcome in backwards[::-1]] == alone
    assert len(set(alone)) == len(alone)


def test_a_converged_run_stopped_by_the_rule_and_holds_what_it_claims() -> None:
    outcome = train(QUICK)
    assert outcome.stopped == "converged"
    above = [check.score > QUICK.protocol.stop_above for check in outcome.curve]
    assert all(above[-QUICK.protocol.patience :])
    assert not any(all(above[n : n + QUICK.protocol.patience]) for n in range(len(above) - QUICK.protocol.patience))
    assert [check.step for check in outcome.curve] == list(range(500, outcome.steps + 1, 500))
    assert outcome.curve[-1].loss < outcome.curve[0].loss
    problem = training_data(QUICK)
    assert outcome.layer is not None
    certificate = certify(outcome.layer, problem.problem)
    assert outcome.exact_errors == certificate.missed + certificate.false_pairs
    assert outcome.margin == certificate.margin
    kernel = native_kernel(QUICK, problem)
    kernel.advance(outcome.steps)
    hits, false_alarms, misses, *_ = kernel.evaluate(int(Stream.TEST), QUICK.protocol.test_contexts)
    assert outcome.micro_f1 == 2 * hits / (2 * hits + false_alarms + misses)
    assert outcome.micro_f1 > 0.99


def test_the_value_channel_stops_after_checks_without_a_new_best() -> None:
    run = changed(QUICK, objective="values", steps=40_000, patience=3, validate_every=100)
    outcome = train(run)
    scores = [check.score for check in outcome.curve]
    assert outcome.stopped == "converged"
    assert np.argmin(scores) == len(scores) - 1 - run.protocol.patience
    assert outcome.mse is not None
    assert outcome.zero_mse is not None
    assert outcome.mse < outcome.zero_mse
    assert outcome.micro_f1 is None
    assert outcome.exact_errors is None
    assert outcome.layer is not None
    assert outcome.layer.threshold == run.protocol.initial_threshold


def test_a_run_that_does_not_converge_reaches_its_limit() -> None:
    run = changed(QUICK, heads=1, key_width=1, steps=1_100)
    outcome = train(run)
    assert (outcome.stopped, outcome.steps, len(outcome.curve)) == ("limit", 1_100, 2)
    assert outcome.exact_errors
    assert outcome.margin is not None
    assert outcome.margin < 0
    assert outcome.steps_per_second == pytest.approx(1_100 / outcome.seconds)


def test_a_run_that_learned_nothing_scores_zero() -> None:
    run = changed(QUICK, initial_threshold=1e6, learning_rate=0.0, steps=10)
    assert train(run).micro_f1 == 0.0


@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_divergence_is_no_score(rule: str) -> None:
    run = changed(QUICK, learning_rate=1e25, rule=rule)
    outcome = train(run)
    assert outcome.stopped == "diverged"
    assert (outcome.micro_f1, outcome.layer, outcome.exact_errors, outcome.margin) == (None, None, None, None)
    assert outcome.steps < 10


def test_a_weight_that_is_no_number_ends_the_run_even_where_no_pair_shows_it() -> None:
    problem = training_data(QUICK)
    kernel = native_kernel(QUICK, problem)
    query, key, threshold = kernel.weights()
    query[1, 3, 2] = np.nan  # head 1 loses every comparison from now on
    kernel.set_weights(query, key, threshold)
    stopped, curve, _ = kernel.train(None, math.inf)
    assert (stopped, kernel.steps, curve) == ("diverged", QUICK.protocol.validate_every, [])


def test_progress_can_cancel() -> None:
    seen: list[tuple[Run, Check]] = []

    def progress(run: Run, check: Check) -> bool:
        seen.append((run, check))
        return len(seen) < 2

    outcome = train(QUICK, progress=progress)
    assert (outcome.stopped, outcome.steps, outcome.micro_f1) == ("cancelled", 1_000, None)
    assert tuple(check for _, check in seen) == outcome.curve
    assert {run for run, _ in seen} == {QUICK}
    assert outcome.layer is not None


def test_an_exception_in_progress_passes_through_and_leaves_nothing_behind() -> None:
    def fail(run: Run, check: Check) -> None:
        raise RuntimeError("enough")

    before = bits(train(QUICK))
    with pytest.raises(RuntimeError, match="enough"):
        train(QUICK, progress=fail)
    assert bits(train(QUICK, progress=lambda run, check: None)) == before


ENDLESS = changed(QUICK, steps=10**12, validate_every=10**11, patience=10**6)


def test_a_time_limit_works_between_checks() -> None:
    started = time.perf_counter()
    outcome = train(ENDLESS, time_limit=0.2)
    assert outcome.stopped == "timeout"
    assert 0.2 <= time.perf_counter() - started < 2
    assert outcome.micro_f1 is None
    assert outcome.curve == ()


def heed_ctrl_c() -> None:
    """A test run in the background inherits that SIGINT is ignored, and Python then leaves it so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_works_between_checks() -> None:
    code = (
        "from manyheads.training import Protocol, Run, Task, train; print('up', flush=True); "
        "protocol = Protocol(steps=10**12, validate_every=10**11, patience=10**6); "
        "train(Run(Task('permutation:32', 'gaussian:16'), heads=2, key_width=8, seed=0, protocol=protocol))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        time.sleep(0.3)
        sent = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
        assert time.perf_counter() - sent < 5
        assert b"KeyboardInterrupt" in process.stderr.read()


def test_a_given_graph_and_embedding_train_like_the_drawn_ones() -> None:
    problem = training_data(QUICK)
    run = changed(QUICK, graph=problem.graph, embedding=problem.rows.astype(np.float64), steps=600)
    ours = train(run)
    theirs = train(changed(QUICK, steps=600))
    assert bits(ours) == bits(theirs)
    assert ours.run.id != theirs.run.id


KINDS = [
    (graph, embedding)
    for graph in ("random:32:40", "star-out:32", "star-in:32", "power-law:32:40:2.5")
    for embedding in ("one-hot", "sparse-binary:16")
]


@pytest.mark.parametrize(("graph", "embedding"), KINDS)
def test_every_kind_is_trained_and_drawn_by_its_seed(graph: str, embedding: str) -> None:
    run = changed(QUICK, graph=graph, embedding=embedding, steps=20, validate_every=10, patience=1)
    outcome = train(run)
    assert outcome.stopped == "limit"
    assert outcome.exact_errors is not None
    ours, theirs = training_data(run), training_data(changed(run, heads=1, key_width=3))
    assert ours.graph == theirs.graph
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    fixed = graph.startswith("star"), embedding == "one-hot"
    other = training_data(changed(run, seed=1))
    assert (ours.graph == other.graph, np.array_equal(ours.rows, other.rows)) == fixed


def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    kernel = native_kernel(QUICK, training_data(QUICK))
    for context, says in [
        (np.arange(5), "another length"),
        (np.zeros(16), "distinct"),
        (np.arange(20, 36), "distinct"),
    ]:
        with pytest.raises(ValueError, match=says):
            kernel.gradient(context.astype(np.int32))
    with pytest.raises(ValueError, match="another shape"):
        kernel.set_weights(np.zeros((2, 16, 7)), np.zeros((2, 16, 7)), 0.0)
    shared = changed(QUICK, key_heads=1)
    with pytest.raises(ValueError, match="another shape"):
        native_kernel(shared, training_data(shared)).set_weights(*initial_weights(QUICK), 0.0)
    wrong = kernel_settings(QUICK, training_data(QUICK))
    wrong.heads, wrong.key_heads = 3, 2
    with pytest.raises(ValueError, match="key_heads does not divide heads"):
        wrong.check()
    with pytest.raises(ValueError, match="not among the items"):
        _native.contexts(np.array([0, 1, 2]), np.array([0, 5]), 2, 0.5, 0, 0, 0, 1)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
def test_runs_agree_across_platforms(precision: Precision, tolerance: float) -> None:
    """Vector widths and compilers may change the order of a few sums: this is how much of it 300 steps may show."""
    run = changed(QUICK, precision=precision)
    kernel = native_kernel(run, training_data(run))
    losses = kernel.advance(300)
    assert losses[-1] == pytest.approx(0.6090486896187065, rel=tolerance)
    assert kernel.weights()[2] == pytest.approx(0.18049578837909597, rel=tolerance)


def test_flops_are_those_of_the_matrix_products() -> None:
    run = make_run(256, 32, 8, 8, seed=0)
    assert step_flops(run) == 2 * (2 * 2 * 16 * 32 * 64) + 2 * 256 * 64 + 2 * (2 * 256 * 8)
    assert step_flops(changed(run, rule="softmax")) == step_flops(run) + 2 * (2 * 256 * 56)
    shared = changed(run, key_heads=2)  # of the key weights a quarter, of the scores all
    assert step_flops(shared) == 2 * (2 * 16 * 32 * (64 + 16)) + 2 * 256 * 64 + 2 * (2 * 256 * 8)


def test_the_native_engine_names_the_rules_it_trains() -> None:
    with pytest.raises(InputError, match="the native engine trains max and softmax: use --engine reference for sum"):
        train(changed(QUICK, rule=SUM))
