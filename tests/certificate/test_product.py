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


def test_products_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 30), (30, 37)))
    out = np.empty((40, 37), dtype=np.float32)
    multiply(left, right, out)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert (np.abs(out - exact) <= 31 * 2.0**-24 * (np.abs(left) @ np.abs(right))).all()


def test_an_output_of_another_precision_is_refused() -> None:
    """A converted copy of it would be filled and lost."""
    left, right = np.ones((2, 3), dtype=np.float32), np.ones((3, 5), dtype=np.float32)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        multiply(left, right, np.empty((2, 5), dtype=np.int64))


@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
def test_empty_products(rows: int, inner: int, columns: int) -> None:
    out = np.ones((rows, columns))
    multiply(np.ones((rows, inner)), np.ones((inner, columns)), out)
    assert (out == (inner > 0) * 3).all()


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
