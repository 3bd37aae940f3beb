"""Fits of layers whose heads share keys: certified shapes, searches, starts, and refusals in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import Graph, InputError, Problem, certify, gaussian, permutation_graph
from manyheads.bounds.laws import freedom_needed
from manyheads.fitting import FitOptions, best_split, fit, grow, predicted_shape, smallest
from manyheads.fitting.descent import fewer_heads_start, narrowed_start, random_start
from manyheads.fitting.shapes import least_budgets, least_key_budget, shapes_within
from manyheads.layer.layer import degrees_of_freedom
from manyheads.layer.rules import SOFTMAX

PROBLEM = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))


@pytest.mark.parametrize(("heads", "key_heads", "key_width"), [(4, 1, 5), (4, 2, 4), (6, 2, 3), (3, 1, 6)])
def test_a_shape_with_shared_keys_certifies(heads: int, key_heads: int, key_width: int) -> None:
    """The shapes of the first trial (docs/reference/laws.md): 384 or 400 weights, fewer cached numbers than 12."""
    fitted = fit(PROBLEM, heads=heads, key_heads=key_heads, key_width=key_width, options=FitOptions(seed=0))
    layer = fitted.layer
    assert fitted.certificate.holds
    assert certify(layer, PROBLEM).holds
    assert layer.query.shape == (heads, 16, key_width)
    assert layer.key.shape == (key_heads, 16, key_width)
    assert layer.weights in (384, 400)
    assert layer.key_budget == key_heads * key_width < 12
    np.testing.assert_array_equal(layer.recognise(PROBLEM.rows), PROBLEM.graph.adjacency())


def test_softmax_and_a_map_with_shared_keys() -> None:
    rows = gaussian(24, 24, seed=1) + np.float32(0.6)  # one direction dominates: the fit whitens
    options = FitOptions(seed=0, rule=SOFTMAX, context_length=8)
    fitted = fit(Problem(permutation_graph(24, seed=0), rows), heads=2, key_heads=1, key_width=20, options=options)
    assert (fitted.map, fitted.layer.key_heads, fitted.certificate.verdict) == ("whiten", 1, "holds")


def test_growth_keeps_the_key_heads() -> None:
    layer = fit(PROBLEM, heads=4, key_heads=2, key_width=5, options=FitOptions(seed=0)).layer
    graph = PROBLEM.graph
    fewer = Problem(Graph(64, graph.sources[1:], graph.targets[1:]), PROBLEM.rows)
    grown = grow(layer, fewer, options=FitOptions(seed=0))
    assert (grown.certificate.holds, grown.layer.key_heads, grown.attempts) == (True, 2, 1)


def test_the_search_compares_weights() -> None:
    options = FitOptions(seed=0, time_limit=2.5, workers=2)
    found = smallest(PROBLEM, key_heads=1, options=options)
    assert found.best is not None
    assert found.layer is not None
    assert found.layer.key_heads == 1
    assert found.best.both_budgets == min(trial.both_budgets for trial in found.trials if trial.certified)
    assert found.best.both_budgets * 16 == found.layer.weights
    assert {trial.key_heads for trial in found.trials} == {1}
    only = smallest(PROBLEM, heads=4, key_heads=2, options=FitOptions(seed=0, time_limit=0.5, workers=2))
    assert {(trial.heads, trial.key_heads) for trial in only.trials} == {(4, 2)}


def test_a_key_budget_and_key_heads_find_the_fewest_heads() -> None:
    found = best_split(PROBLEM, key_budget=6, key_heads=1, options=FitOptions(seed=0, time_limit=2.0, workers=2))
    assert found.best is not None
    assert {trial.key_width for trial in found.trials} == {6}
    assert found.best.heads == min(trial.heads for trial in found.trials if trial.certified) <= 4
    assert found.layer is not None
    assert found.layer.key_budget == 6


def test_shapes_within_two_budgets() -> None:
    for budgets, key_heads in ((24, 1), (25, 2), (30, 3), (7, 7)):
        shapes = shapes_within(budgets, 16, key_heads=key_heads)
        every = [
            (heads, width)
            for heads in range(key_heads, budgets, key_heads)
            for width in range(1, 17)
            if (heads + key_heads) * width <= budgets < (heads + key_heads) * (width + 1) or width == 16
            if 0.88 * budgets < (heads + key_heads) * width <= budgets
        ]
        assert shapes == every


def test_the_predicted_shape_has_just_enough_freedom() -> None:
    needed = 4 * float(freedom_needed(items=64, relations=64, heads=4))
    for key_heads in (1, 2, 4):
        budget, heads = predicted_shape(PROBLEM.graph, 16, heads=4, key_heads=key_heads)
        assert (heads, budget % key_heads) == (4, 0)
        width = budget // key_heads
        freedom = [
            degrees_of_freedom(d_model=16, heads=4, key_width=w, key_heads=key_heads) for w in (width - 1, width)
        ]
        assert freedom[0] < needed <= freedom[1]
        assert predicted_shape(PROBLEM.graph, 16, key_heads=key_heads)[1] % key_heads == 0


def test_narrower_and_fewer_heads_keep_the_strongest() -> None:
    query, key, threshold = random_start(9, heads=4, key_heads=2, key_width=4, seed=0)
    assert (query.shape, key.shape) == ((4, 9, 4), (2, 9, 4))
    narrow_query, narrow_key, _ = narrowed_start((query, key, threshold), key_width=3)
    for group in range(2):  # both forms of a key head, one below the other: no common rank-3 form is nearer
        pair = slice(2 * group, 2 * group + 2)
        whole = np.concatenate([q @ key[group].T for q in query[pair]])
        narrow = np.concatenate([q @ narrow_key[group].T for q in narrow_query[pair]])
        assert np.linalg.norm(whole - narrow) == pytest.approx(np.linalg.svd(whole, compute_uv=False)[3])
    query[1] *= 0.1
    query[2] *= 0.1
    fewer, kept, _ = fewer_heads_start((query, key, threshold))
    np.testing.assert_array_equal(fewer, query[[0, 3]])
    np.testing.assert_array_equal(kept, key)


def test_the_bit_budget_counts_both_budgets() -> None:
    graph = PROBLEM.graph
    for d_model in (1, 2, 3, 16):
        least = least_budgets(graph, d_model)
        bits = 32 * (d_model * np.arange(1, 60) + 1)  # numbers of 32 bits in D_Q + D_K columns, and the threshold
        enough = int(np.argmax(bits >= 295.999)) + 1  # log2 64! = 295.999…
        assert least <= max(enough, 1)
        assert (least + 1) // 2 == least_key_budget(graph, d_model)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fit(PROBLEM, heads=4, key_heads=3, key_width=4), "4 heads cannot share 3 key heads evenly"),
        (lambda: fit(PROBLEM, heads=4, key_heads=3), "4 heads cannot share 3 key heads evenly"),
        (lambda: fit(PROBLEM, heads=2, key_heads=4), "2 heads cannot share 4 key heads evenly"),
        (lambda: fit(PROBLEM, heads=4, key_heads=0), "key_heads"),
        (lambda: smallest(PROBLEM, heads=4, key_heads=3), "cannot share 3 key heads evenly"),
        (lambda: best_split(PROBLEM, key_budget=7, key_heads=2), "cannot be split evenly into 2 key heads"),
    ],
)
def test_bad_sharing_is_refused_in_a_sentence(call, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=says):
        call()
