"""Whole runs of the native engine: how they end, that they repeat bit by bit, and that they can be stopped."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from manyheads import InputError, _native, certify, gaussian, permutation_graph
from manyheads.layer.rules import SUM
from manyheads.problem.problem import Problem
from manyheads.training import Check, Outcome, Run, fingerprint, train
from manyheads.training.data import Stream, problem_of
from manyheads.training.native import step_flops, training
from manyheads.training.run import Precision

QUICK = Run(items=32, d_model=16, heads=2, key_width=8, seed=0, steps=6_000)


def bits(outcome: Outcome) -> tuple[object, ...]:
    assert outcome.layer is not None
    weights = (outcome.layer.query.tobytes(), outcome.layer.key.tobytes(), outcome.layer.threshold)
    return (*weights, outcome.curve, outcome.micro_f1, outcome.mse, outcome.steps, outcome.exact_errors)


MANY = [
    QUICK,
    replace(QUICK, seed=1, steps=700),
    replace(QUICK, rule="softmax", steps=700),
    replace(QUICK, objective="values", steps=700),
    replace(QUICK, graph="regular", degree=3, context=9, steps=700),
    replace(QUICK, precision="float64", steps=700, d_model=21),
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
    above = [check.score > QUICK.stop_above for check in outcome.curve]
    assert all(above[-QUICK.patience :])
    assert not any(all(above[n : n + QUICK.patience]) for n in range(len(above) - QUICK.patience))
    assert [check.step for check in outcome.curve] == list(range(500, outcome.steps + 1, 500))
    assert outcome.curve[-1].loss < outcome.curve[0].loss
    problem = problem_of(QUICK)
    assert outcome.layer is not None
    certificate = certify(outcome.layer, Problem(problem.graph, problem.embedding))
    assert outcome.exact_errors == certificate.missed + certificate.false_pairs
    assert outcome.margin == certificate.margin
    kernel = training(QUICK, problem)
    kernel.advance(outcome.steps)
    hits, false_alarms, misses, *_ = kernel.evaluate(int(Stream.TEST), QUICK.test_contexts)
    assert outcome.micro_f1 == 2 * hits / (2 * hits + false_alarms + misses)
    assert outcome.micro_f1 > 0.99


def test_the_value_channel_stops_after_checks_without_a_new_best() -> None:
    run = replace(QUICK, objective="values", steps=40_000, patience=3, validate_every=100)
    outcome = train(run)
    scores = [check.score for check in outcome.curve]
    assert outcome.stopped == "converged"
    assert np.argmin(scores) == len(scores) - 1 - run.patience
    assert outcome.mse is not None
    assert outcome.zero_mse is not None
    assert outcome.mse < outcome.zero_mse
    assert outcome.micro_f1 is None
    assert outcome.exact_errors is None
    assert outcome.layer is not None
    assert outcome.layer.threshold == run.initial_threshold


def test_a_run_that_does_not_converge_reaches_its_limit() -> None:
    run = replace(QUICK, heads=1, key_width=1, steps=1_100)
    outcome = train(run)
    assert (outcome.stopped, outcome.steps, len(outcome.curve)) == ("limit", 1_100, 2)
    assert outcome.exact_errors
    assert outcome.margin is not None
    assert outcome.margin < 0
    assert outcome.steps_per_second == pytest.approx(1_100 / outcome.seconds)


def test_a_run_that_learned_nothing_scores_zero() -> None:
    run = replace(QUICK, initial_threshold=1e6, learning_rate=0.0, steps=10)
    assert train(run).micro_f1 == 0.0


@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_divergence_is_no_score(rule: str) -> None:
    run = replace(QUICK, learning_rate=1e25, rule=rule)
    outcome = train(run)
    assert outcome.stopped == "diverged"
    assert (outcome.micro_f1, outcome.layer, outcome.exact_errors, outcome.margin) == (None, None, None, None)
    assert outcome.steps < 10


def test_a_weight_that_is_no_number_ends_the_run_even_where_no_pair_shows_it() -> None:
    problem = problem_of(QUICK)
    kernel = training(QUICK, problem)
    query, key, threshold = kernel.weights()
    query[1, 3, 2] = np.nan  # head 1 loses every comparison from now on
    kernel.set_weights(query, key, threshold)
    stopped, curve, _ = kernel.train(None, math.inf)
    assert (stopped, kernel.steps, curve) == ("diverged", QUICK.validate_every, [])


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


ENDLESS = replace(QUICK, steps=10**12, validate_every=10**11, patience=10**6)


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
    code = f"from manyheads.training import Run, train; print('up', flush=True); train({ENDLESS!r})"
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
    problem = problem_of(QUICK)
    run = replace(
        QUICK,
        graph=fingerprint(problem.graph),
        embedding=fingerprint(problem.embedding),
        positive_weight=15.0,
        steps=600,
    )
    ours = train(run, graph=problem.graph, embedding=problem.embedding.astype(np.float64))
    theirs = train(replace(QUICK, steps=600))
    assert bits(ours) == bits(theirs)
    assert ours.run.id != theirs.run.id


GIVEN_GRAPH, GIVEN_ROWS = permutation_graph(32, seed=5), gaussian(32, 16, seed=5)
ON_GIVEN = replace(QUICK, graph=fingerprint(GIVEN_GRAPH), embedding=fingerprint(GIVEN_ROWS))


def test_what_is_handed_in_is_what_the_run_names() -> None:
    holes = GIVEN_ROWS.copy()
    holes[3, 4] = np.nan
    for graph, rows, says in [
        (None, GIVEN_ROWS, "hand it in"),
        (permutation_graph(33, seed=5), GIVEN_ROWS, "33 items, the run 32"),
        (permutation_graph(32, seed=6), GIVEN_ROWS, "the run names given:"),
        (GIVEN_GRAPH, None, "hand it in"),
        (GIVEN_GRAPH, GIVEN_ROWS[:, :8], r"shape \(32, 8\)"),
        (GIVEN_GRAPH, holes, "finite"),
        (GIVEN_GRAPH, -GIVEN_ROWS, "the run names given:"),
    ]:
        with pytest.raises(InputError, match=says):
            train(ON_GIVEN, graph=graph, embedding=rows)
    with pytest.raises(InputError, match="draws its own"):
        train(QUICK, graph=GIVEN_GRAPH)
    with pytest.raises(InputError, match="draws its own"):
        train(QUICK, embedding=GIVEN_ROWS)
    star = permutation_graph(32, seed=5)
    with pytest.raises(InputError, match="runs on the cpu"):
        train(QUICK, device="cuda")
    assert star == GIVEN_GRAPH


def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    kernel = training(QUICK, problem_of(QUICK))
    for context, says in [
        (np.arange(5), "another length"),
        (np.zeros(16), "distinct"),
        (np.arange(20, 36), "distinct"),
    ]:
        with pytest.raises(ValueError, match=says):
            kernel.gradient(context.astype(np.int32))
    with pytest.raises(ValueError, match="another shape"):
        kernel.set_weights(np.zeros((2, 16, 7)), np.zeros((2, 16, 7)), 0.0)
    with pytest.raises(ValueError, match="not among the items"):
        _native.contexts(np.array([0, 1, 2]), np.array([0, 5]), 2, 0.5, 0, 0, 0, 1)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_exponential_keeps_its_bound(kind: type) -> None:
    """Within 3 ulp of e^x down to the smallest normal number; NaN stays NaN."""
    lowest = -87.0 if kind is np.float32 else -708.0
    rng = np.random.default_rng(0)
    x = np.concatenate([-np.logspace(-12, math.log10(-lowest), 50_000), rng.uniform(lowest, 0, 100_000), [0.0, -0.0]])
    x = x.astype(kind)
    exact = np.exp(x.astype(np.longdouble))
    errors = np.abs(_native.exp_of_negative(x).astype(np.longdouble) - exact) / np.spacing(exact.astype(kind))
    assert errors.max() < 3
    special = _native.exp_of_negative(np.array([np.nan, -np.inf, 2 * lowest], dtype=kind))
    assert np.isnan(special[0])
    assert (special[1:] > 0).all()
    assert (special[1:] < 1e-37).all()


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
def test_runs_agree_across_platforms(precision: Precision, tolerance: float) -> None:
    """Vector widths and compilers may change the order of a few sums: this is how much of it 300 steps may show."""
    run = replace(QUICK, precision=precision)
    kernel = training(run, problem_of(run))
    losses = kernel.advance(300)
    assert losses[-1] == pytest.approx(0.6090486896187065, rel=tolerance)
    assert kernel.weights()[2] == pytest.approx(0.18049578837909597, rel=tolerance)


def test_flops_are_those_of_the_matrix_products() -> None:
    run = Run(256, 32, 8, 8, seed=0)
    assert step_flops(run) == 2 * (2 * 2 * 16 * 32 * 64) + 2 * 256 * 64 + 2 * (2 * 256 * 8)
    assert step_flops(replace(run, rule="softmax")) == step_flops(run) + 2 * (2 * 256 * 56)


def test_the_native_engine_names_the_rules_it_trains() -> None:
    with pytest.raises(InputError, match="the native engine trains max and softmax: use --engine reference for sum"):
        train(replace(QUICK, rule=SUM))
