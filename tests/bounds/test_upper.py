"""Upper bounds against their proofs' own quantities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import Layer, certify, gaussian, random_graph
from manyheads.bounds import (
    upper,
)
from manyheads.layer.rules import SOFTMAX
from manyheads.problem.problem import Problem

SIZES = st.integers(3, 2000)
D_MODELS = st.integers(1, 512)


# --- upper bounds


def test_one_head_for_each_relation_always_works() -> None:
    """The guarantee D_K = m', built and certified on crowded rows: 40 items in 3 dimensions."""
    graph, embedding = random_graph(40, 70, seed=3), gaussian(40, 3, seed=4)
    query = embedding[graph.sources][:, :, None].astype(np.float64)
    key = embedding[graph.targets][:, :, None].astype(np.float64)
    certificate = certify(Layer(query, key, threshold=0.0), Problem(graph, embedding))
    assert certificate.window[0] < certificate.window[1]
    layer = Layer(query, key, threshold=sum(certificate.window) / 2)
    assert certify(layer, Problem(graph, embedding)).holds
    assert layer.key_budget == float(upper.rank_one_key_budget(graph.relations))


@given(relations=st.integers(1, 10**9), degree=st.integers(1, 1000), block=st.integers(1, 10**4))
def test_the_lemma_counts_more_matchings_than_there_need_be(relations: int, degree: int, block: int) -> None:
    fewest = int(upper.matching_heads(relations=relations, max_degree=degree, matching_size=block))
    assert (
        fewest
        == max(degree, -(-relations // block))
        <= int(upper.lemma_heads(relations=relations, max_degree=degree, matching_size=block))
    )


@given(items=SIZES, degree=st.integers(1, 20), d_model=D_MODELS, constant=st.floats(1, 100))
def test_under_bounded_skew_the_corollary_is_the_theorem(
    items: int, degree: int, d_model: int, constant: float
) -> None:
    relations = items * degree
    budget = upper.general_key_budget(
        items=items, relations=relations, d_model=d_model, max_degree=degree, constant=constant
    )
    skew = bool(upper.is_bounded_skew(relations=relations, max_degree=degree, d_model=d_model))
    assert skew == (degree / (relations / items) <= items / d_model)
    corollary = upper.bounded_skew_key_budget(items=items, relations=relations, d_model=d_model, constant=constant)
    assert (float(budget) == float(corollary)) or not skew


@given(items=st.integers(3, 10**6), d_model=D_MODELS, exponent=st.floats(1, 2), degree=st.integers(1, 100))
def test_ln_m_and_ln_m_prime_are_the_same_up_to_two(items: int, d_model: int, exponent: float, degree: int) -> None:
    forms = upper.growth_forms(
        items=items, relations=max(items, int(items**exponent) - items), d_model=d_model, max_degree=degree
    )
    abstract, theorem = forms["abstract, (m'/d + Δ)·ln m'"], forms["Theorem B.9, (m'/d + Δ)·ln m"]
    assert theorem * (1 - 1e-12) <= abstract <= 2 * theorem
    assert forms["Corollary B.10 and v1, m'·ln m'/d"] <= abstract


@given(items=st.integers(3, 10**6), d_model=D_MODELS)
def test_many_heads_beat_one_by_m_over_d(items: int, d_model: int) -> None:
    """Sec. 5 and Eq. 19–22."""
    ratio = upper.single_head_key_budget(items=items, d_model=d_model) / upper.many_heads_key_budget(
        items=items, d_model=d_model
    )
    assert float(ratio) == pytest.approx(float(upper.head_advantage(items=items, d_model=d_model)))
    noise = upper.leakage_noise(
        matching_size=items,
        d_model=d_model,
        key_width=upper.leakage_key_width(matching_size=items, d_model=d_model, items=items),
        items=items,
    )
    assert float(noise) == pytest.approx(
        float(upper.leakage_key_width(matching_size=items, d_model=d_model, items=items))
    )  # N3 = d_k there
    one, many = (
        float(f(items=items, d_model=d_model, context_length=items))
        for f in (upper.single_head_key_budget, upper.many_heads_key_budget)
    )
    assert one / many >= float(upper.head_advantage(items=items, d_model=d_model, rule=SOFTMAX)) * (1 - 1e-12)


@given(items=st.integers(3, 10**6), gamma=st.floats(0.1, 5))
def test_the_softmax_width_leaves_m_to_the_minus_gamma(items: int, gamma: float) -> None:
    width = float(upper.softmax_key_width(items, gamma=gamma))
    assert (
        1 - float(upper.owner_share(context_length=items, gap=np.sqrt(width) / 2)) <= items**-gamma * (1 + 1e-9) + 1e-15
    )


def test_the_background_is_what_uniform_heads_leave() -> None:
    assert float(upper.background_share(heads=9, context_length=64)) == 0.125
    assert float(upper.background_deviation(heads=4, context_length=10, items=np.e, constant=2.0)) == pytest.approx(
        0.2 * (2 + 1)
    )


def test_construction_three_needs_a_head_of_logarithmic_width_for_each_block() -> None:
    """Theorem B.5: ⌈m/B⌉ heads of ⌈C·ln m⌉, here 7 heads of ⌈2·ln 100⌉ = 10."""
    assert upper.incoherent_key_budget(items=100, matching_size=16, constant=2.0) == 70
