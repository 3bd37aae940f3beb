"""The native matrix product behind certificates: every shape and stride, within the bound that certificates state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads._native import multiply
from manyheads.layer.rules import gamma


@given(
    rows=st.integers(1, 9),
    inner=st.sampled_from([1, 2, 7, 128, 129, 300]),
    columns=st.integers(1, 21),
    offset=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_of_any_shape(rows: int, inner: int, columns: int, offset: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((2 * rows, inner + 3))[::2, 1 : inner + 1]
    right = rng.standard_normal((inner, columns + 5))[:, offset : offset + columns]
    around = np.full((rows, columns + 4), np.nan)
    out = around[:, 2:-2]
    multiply(left, right, out)
    exact = left.astype(np.longdouble) @ right.astype(np.longdouble)
    assert (np.abs(out - exact) <= gamma(inner) * (np.abs(left) @ np.abs(right)) * (1 + 1e-9)).all()
    assert np.isnan(around[:, :2]).all()
    assert np.isnan(around[:, -2:]).all()


def test_what_is_not_finite_stays_so() -> None:
    left, right, out = np.array([[1.0, np.inf], [np.nan, 0.0]]), np.ones((2, 5)), np.empty((2, 5))
    multiply(left, right, out)
    assert np.isinf(out[0]).all()
    assert np.isnan(out[1]).all()


@pytest.mark.parametrize(
    ("left", "right", "out", "why"),
    [
        ((2, 3), (4, 5), (2, 5), "left has another width than right has rows"),
        ((2, 3), (3, 5), (2, 4), "out has another shape than the product"),
    ],
)
def test_shapes_that_do_not_fit(left: tuple[int, int], right: tuple[int, int], out: tuple[int, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        multiply(np.ones(left), np.ones(right), np.empty(out))


def test_rows_with_gaps() -> None:
    with pytest.raises(ValueError, match="the rows of right and out have gaps"):
        multiply(np.ones((2, 3)), np.ones((5, 3)).T, np.empty((2, 5)))
