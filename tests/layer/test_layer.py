"""Layer: its rules on one context, against the formulas written out for one pair at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from manyheads import InputError, Layer
from manyheads.layer.rules import RULES


def random_layer(rule: str, *, heads: int = 3, d_model: int = 5, key_width: int = 2, seed: int = 0) -> Layer:
    rng = np.random.default_rng(seed)
    query, key = rng.standard_normal((2, heads, d_model, key_width))
    return Layer(query, key, threshold=0.3, rule=rule)


def one_score(layer: Layer, x: np.ndarray, p: int, q: int) -> float:
    def raw(k: int, j: int) -> float:
        return float((x[p] @ layer.query[k]) @ (x[j] @ layer.key[k]))

    heads = range(layer.heads)
    if layer.rule.name == "max":
        return max(raw(k, q) for k in heads)
    if layer.rule.name == "sum":
        return sum(raw(k, q) for k in heads)
    if layer.rule.name == "logsumexp":
        return math.log(sum(math.exp(raw(k, q)) for k in heads))
    root = math.sqrt(layer.key_width)
    return sum(math.exp(raw(k, q) / root) / sum(math.exp(raw(k, t) / root) for t in range(len(x))) for k in heads)


@pytest.mark.parametrize("rule", list(RULES))
def test_scores_follow_the_formula(rule: str) -> None:
    layer, x = random_layer(rule), np.random.default_rng(1).standard_normal((4, 5))
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
        (np.ones((1, 2, 3)), np.ones((1, 2, 4)), 0.0, "max", "alike"),
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
