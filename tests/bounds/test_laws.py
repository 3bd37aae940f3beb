"""Laws, shapes and inverse questions against high precision, simulation and the check values."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyheads import InputError
from manyheads.bounds import (
    Shape,
    constraint_positives,
    constraint_share,
    family_key_budget,
    freedom_key_width,
    freedom_needed,
    freedom_split,
    graph_bit_key_budget,
    inverse,
    ln_graphs,
    margin_key_budget,
    neighbours,
    paper_heads,
    paper_key_budget,
)
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE

SIZES = st.integers(3, 2000)
D_MODELS = st.integers(1, 512)


# --- laws


def test_the_check_values() -> None:
    """docs/reference/laws.md, section 6."""
    assert [round(float(m * m * constraint_share(1 / m))) for m in (32, 64, 128, 256, 512)] == [
        122,
        297,
        708,
        1654,
        3808,
    ]
    powers = [1, 2, 4, 8, 16, 32]
    problems = ((64, 16), (128, 32), (256, 32), (512, 64))
    splits = [freedom_split(items=m, relations=m, d_model=d, heads=powers) for m, d in problems]
    assert [split and (split[0] * split[1], split[0]) for split in splits] == [(16, 2), (15, 1), (44, 4), (42, 2)]
    splits = [freedom_split(items=m, relations=m, d_model=d) for m, d in ((64, 16), (256, 32))]
    assert [split and (split[0] * split[1], split[0]) for split in splits] == [(15, 3), (42, 3)]
    assert [round(np.sqrt(float(freedom_needed(items=m, relations=m, heads=1))), 2) for m in (32, 48, 64)] == [
        11.05,
        14.36,
        17.24,
    ]


FRACTIONS = st.one_of(  # both ends of (0, 1), and between
    st.floats(-14.0, np.log10(0.5)).map(lambda power: 10.0**power),
    st.floats(-14.0, np.log10(0.5)).map(lambda power: 1.0 - 10.0**power),
    st.floats(1e-14, 1 - 1e-14),
)


@given(f=FRACTIONS)
@example(f=1e-14)
@example(f=1 - 1e-14)
@example(f=0.5)
@example(f=0.5 - 1e-15)
@settings(max_examples=40, deadline=None)
def test_the_constraint_share_in_high_precision(f: float) -> None:
    with mpmath.workdps(40):
        t = _best_threshold(mpmath.mpf(f))
        exact = mpmath.mpf(f) * _square(t) + (1 - mpmath.mpf(f)) * _square(-t)
        assert abs(float(constraint_share(f)) / exact - 1) < 1e-12


@given(share=st.floats(-13.5, np.log10(0.5)).map(lambda power: 10.0**power))
@example(share=0.5 - 1e-15)
@example(share=0.25)
@example(share=1e-13)
@settings(max_examples=40, deadline=None)
def test_the_inverse_of_the_constraint_share_in_high_precision(share: float) -> None:
    """f and g* both fall as the best threshold t grows from 0: t is found by halving, f follows from it."""
    with mpmath.workdps(40):
        low, high = mpmath.mpf(0), mpmath.mpf(10)
        for _ in range(120):
            t = (low + high) / 2
            f = _ramp(-t) / (_ramp(t) + _ramp(-t))
            low, high = (t, high) if f * _square(t) + (1 - f) * _square(-t) > share else (low, t)
        assert abs(float(constraint_positives(share)) / f - 1) < 1e-12


def test_the_constraint_share_of_an_array_is_that_of_its_numbers() -> None:
    fractions = np.geomspace(1e-14, 0.9, 60).reshape(6, 10)
    shares = constraint_share(fractions)
    assert shares.shape == (6, 10)
    np.testing.assert_allclose(shares.ravel(), [float(constraint_share(f)) for f in fractions.flat], rtol=1e-14)
    np.testing.assert_allclose(constraint_positives(shares), np.minimum(fractions, 1 - fractions), rtol=1e-11)
    assert constraint_positives([0.5, 0.7, 3.0]).tolist() == [0.5, 0.5, 0.5]


def test_numbers_beyond_every_use_stay_finite() -> None:
    """The smallest number of float64, and a share for which even that is too large a fraction."""
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert 0 < float(constraint_share(5e-324)) < 1e-300
        assert 0 < float(constraint_positives(5e-324)) < 1e-300


def _best_threshold(f: mpmath.mpf) -> mpmath.mpf:
    low, high = mpmath.mpf(-10), mpmath.mpf(10)
    for _ in range(120):
        t = (low + high) / 2
        low, high = (t, high) if f * _ramp(t) < (1 - f) * _ramp(-t) else (low, t)
    return t


def _square(t: mpmath.mpf) -> mpmath.mpf:
    return (1 + t * t) * mpmath.ncdf(t) + t * mpmath.npdf(t)


def _ramp(t: mpmath.mpf) -> mpmath.mpf:
    return t * mpmath.ncdf(t) + mpmath.npdf(t)


def test_the_constraint_share_is_what_a_random_perceptron_needs() -> None:
    """Its definition by simulation: the least mean squared violation over thresholds, labels with rate f."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200_000)
    for f in (0.5, 0.1, 0.01):
        grid = np.linspace(-3, 4, 71)
        cost = [f * (np.maximum(t + z, 0) ** 2).mean() + (1 - f) * (np.maximum(-t + z, 0) ** 2).mean() for t in grid]
        assert float(constraint_share(f)) == pytest.approx(min(cost), rel=0.01)


@given(items=st.integers(16, 500), d_model=st.integers(8, 128), heads=st.integers(1, 8), degree=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_the_key_width_is_the_smallest_with_freedom_enough(items: int, d_model: int, heads: int, degree: int) -> None:
    width = freedom_key_width(items=items, relations=degree * items, d_model=d_model, heads=heads)
    needed = float(freedom_needed(items=items, relations=degree * items, heads=heads))
    if width is None:
        assert d_model**2 < needed
    else:
        assert 2 * d_model * width - width**2 >= needed
        assert width == 1 or 2 * d_model * (width - 1) - (width - 1) ** 2 < needed


def test_the_papers_laws() -> None:
    assert float(paper_key_budget(items=512, relations=512, d_model=64, slope=PERMUTATION_SLOPE)) == pytest.approx(
        1.19 * 512 * 9 / 64
    )
    assert float(paper_key_budget(items=128, relations=512, d_model=32, slope=RELATION_SLOPE)) == pytest.approx(
        0.46 * 512 * 7 / 32
    )
    assert float(paper_heads(items=512, d_model=64)) == pytest.approx(1.65 * 8 - 6.64)
    assert float(paper_heads(items=64, d_model=64)) == 1.0


# --- shapes and cost


def test_the_freedom_of_shared_keys_is_the_rank_of_the_map_from_weights_to_forms() -> None:
    """The Jacobian of (W_Q, W_K) ↦ all forms W_Q W_Kᵀ of a group at a random point has this rank."""
    rng = np.random.default_rng(0)
    for d, width, sharing in ((5, 2, 1), (5, 2, 3), (4, 3, 2), (6, 1, 4)):
        queries, key = rng.standard_normal((sharing, d, width)), rng.standard_normal((d, width))
        columns = []
        for index in np.ndindex(sharing, d, width):
            step = np.zeros_like(queries)
            step[index] = 1
            columns.append((step @ key.T).ravel())
        for index in np.ndindex(d, width):
            step = np.zeros_like(key)
            step[index] = 1
            columns.append((queries @ step.T).ravel())
        rank = np.linalg.matrix_rank(np.array(columns))
        assert Shape(d_model=d, heads=sharing, key_width=width, key_heads=1).freedom * sharing == pytest.approx(rank)


def test_cost_counts_every_multiplication() -> None:
    shape, length = Shape(d_model=6, heads=4, key_width=3, key_heads=2), 5
    assert (shape.query_budget, shape.key_budget) == (12, 6)
    assert shape.parameters == 6 * 12 + 6 * 6
    assert shape.multiply_adds(length) == length * 6 * (12 + 6) + 4 * length * length * 3
    assert Shape(d_model=6, heads=4, key_width=3).parameters == 2 * 6 * 12  # D_Q + D_K is twice D_K
    with pytest.raises(InputError, match="4 heads cannot share 3 key heads evenly"):
        Shape(d_model=6, heads=4, key_width=3, key_heads=3)
    with pytest.raises(InputError, match="d_model is a whole number from 1"):
        Shape(d_model=0, heads=4, key_width=3)


def test_the_neighbours() -> None:
    values = [
        (one.work.split()[0], one.value)
        for one in neighbours(Shape(d_model=64, heads=4, key_width=8), context_length=16)
    ]
    assert values == [
        ("Bhojanapalli", 16),
        ("Likhosherstov", np.log(16)),
        ("Mahdavi", 4 * 8),
        ("Kajitsuka", 4096.0**2),
        ("Zhong", 8),
        ("Zhong", pytest.approx(np.exp(4))),
        ("Allen-Zhu", 8192),
    ]


# --- inverse questions: each is the largest, or smallest, at which the forward law holds


@given(items=st.integers(4, 3000), d_model=st.integers(2, 256), heads=st.integers(1, 16), width=st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_relations_that_fit(items: int, d_model: int, heads: int, width: int) -> None:
    shape, half = Shape(d_model=d_model, heads=heads, key_width=width), items * (items - 1) // 2
    by_bits = inverse.relations_by_bits(shape, items=items, bits=8.0)
    room = 8 * (shape.parameters + 1) * np.log(2)
    assert float(ln_graphs(items=items, relations=min(by_bits, half))) <= room
    assert by_bits == 2 * half or float(ln_graphs(items=items, relations=by_bits + 1)) > room
    by_freedom = inverse.relations_by_freedom(shape, items=items)
    assert by_freedom == 0 or float(freedom_needed(items=items, relations=by_freedom, heads=heads)) <= shape.freedom
    assert (
        by_freedom == half or float(freedom_needed(items=items, relations=by_freedom + 1, heads=heads)) > shape.freedom
    )
    by_paper = inverse.relations_by_paper(shape, items=items)
    assert (
        by_paper == 0
        or float(paper_key_budget(items=items, relations=by_paper, d_model=d_model, slope=RELATION_SLOPE))
        <= heads * width
    )


@given(items=st.integers(8, 200), degree=st.integers(1, 3), budget=st.integers(1, 100))
@settings(max_examples=10, deadline=None)
def test_the_d_model_that_is_needed(items: int, degree: int, budget: int) -> None:
    relations = items * degree
    d = inverse.d_model_by_bits(items=items, relations=relations, key_budget=budget, bits=4.0)
    assert float(graph_bit_key_budget(items=items, relations=relations, d_model=d, bits=4)) <= budget
    assert d == 1 or float(graph_bit_key_budget(items=items, relations=relations, d_model=d - 1, bits=4)) > budget
    d_free = inverse.d_model_by_freedom(items=items, relations=relations, key_budget=budget)
    heads = range(1, budget + 1)  # more do not fit
    assert d_free is not None
    split = freedom_split(items=items, relations=relations, d_model=d_free, heads=heads)
    assert split is not None
    assert split[0] * split[1] <= budget
    fewer = freedom_split(items=items, relations=relations, d_model=d_free - 1, heads=heads) if d_free > 1 else None
    assert fewer is None or fewer[0] * fewer[1] > budget
    d_paper = inverse.d_model_by_paper(items=items, relations=relations, key_budget=budget, slope=RELATION_SLOPE)
    assert float(paper_key_budget(items=items, relations=relations, d_model=d_paper, slope=RELATION_SLOPE)) <= budget


@settings(max_examples=40, deadline=None)
@given(data=st.data(), items=st.integers(2, 60), budget=st.integers(1, 300))
def test_few_head_counts_answer_for_all(data: st.DataObject, items: int, budget: int) -> None:
    relations = data.draw(st.integers(1, items * (items - 1)))  # dense ones too, where one head may need least
    tried: list[int] = []

    def counted(*, heads: Sequence[int], **sizes: int) -> tuple[int, int] | None:
        tried.append(len(heads))
        return freedom_split(**sizes, heads=heads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inverse, "freedom_split", counted)
        found = inverse.d_model_by_freedom(items=items, relations=relations, key_budget=budget)
    assert max(tried) <= 2 * budget**0.5
    assert found is not None

    def enough(d_model: int) -> bool:
        split = freedom_split(items=items, relations=relations, d_model=d_model, heads=range(1, budget + 1))
        return split is not None and split[0] * split[1] <= budget

    assert enough(found)
    assert found == 1 or not enough(found - 1)


def test_bad_arguments_are_a_sentence() -> None:
    for call, says in (
        (lambda: family_key_budget(1.0, d_model=0, bits=16), "d_model must be positive, not 0"),
        (lambda: family_key_budget(1.0, d_model=4, bits=-1), "bits must be positive, not -1"),
        (lambda: margin_key_budget(1.0, d_model=4, margin=0.0), "margin must be positive, not 0"),
        (lambda: constraint_share(1.0), "lies between 0 and 1, not at 1"),
        (
            lambda: inverse.relations_by_bits(Shape(d_model=4, heads=1, key_width=1), items=1),
            "between at least 2 items, not 1",
        ),
    ):
        with pytest.raises(InputError, match=says):
            call()
