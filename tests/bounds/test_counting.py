"""How many graphs there are, against enumeration and high precision."""

from __future__ import annotations

from itertools import combinations, permutations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import InputError
from manyheads.bounds import ln_binomial, ln_graphs, ln_permutations


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("loops", [False, True])
def test_graphs_counted_one_by_one(items: int, loops: bool) -> None:
    """Every set of ordered pairs for m ≤ 4; for m = 5 up to four relations, and their complements."""
    pairs = [pair for pair in product(range(items), repeat=2) if loops or pair[0] != pair[1]]
    most = len(pairs) if items <= 4 else 4
    for relations in range(most + 1):
        count = sum(1 for _ in combinations(pairs, relations))
        assert np.exp(ln_graphs(items=items, relations=relations, loops=loops)) == pytest.approx(count, rel=1e-13)
        assert np.exp(ln_graphs(items=items, relations=len(pairs) - relations, loops=loops)) == pytest.approx(
            count, rel=1e-13
        )


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5])
def test_permutations_counted_one_by_one(items: int) -> None:
    assert np.exp(ln_permutations(items)) == pytest.approx(sum(1 for _ in permutations(range(items))), rel=1e-13)


def exactly(n: int, k: int) -> float:
    with mpmath.workdps(60):
        return float(mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1))


@pytest.mark.parametrize(
    ("items", "relations"),
    [
        *((10, 31), (10, 32), (10, 33), (100, 100), (512, 4096), (49152, 49152), (2**31 - 1, 1)),
        *((10**5, 10**9), (10**9, 10**9), (40_000, 10**9), (40_000, 799_980_000), (40_000, 1_599_959_960)),
    ],
)
def test_graphs_to_the_last_digits(items: int, relations: int) -> None:
    assert float(ln_graphs(items=items, relations=relations)) == pytest.approx(
        exactly(items * (items - 1), relations), rel=1e-14
    )


@settings(max_examples=200, deadline=None)
@given(n=st.integers(0, 10**12), share=st.floats(0, 1))
def test_binomials_to_the_last_digits(n: int, share: float) -> None:
    k = min(n, round(n * share))
    assert float(ln_binomial(n=n, k=k)) == pytest.approx(exactly(n, k), rel=2e-14, abs=1e-14)


def test_arrays_broadcast() -> None:
    table = ln_graphs(items=np.array([[10], [20]]), relations=np.array([0, 5, 90]))
    assert table.shape == (2, 3)
    assert float(table[1, 2]) == float(ln_graphs(items=20, relations=90))
    assert table[0, 0] == table[0, 2] == 0.0


def test_what_cannot_be_counted() -> None:
    with pytest.raises(InputError, match="13 relations do not fit into 12 ordered pairs"):
        ln_graphs(items=4, relations=13)
    with pytest.raises(InputError, match="-1 relations do not fit"):
        ln_graphs(items=4, relations=-1)
    with pytest.raises(InputError, match="1 to 2\\^31"):
        ln_graphs(items=0, relations=0)
    with pytest.raises(InputError, match="whole numbers"):
        ln_graphs(items=4.5, relations=1)
