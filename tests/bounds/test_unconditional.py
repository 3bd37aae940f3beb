"""The bound without bits or margin: against high precision, exact counts, samples, and certified layers."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.linear_programme import one_head_holds

from manyheads import Graph, InputError, Layer
from manyheads.bounds import (
    Shape,
    ln_graphs,
    ln_permutations,
    log2_labellings,
    log2_share,
    unconditional,
    unconditional_key_budget,
)
from manyheads.bounds.inverse import relations_by_labellings

FLOOR = Path(__file__).parents[2] / "docs" / "data" / "capacity_floor.csv"
SIZES = {
    "items": st.integers(1, 3000),
    "d_model": st.integers(1, 600),
    "heads": st.integers(1, 64),
    "key_width": st.integers(1, 80),
}


def exactly(items: int, d_model: int, heads: int, key_width: int) -> float:
    """Warren's count to sixty digits, from its statement: N polynomials of degree k in p variables."""
    with mpmath.workdps(60):
        rank = min(key_width, d_model)
        polynomials, degree = heads * items**2, 2
        variables = heads * (2 * d_model * rank - rank**2) + 1
        if variables > polynomials:
            return float(items**2)
        patterns = (4 * mpmath.e * degree * polynomials / mpmath.mpf(variables)) ** variables
        return float(min(mpmath.mpf(items**2), mpmath.log(patterns, 2)))


@settings(max_examples=200, deadline=None)
@given(**SIZES)
def test_the_count_to_the_last_digits(items: int, d_model: int, heads: int, key_width: int) -> None:
    sizes = {"items": items, "d_model": d_model, "heads": heads, "key_width": key_width}
    assert float(log2_labellings(**sizes)) == pytest.approx(exactly(**sizes), rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(**SIZES, name=st.sampled_from(sorted(SIZES)))
def test_more_of_any_size_holds_more(items: int, d_model: int, heads: int, key_width: int, name: str) -> None:
    sizes = {"items": items, "d_model": d_model, "heads": heads, "key_width": key_width}
    more = sizes | {name: sizes[name] + 1}
    assert float(log2_labellings(**more)) >= float(log2_labellings(**sizes)) * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(items=st.integers(2, 400), d_model=st.integers(1, 64), share=st.floats(0, 0.5))
def test_the_key_budget_grows_with_relations_and_falls_with_d_model(items: int, d_model: int, share: float) -> None:
    most = items * (items - 1) // 2
    fewer, more = (float(ln_graphs(items=items, relations=k)) for k in (int(share * most), int(share * most) + 1))
    here = unconditional_key_budget(fewer, items=items, d_model=d_model)
    assert here <= unconditional_key_budget(more, items=items, d_model=d_model)
    assert here >= unconditional_key_budget(fewer, items=items, d_model=d_model + 1)


@settings(max_examples=60, deadline=None)
@given(items=st.integers(2, 300), d_model=st.integers(1, 64), key_width=st.integers(1, 70))
def test_the_key_budget_is_the_least_over_every_split(items: int, d_model: int, key_width: int) -> None:
    """One dimension less is too little for heads of width 1, and no other split holds more."""
    family = float(ln_permutations(items))
    least = unconditional_key_budget(family, items=items, d_model=d_model)
    assert log2_share(family, items=items, d_model=d_model, heads=least, key_width=1) == 0
    if least > 1:
        heads = max(1, (least - 1) // key_width)
        if heads * key_width < least:
            assert log2_share(family, items=items, d_model=d_model, heads=heads, key_width=key_width) < 0


def test_the_table_of_the_laws() -> None:
    table = {(128, 16): 2, (256, 16): 4, (512, 16): 8, (256, 32): 2, (1024, 128): 3, (4096, 512): 3}
    for (items, d_model), least in table.items():
        assert unconditional_key_budget(float(ln_permutations(items)), items=items, d_model=d_model) == least


def test_independent_rows_hold_every_graph() -> None:
    """Over m ≤ d independent rows one head of full width holds all 2^(m²) graphs: the bound must allow them."""
    for items, d_model in ((2, 2), (3, 3), (5, 5), (5, 9), (40, 40)):
        assert float(log2_labellings(items=items, d_model=d_model, heads=1, key_width=d_model)) == items**2


def test_every_graph_that_one_full_head_holds_is_counted() -> None:
    """Every graph of 3 items, decided by an exact linear programme; d_model 1 holds few, 2 more, 3 all."""
    pairs = list(product(range(3), repeat=2))
    counts = []
    for d_model in (1, 2, 3):
        rows = np.random.default_rng(d_model).integers(-9, 10, size=(3, d_model)).astype(float)
        held = 0
        for labels in product((False, True), repeat=9):
            ends = np.array([pair for pair, label in zip(pairs, labels, strict=True) if label]).reshape(-1, 2)
            held += one_head_holds(Graph(3, *ends.astype(int).T), rows)
        counts.append(held)
        assert np.log2(held) <= float(log2_labellings(items=3, d_model=d_model, heads=1, key_width=d_model))
    assert counts == sorted(counts)
    assert counts[-1] == 2**9


def test_every_cell_of_one_dimension_is_counted() -> None:
    """With d_model 1 the weights are a line a and a threshold: each distinct product x_i·x_j separates two cells."""
    for items in (3, 4, 6, 12):
        x = np.random.default_rng(items).standard_normal(items)
        cells = 2 * len(np.unique(np.outer(x, x)))  # a central arrangement of distinct lines in the plane
        bound = float(log2_labellings(items=items, d_model=1, heads=1, key_width=1))
        assert np.log2(cells) <= bound
        if items > 3:
            assert bound < items**2  # the bound says something


@pytest.mark.parametrize(
    ("heads", "key_heads", "d_model", "key_width"),
    [(1, 1, 2, 1), (2, 2, 1, 1), (1, 1, 2, 2), (2, 2, 2, 1), (2, 1, 2, 1)],
)
def test_sampled_layers_are_counted(heads: int, key_heads: int, d_model: int, key_width: int) -> None:
    """Different graphs that 2,000 random layers hold over the same 6 rows, against the bound."""
    rng, seen = np.random.default_rng(0), set()
    x = rng.standard_normal((6, d_model))
    for _ in range(2_000):
        query = rng.standard_normal((heads, d_model, key_width))
        key = rng.standard_normal((key_heads, d_model, key_width))
        seen.add(Layer(query, key, float(rng.standard_normal()), "max").recognise(x).tobytes())
    shape = {"d_model": d_model, "heads": heads, "key_width": key_width, "key_heads": key_heads}
    bound = float(log2_labellings(items=6, **shape))
    assert log2_share(0.0, items=6, **shape) == min(0.0, bound)  # a family of one graph
    assert float(log2_share(1e3, items=6, **shape)) == pytest.approx(bound - 1e3 / np.log(2))
    assert 5 < np.log2(len(seen)) <= bound


def test_no_certified_layer_is_smaller_than_the_bound() -> None:
    """The smallest layers that were ever certified here; a graph below 2^−40 of its family would refute the theorem."""
    with FLOOR.open() as file:
        rows = [row for row in csv.DictReader(file) if row["key_budget"] and row["degree"] == "1"]
    assert len(rows) > 50
    for row in rows:
        items, d_model, heads, width = (int(row[name]) for name in ("items", "d_model", "heads", "key_width"))
        assert log2_share(ln_permutations(items), items=items, d_model=d_model, heads=heads, key_width=width) > -40


def test_shared_keys_hold_no_more() -> None:
    sizes = {"items": 200, "d_model": 16, "heads": 8, "key_width": 2}
    held = [float(log2_labellings(**sizes, key_heads=groups)) for groups in (1, 2, 4, 8)]
    assert held == sorted(held)
    assert held[-1] == float(log2_labellings(**sizes))
    shape = Shape(d_model=16, heads=8, key_width=2, key_heads=2)
    variables = 8 * shape.freedom + 1
    assert held[1] == pytest.approx(variables * np.log2(8 * np.e * 8 * 200**2 / variables))


def test_relations_beyond_which_a_shape_fails() -> None:
    shape = Shape(d_model=16, heads=2, key_width=4)
    most = relations_by_labellings(shape, items=512)
    sizes = {"items": 512, "d_model": 16, "heads": 2, "key_width": 4}
    assert unconditional(relations=most, **sizes) == 0
    assert unconditional(relations=most + 1, **sizes) < 0
    assert relations_by_labellings(Shape(d_model=64, heads=8, key_width=8), items=16) == 16 * 15


def test_sizes_that_are_none() -> None:
    with pytest.raises(InputError, match="heads must be positive, not 0"):
        log2_labellings(items=4, d_model=2, heads=0, key_width=1)
    with pytest.raises(InputError, match="key_width must be whole numbers"):
        log2_labellings(items=4, d_model=2, heads=1, key_width=1.5)
