"""Under max, many heads skip positions where they win no pair: the bits are those of the sums over all positions."""

from __future__ import annotations

import numpy as np
import pytest
from support.runs import changed, make_run

from manyheads.training.data import Stream, initial_weights, training_data
from manyheads.training.engines import native_kernel

# (heads, key_heads, copies, key_width, d_model, context): at most 11 heads, and with their copies at least 12
COPIED = [
    (6, 6, 3, 7, 16, 16),
    (8, 8, 8, 5, 16, 16),
    (8, 2, 3, 9, 12, 16),
    (10, 10, 3, 2, 75, 16),
    (7, 7, 2, 17, 40, 11),
    (3, 1, 9, 4, 5, 32),
]


@pytest.mark.parametrize("shape", COPIED, ids=str)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_heads_that_win_nothing_change_no_bit(shape: tuple[int, ...], precision: str) -> None:
    """Copies of a few heads never win, as a tie goes to the first. Only with them the kernel skips."""
    heads, key_heads, copies, key_width, d_model, context = shape
    few = make_run(64, d_model, heads, key_width, seed=3, context=context, precision=precision, key_heads=key_heads)
    many, problem = changed(few, heads=copies * heads, key_heads=copies * key_heads), training_data(few)
    query, key = initial_weights(few)
    of_few, of_many = native_kernel(few, problem), native_kernel(many, problem)
    of_few.set_weights(query, key, 0.07)
    of_many.set_weights(np.tile(query, (copies, 1, 1)), np.tile(key, (copies, 1, 1)), 0.07)
    for row in problem.contexts(Stream.VALIDATION, 0, 20):
        loss, by_query, by_key, by_threshold = of_few.gradient(row)
        many_loss, by_many_query, by_many_key, by_many_threshold = of_many.gradient(row)
        assert (loss, by_threshold) == (many_loss, by_many_threshold)
        np.testing.assert_array_equal(by_query, by_many_query[:heads])
        np.testing.assert_array_equal(by_key, by_many_key[:key_heads])
        assert not by_many_query[heads:].any()
        assert not by_many_key[key_heads:].any()
    np.testing.assert_array_equal(of_few.advance(1), of_many.advance(1))
    for weights, many_weights in zip(of_few.weights()[:2], of_many.weights()[:2], strict=True):
        np.testing.assert_array_equal(weights, many_weights[: len(weights)])
    if key_heads == heads:  # the copies have not moved, and may win from here on
        np.testing.assert_array_equal(of_many.weights()[0][heads : 2 * heads], query.astype(precision))
