"""Embeddings: what each family promises of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from manyheads import InputError, gaussian, one_hot, sparse_binary


def test_one_hot_is_the_identity() -> None:
    np.testing.assert_array_equal(one_hot(4), np.eye(4))
    assert one_hot(4).dtype == np.float32


def test_gaussian_rows_are_uniform_on_the_sphere() -> None:
    rows = gaussian(20_000, 5, seed=0)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    # the moments of a uniform direction: mean 0, covariance I/d, fourth moment 3/(d(d + 2))
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=0.015)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(5) / 5, atol=0.01)
    np.testing.assert_allclose((rows**4).mean(axis=0), 3 / 35, atol=0.005)


@pytest.mark.parametrize("density", [0.01, 0.2, 1.0])
def test_sparse_binary_rows_are_bernoulli_given_that_they_are_not_zero(density: float) -> None:
    items, d_model = 4000, 60
    rows = sparse_binary(items, d_model, density=density, seed=0)
    assert (rows.shape, rows.dtype) == ((items, d_model), np.dtype(np.float32))
    assert set(np.unique(rows)) <= {0, 1}
    assert rows.any(axis=1).all()
    not_zero = 1 - (1 - density) ** d_model
    assert rows.mean() == pytest.approx(density / not_zero, rel=0.03)
    np.testing.assert_allclose(rows.mean(axis=0), density / not_zero, atol=5 * math.sqrt(density / items))


@pytest.mark.parametrize(
    ("items", "d_model", "density"), [(2000, 100, math.log(2000) / 100), (2000, 12, 0.5), (2, 40, 1 / 40)]
)
def test_the_default_density_is_logarithmic(items: int, d_model: int, density: float) -> None:
    np.testing.assert_array_equal(
        sparse_binary(items, d_model, seed=3), sparse_binary(items, d_model, density=density, seed=3)
    )


def test_the_seed_decides() -> None:
    for family in (gaussian, sparse_binary):
        np.testing.assert_array_equal(family(8, 30, seed=1), family(8, 30, seed=1))
        assert (family(8, 30, seed=1) != family(8, 30, seed=2)).any()


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: one_hot(0),
        lambda: gaussian(0, 4, seed=0),
        lambda: gaussian(4, 0, seed=0),
        lambda: sparse_binary(4, 0, seed=0),
        lambda: sparse_binary(4, 8, density=0.0, seed=0),
        lambda: sparse_binary(4, 8, density=1.1, seed=0),
        lambda: sparse_binary(4, 8, density=math.nan, seed=0),
    ],
)
def test_an_impossible_embedding_is_refused(impossible: Callable[[], np.ndarray]) -> None:
    with pytest.raises(InputError):
        impossible()
