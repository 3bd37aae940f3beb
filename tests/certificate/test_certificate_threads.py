"""Certificates on all cores: no result depends on their number, and every thread keeps subnormal numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from manyheads import Layer, Problem, certify, gaussian, permutation_graph
from manyheads.certificate import mixed_precision, pairwise
from manyheads.certificate.core_map import core_map
from manyheads.certificate.mixed_precision import judge_mixed
from manyheads.certificate.pairwise import examine_pairs
from manyheads.certificate.projection import project
from manyheads.certificate.softmax import frontier
from manyheads.errors import InputError
from manyheads.layer.rules import RULES, Rule, register_rule, rule_named


def random_problem(items: int, rule: str) -> tuple[Layer, Problem]:
    query, key = np.random.default_rng(0).standard_normal((2, 4, 16, 8))
    layer = Layer(query, key, 9.0, rule)
    return layer, Problem(permutation_graph(items, seed=0), gaussian(items, 16, seed=1))


@pytest.mark.parametrize("rule", ["max", "logsumexp"])
def test_every_thread_does_its_part_and_their_number_changes_nothing(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 items are six groups of sources: fewer, as many and more threads than that."""
    layer, problem = random_problem(500, rule)
    monkeypatch.setattr(mixed_precision, "THREAD", 1)
    monkeypatch.setattr("manyheads.certificate.projection.BLOCK", 1 << 12)  # eight blocks of sources in float64
    first = None
    for threads in (1, 2, 3, 6, 17):
        for module in ("mixed_precision", "core_map"):
            monkeypatch.setattr(f"manyheads.certificate.{module}.cores", partial(int, threads))
        with np.errstate(over="ignore"):
            evidence = examine_pairs(layer, problem, project(layer, problem.rows), lambda done, total: None)
        first = first or evidence
        assert replace(first, distances=None) == replace(evidence, distances=None)
        np.testing.assert_array_equal(first.distances, evidence.distances)
    assert first is not None
    scores = layer.scores(problem.rows)
    related = problem.graph.adjacency()
    assert first.false_pairs == np.count_nonzero((scores > 9) & ~related)
    assert first.missed == np.count_nonzero((scores <= 9) & related)


def test_a_layer_of_ordinary_weights_leaves_no_source_to_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, problem = random_problem(400, "max")
    left = []

    def counted(*arguments: Any) -> np.ndarray:
        left.append(judge_mixed(*arguments))
        return left[-1]

    monkeypatch.setattr(pairwise, "judge_mixed", counted)
    assert certify(layer, problem).verdict == "refuted"
    assert [len(sources) for sources in left] == [0]


def test_a_rule_of_the_user_is_certified_in_float64() -> None:
    class Smallest(Rule):
        name = "smallest"

        def join(self, scores: np.ndarray, *, key_width: int) -> np.ndarray:
            return np.asarray(scores.min(axis=0))

        def join_tensor(self, scores: Any) -> Any:
            return scores.min(dim=2).values

        def add_head(self, joined: np.ndarray, scores: np.ndarray) -> None:
            np.minimum(joined, scores, out=joined)

        def error_bound(self, errors: np.ndarray) -> np.ndarray:
            return np.asarray(errors.max(axis=0))

    smallest = register_rule(Smallest())
    try:
        layer, problem = random_problem(60, "max")
        layer = Layer(layer.query, layer.key, -9.0, smallest)
        scores, related = layer.scores(problem.rows), problem.graph.adjacency()
        certificate = certify(layer, problem)
        assert certificate.window == pytest.approx((scores[~related].max(), scores[related].min()))
        assert certificate.false_pairs == np.count_nonzero((scores > -9) & ~related)
    finally:
        del RULES["smallest"]


def test_native_threads_that_replace_subnormal_numbers_refuse() -> None:
    torch = pytest.importorskip("torch")
    layer, problem = random_problem(300, "max")
    projection = project(layer, problem.rows)
    arguments = (layer, problem, projection, lambda done, total: None)
    examine_pairs(*arguments)
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor has no such mode")
        with pytest.raises(RuntimeError, match="replaces subnormal numbers by zero"):
            examine_pairs(*arguments)
    finally:
        torch.set_flush_denormal(False)


def test_rules_of_the_native_pass_are_those_with_a_join_there() -> None:
    assert {str(rule): adds for rule, adds in mixed_precision.ADDS_HEADS.items()} == {"max": False, "sum": True}
    assert all(rule is rule_named(rule.name) for rule in mixed_precision.ADDS_HEADS)


@pytest.mark.parametrize("threshold", [0.18, 0.25, 0.5, 0.9])
def test_a_softmax_certificate_does_not_depend_on_the_number_of_cores(
    threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small batches, so that several are measured ahead on several cores."""
    graph, rng = permutation_graph(40, seed=0), np.random.default_rng(0)
    rows, signatures = gaussian(40, 16, seed=1), rng.choice([-1.0, 1.0], (40, 24))
    query, key = 0.2 * rows.T @ signatures, rows[graph.targets].T @ signatures
    layer, problem = Layer(query[None], key[None], threshold, "softmax"), Problem(graph, rows)
    monkeypatch.setattr(frontier, "BATCH", 40 * 8)
    monkeypatch.setattr("manyheads.certificate.projection.BLOCK", 40 * 4)
    certificates = []
    for cores in (1, 2, 3, 7):
        for module in ("softmax.examination", "core_map"):
            monkeypatch.setattr(f"manyheads.certificate.{module}.cores", partial(int, cores))
        certificates.append(certify(layer, problem, context_length=(4, 9)).to_json())
    assert all(certificate == certificates[0] for certificate in certificates)


def test_results_come_in_order_and_a_mistake_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.certificate.core_map.cores", partial(int, 3))
    assert list(core_map(lambda part: part * part, range(50))) == [part * part for part in range(50)]
    with pytest.raises(ZeroDivisionError):
        list(core_map(lambda part: 1 // (part - 7), range(50)))


def test_python_threads_that_replace_subnormal_numbers_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("manyheads.certificate.core_map.cores", partial(int, 2))
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor has no such mode")
        with pytest.raises(InputError, match="replaces subnormal numbers by zero"):
            list(core_map(abs, [1, 2, 3]))
    finally:
        torch.set_flush_denormal(False)
