"""Lower bounds, the regimes of Sec. 9 and the lemmas by name, against definitions, simulation and layers we build."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import InputError, Layer, certify, gaussian, random_graph
from manyheads.bounds import (
    bit_key_budget,
    family_key_budget,
    graph_bit_key_budget,
    ln_graphs,
    ln_permutations,
    margin_key_budget,
    regime,
    softmax_margin_key_budget,
    upper,
)
from manyheads.problem.problem import Problem

SIZES = st.integers(3, 2000)
D_MODELS = st.integers(1, 512)


# --- lower bounds


def test_the_bit_budget_counts_labellings() -> None:
    """With b bits in 2·d·D_K + 1 numbers, fewer than |𝒢| labellings below the bound, enough at it."""
    for items, relations, d_model, bits in product((3, 4), (1, 2, 5), (1, 2, 3), (1, 2, 8)):
        graphs = round(float(np.exp(ln_graphs(items=items, relations=relations))))
        bound = float(graph_bit_key_budget(items=items, relations=relations, d_model=d_model, bits=bits))
        enough = [D for D in np.arange(0, 12, 1 / (2 * d_model)) if 2 ** (bits * (2 * d_model * D + 1)) >= graphs]
        assert 0 <= min(enough) - bound <= 1 / (2 * d_model) + 1e-9


def test_the_bit_budget_as_a_whole_number() -> None:
    assert bit_key_budget(items=512, relations=512, d_model=16, bits=32, permutation=True) == 4
    for items, relations in ((64, 64), (300, 900)):
        exact = family_key_budget(ln_graphs(items=items, relations=relations, loops=True), d_model=8, bits=4)
        assert 0 <= bit_key_budget(items=items, relations=relations, d_model=8, bits=4) - float(exact) < 1
    with pytest.raises(InputError, match="3 items have between 0 and 9 relations, not 10"):
        bit_key_budget(items=3, relations=10, d_model=4, bits=16)


@given(items=SIZES, d_model=D_MODELS, bits=st.floats(1, 64), share=st.floats(0.0, 0.5))
def test_the_bit_budget_grows_with_relations_and_falls_with_width_and_bits(
    items: int, d_model: int, bits: float, share: float
) -> None:
    most = items * (items - 1) // 2
    fewer, more = int(share * most), min(most, int(share * most) + 1)
    both = np.array([fewer, more])
    budget = np.asarray(graph_bit_key_budget(items=items, relations=both, d_model=d_model, bits=bits))
    assert budget[0] <= budget[1]
    assert graph_bit_key_budget(items=items, relations=more, d_model=d_model + 1, bits=bits) <= budget[1]
    assert graph_bit_key_budget(items=items, relations=more, d_model=d_model, bits=2 * bits) <= budget[1]


@given(items=SIZES, d_model=D_MODELS, margin=st.floats(1e-6, 1.0))
def test_packing_is_the_better_argument(items: int, d_model: int, margin: float) -> None:
    family = ln_permutations(items)
    packed = margin_key_budget(family, d_model=d_model, margin=margin)
    covered = margin_key_budget(family, d_model=d_model, margin=margin, argument="covering")
    assert covered <= packed
    assert packed <= margin_key_budget(family, d_model=d_model, margin=2 * margin)  # a wider margin costs more


def test_the_margin_bound_by_hand() -> None:
    assert float(margin_key_budget(100.0, d_model=4, margin=0.5)) == pytest.approx((100 / np.log(7) - 1) / 8)
    assert float(margin_key_budget(100.0, d_model=4, margin=0.5, argument="covering")) == pytest.approx(
        (100 / np.log(17) - 1) / 8
    )
    assert float(margin_key_budget(0.1, d_model=4, margin=0.5)) == 0.0
    soft = softmax_margin_key_budget(100.0, d_model=4, heads=2, margin=0.5, query_norm=3.0, key_norm=2.0)
    assert float(soft) == pytest.approx((100 - np.log(7)) / (8 * np.log(19)))


def test_a_layer_we_build_obeys_the_margin_bound() -> None:
    """Its margin is small, so the bound asks for little; a layer below it would refute the theorem."""
    from manyheads.construct import calibrate, general

    graph, embedding = random_graph(24, 60, seed=0), gaussian(24, 64, seed=1)
    layer = general(Problem(graph, embedding), key_width=120, matching_size=8, seed=0)
    layer = calibrate(layer, certify(layer, Problem(graph, embedding)))
    certificate = certify(layer, Problem(graph, embedding))
    assert certificate.holds
    bound = margin_key_budget(
        ln_graphs(items=24, relations=60, loops=True), d_model=64, margin=certificate.normalised_margin
    )
    assert layer.key_budget >= float(bound)


# --- the regimes of Sec. 9, each against the exact bound


@given(items=st.integers(8, 10**6), d_model=D_MODELS)
def test_permutations_need_m_ln_m(items: int, d_model: int) -> None:
    where = regime(items=items, relations=items, d_model=d_model)
    assert where.name == "m' = m"
    exact = float(ln_graphs(items=items, relations=items)) / d_model
    assert 0.9 * where.growth * (1 - 1 / np.log(items)) <= exact <= where.growth + 1.01 * items / d_model


@given(items=st.integers(8, 10**4), density=st.floats(0.2, 0.5), d_model=D_MODELS)
def test_dense_graphs_need_m_prime(items: int, density: float, d_model: int) -> None:
    relations = int(density * items * (items - 1))
    where = regime(items=items, relations=relations, d_model=d_model, dense_above=0.15)
    assert where.name == "dense"
    exact = float(ln_graphs(items=items, relations=relations)) / d_model
    assert 0.69 * where.growth * 1.9 * 0.5 <= exact <= 2.7 * where.growth


@given(items=st.integers(64, 10**6), epsilon=st.floats(0.3, 0.9), d_model=D_MODELS)
def test_sparse_graphs_need_m_prime_ln_m(items: int, epsilon: float, d_model: int) -> None:
    """ε·m'·ln m ≲ ln C(N, m') ≤ m'·(ε·ln m + 1), so the form holds with the constant ε."""
    relations = int(items ** (2 - epsilon))
    where = regime(items=items, relations=relations, d_model=d_model, dense_above=0.5)
    assert where.name == "sparse"
    assert where.exponent is not None
    assert where.exponent == pytest.approx(epsilon, abs=0.01)
    exact = float(ln_graphs(items=items, relations=relations)) / d_model
    assert (
        where.exponent * where.growth * 0.97 <= exact <= (where.exponent + 1.02 / np.log(items)) * where.growth * 1.01
    )


# --- lemmas by name


@given(logits=st.lists(st.floats(-20, 20), min_size=2, max_size=30), lead=st.floats(0, 20), index=st.integers(0, 10**6))
def test_lemma_8_2_the_owner_gets_its_share(logits: list[float], lead: float, index: int) -> None:
    z = np.array(logits)
    star = index % len(z)
    z[star] = np.delete(z, star).max() + lead
    share = np.exp(z[star] - z.max()) / np.exp(z - z.max()).sum()
    assert share >= float(upper.owner_share(context_length=len(z), gap=lead)) * (1 - 1e-12)


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "uniform"])
def test_lemma_8_3_shares_average_one_over_l_with_tails_of_that_scale(draw: str) -> None:
    """‖p − 1/ℓ‖_ψ1 ≤ K/ℓ: over ℓ from 8 to 512, E exp(|p − 1/ℓ|·ℓ/K) ≤ 2 with one K."""
    rng = np.random.default_rng(0)
    draws: dict[str, Callable[..., np.ndarray]] = {
        "exponential": rng.exponential,
        "lognormal": lambda size: np.exp(0.5 * rng.standard_normal(size)),
        "uniform": rng.random,
    }
    for length in (8, 64, 512):
        z = draws[draw](size=(2_000_000 // length, length))
        p = z[:, 0] / z.sum(axis=1)
        assert p.mean() == pytest.approx(1 / length, rel=0.05)
        assert np.exp(np.abs(p - 1 / length) * length / 3.0).mean() <= 2


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), heads=st.integers(1, 4), width=st.integers(1, 4), size=st.floats(1e-3, 2.0))
@pytest.mark.parametrize("rule", ["max", "sum", "logsumexp", "softmax"])
def test_lemma_9_3_and_eq_29_scores_are_lipschitz(rule: str, seed: int, heads: int, width: int, size: float) -> None:
    """|ΔS| ≤ ‖ΔU‖ + ‖ΔV‖ under (26), and half of that for softmax on contexts of two."""
    rng = np.random.default_rng(seed)
    d_model = 5
    x = rng.standard_normal((2, d_model))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    U, V, step_u, step_v = rng.standard_normal((4, heads, d_model, width))

    def ball(W: np.ndarray) -> np.ndarray:
        return W / max(1.0, np.linalg.norm(W))

    U, V = U / np.linalg.norm(U), V / np.linalg.norm(V)
    moved_u, moved_v = ball(U + size * step_u), ball(V + size * step_v)
    before, after = (Layer(W, K, 0.0, rule).scores(x) for W, K in ((U, V), (moved_u, moved_v)))
    distance = np.linalg.norm(U - moved_u) + np.linalg.norm(V - moved_v)
    if rule == "softmax":
        assert abs(before - after)[0, 1] <= distance / 2 + 1e-12
    else:
        assert np.abs(before - after).max() <= distance + 1e-12
