"""Layer: its rules on one context, against the formulas written out for one pair at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from manyheads import InputError, Layer
from manyheads.layer.rules import RULES


def random_layer(rule: str, *, heads: int = 3, key_heads: int = 3, d_model: int = 5, seed: int = 0) -> Layer:
    rng = np.random.default_rng(seed)
    query, key = (rng.standard_normal((number, d_model, 2)) for number in (heads, key_heads))
    return Layer(query, key, threshold=0.3, rule=rule)


def one_score(layer: Layer, x: np.ndarray, p: int, q: int) -> float:
    def raw(k: int, j: int) -> float:
        key = layer.key[k * layer.key.shape[0] // layer.query.shape[0]]  # head k of h reads key head ⌊k·g/h⌋
        return float((x[p] @ layer.query[k]) @ (x[j] @ key))

    heads = range(layer.heads)
    if layer.rule.name == "max":
        return max(raw(k, q) for k in heads)
    if layer.rule.name == "sum":
        return sum(raw(k, q) for k in heads)
    if layer.rule.name == "logsumexp":
        return math.log(sum(math.exp(raw(k, q)) for k in heads))
    root = math.sqrt(layer.key_width)
    return sum(math.exp(raw(k, q) / root) / sum(math.exp(raw(k, t) / root) for t in range(len(x))) for k in heads)


@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2), (6, 3), (3, 1)])
@pytest.mark.parametrize("rule", list(RULES))
def test_scores_follow_the_formula(rule: str, heads: int, key_heads: int) -> None:
    layer, x = random_layer(rule, heads=heads, key_heads=key_heads), np.random.default_rng(1).standard_normal((4, 5))
    expected = [[one_score(layer, x, p, q) for q in range(4)] for p in range(4)]
    np.testing.assert_allclose(layer.scores(x), expected, rtol=1e-12)
    np.testing.assert_array_equal(layer.recognise(x), np.array(expected) > 0.3)


def test_a_score_equal_to_the_threshold_is_not_recognised() -> None:
    layer = Layer(np.ones((1, 1, 1)), np.ones((1, 1, 1)), threshold=2.0)
    np.testing.assert_array_equal(layer.recognise(np.array([[1.0], [2.0]])), [[False, False], [False, True]])


def test_sum_equals_one_concatenated_head() -> None:
    many, x = random_layer("sum"), np.random.default_rng(1).standard_normal((4, 5))
    one = Layer(np.concatenate(many.query, axis=1)[None], np.concatenate(many.key, axis=1)[None], 0.3, rule="sum")
    assert (one.heads, one.key_budget) == (1, many.key_budget)
    np.testing.assert_allclose(one.scores(x), many.scores(x), rtol=1e-12)
    # one head leaves nothing to join: the maximum over it is the sum over it
    np.testing.assert_allclose(Layer(one.query, one.key, 0.3, rule="max").scores(x), many.scores(x), rtol=1e-12)


@pytest.mark.parametrize(
    ("query", "key", "threshold", "rule", "says"),
    [
        (np.ones((1, 2, 3)), np.ones((1, 2, 4)), 0.0, "max", "key_heads, d_model, key_width"),
        (np.ones((1, 2, 3)), np.ones((2, 3)), 0.0, "max", "key_heads, d_model, key_width"),
        (np.ones((4, 2, 3)), np.ones((3, 2, 3)), 0.0, "max", "4 heads cannot share 3 key heads evenly"),
        (np.ones((2, 2, 3)), np.ones((4, 2, 3)), 0.0, "max", "2 heads cannot share 4 key heads evenly"),
        (np.ones((2, 2, 3)), np.ones((0, 2, 3)), 0.0, "max", "at least 1"),
        (np.ones((0, 2, 3)), np.ones((0, 2, 3)), 0.0, "max", "at least 1"),
        (np.full((1, 2, 3), np.nan), np.ones((1, 2, 3)), 0.0, "max", "NaN"),
        (np.ones((1, 2, 3)), np.ones((1, 2, 3)), math.inf, "max", "finite"),
    ],
)
def test_a_malformed_layer_says_why(query: np.ndarray, key: np.ndarray, threshold: float, rule: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Layer(query, key, threshold, rule)


def test_weights_are_read_only() -> None:
    layer = random_layer("max")
    with pytest.raises(ValueError, match="read-only"):
        layer.query[0, 0, 0] = 1.0


def test_the_degrees_of_freedom_are_the_rank_of_the_derivative() -> None:
    """How many directions the scores of all heads can move in, counted from the weights' derivatives."""
    rng = np.random.default_rng(0)
    for heads, key_heads, width in ((2, 2, 2), (4, 2, 2), (3, 1, 4), (2, 1, 6)):
        query, key = (rng.standard_normal((number, 5, width)) for number in (heads, key_heads))
        columns = []
        for which, weights in enumerate((query, key)):
            for place in np.ndindex(weights.shape):
                moved = np.zeros_like(weights)
                moved[place] = 1.0
                parts = (moved, key) if which == 0 else (query, moved)
                columns.append([parts[0][k] @ parts[1][k * key_heads // heads].T for k in range(heads)])
        rank = np.linalg.matrix_rank(np.array(columns).reshape(len(columns), -1))
        layer = Layer(query, key, 0.0)
        assert (layer.freedom, layer.weights) == (rank, len(columns))
        assert (layer.query_budget, layer.key_budget) == (heads * width, key_heads * width)
