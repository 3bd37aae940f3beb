"""Bounds on head counts against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import InputError
from manyheads.bounds.head_bounds import (
    is_covered,
    layers_for,
    memorising_width,
    retrieval_bounds,
    retrieval_exponent,
    retrieval_length,
)

DIMENSIONS, LENGTHS, WIDTHS = st.integers(2, 12), st.integers(1, 4096), st.integers(1, 64)


@st.composite
def short_of_heads(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """(D, T, s, n) with s < D."""
    dimension = draw(DIMENSIONS)
    return dimension, draw(LENGTHS), draw(st.integers(1, dimension - 1)), draw(WIDTHS)


@given(short_of_heads())
def test_the_exponent_is_the_papers(task: tuple[int, int, int, int]) -> None:
    D, T, s, n = task
    exact = (Fraction(T, 4) - s - D + 1) / ((n + 1) * s + 1) - 1
    wanted = mpmath.mpf(max(exact, Fraction(0)).numerator) / max(exact, Fraction(0)).denominator
    assert float(retrieval_exponent(dimension=D, length=T, heads=s, width=n)) == pytest.approx(
        float(wanted), rel=1e-14, abs=1e-14
    )


@given(short_of_heads())
def test_it_begins_to_speak_right_after_its_length(task: tuple[int, int, int, int]) -> None:
    D, _, s, n = task
    silent = int(retrieval_length(dimension=D, heads=s, width=n))
    assert retrieval_exponent(dimension=D, length=silent, heads=s, width=n) == 0
    assert retrieval_exponent(dimension=D, length=silent + 1, heads=s, width=n) > 0


@given(short_of_heads())
def test_it_grows_with_the_length_and_falls_with_heads_and_width(task: tuple[int, int, int, int]) -> None:
    D, T, s, n = task
    here = retrieval_exponent(dimension=D, length=T, heads=s, width=n)
    assert here <= retrieval_exponent(dimension=D, length=T + 4, heads=s, width=n)
    assert here >= retrieval_exponent(dimension=D + 1, length=T, heads=s + 1, width=n)
    assert here >= retrieval_exponent(dimension=D, length=T, heads=s, width=n + 1)


def test_by_hand() -> None:
    assert float(retrieval_exponent(dimension=4, length=128, heads=1, width=2)) == 28 / 4 - 1
    assert float(retrieval_exponent(dimension=4, length=128, heads=3, width=2)) == pytest.approx(1.6)
    assert (
        float(retrieval_exponent(dimension=4, length=128, heads=3, width=8)) == 0
    )  # 26/28 − 1: the paper's own setting
    assert int(memorising_width(length=128, input_width=4)) == 512
    assert [int(layers_for(dimension=4, heads=h)) for h in (1, 2, 3, 4, 5)] == [4, 2, 2, 1, 1]
    assert np.asarray(is_covered(subset=np.array([1, 2, 3]), length=9)).tolist() == [False, False, True]
    bounds = retrieval_bounds(dimension=4, length=9, input_width=3)
    assert (bounds.sufficient_heads, bounds.sufficient_width) == (4, 2)
    assert (bounds.memorising_width, bounds.least_subset) == (27, 3)
    assert [one.heads for one in retrieval_bounds(dimension=40, length=9).fewer] == [1, 2, 4, 8, 16, 32, 39]
    assert retrieval_bounds(dimension=1, length=9).fewer == ()


def test_as_many_heads_as_things_are_refused() -> None:
    with pytest.raises(InputError, match="fewer heads than D = 3"):
        retrieval_exponent(dimension=3, length=64, heads=3, width=2)
