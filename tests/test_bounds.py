"""Bounds and laws against definitions, simulation, high precision and laws.md's check values."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import InputError, Layer, certify, gaussian, random_graph
from manyheads.bounds import (
    Shape,
    bit_key_budget,
    constraint_share,
    family_key_budget,
    freedom_key_width,
    freedom_needed,
    freedom_split,
    graph_bit_key_budget,
    inverse,
    ln_graphs,
    ln_permutations,
    margin_key_budget,
    neighbours,
    paper_heads,
    paper_key_budget,
    regime,
    softmax_margin_key_budget,
    upper,
)

SIZES = st.integers(3, 2000)
D_MODELS = st.integers(1, 512)


# --- lower bounds


def test_the_bit_budget_counts_labellings() -> None:
    """With b bits in 2·d·D_K + 1 numbers, fewer than |𝒢| labellings below the bound, enough at it."""
    for items, relations, d_model, bits in product((3, 4), (1, 2, 5), (1, 2, 3), (1, 2, 8)):
        graphs = round(float(np.exp(ln_graphs(items, relations))))
        bound = float(graph_bit_key_budget(items, relations, d_model, bits=bits))
        enough = [D for D in np.arange(0, 12, 1 / (2 * d_model)) if 2 ** (bits * (2 * d_model * D + 1)) >= graphs]
        assert 0 <= min(enough) - bound <= 1 / (2 * d_model) + 1e-9


def test_the_bit_budget_as_a_whole_number() -> None:
    assert bit_key_budget(512, 512, 16, bits=32, permutation=True) == 4
    for items, relations in ((64, 64), (300, 900)):
        exact = family_key_budget(ln_graphs(items, relations, loops=True), 8, bits=4)
        assert 0 <= bit_key_budget(items, relations, 8, bits=4) - float(exact) < 1
    with pytest.raises(InputError, match="3 items have between 0 and 9 relations, not 10"):
        bit_key_budget(3, 10, 4, bits=16)


@given(items=SIZES, d_model=D_MODELS, bits=st.floats(1, 64), share=st.floats(0.0, 0.5))
def test_the_bit_budget_grows_with_relations_and_falls_with_width_and_bits(
    items: int, d_model: int, bits: float, share: float
) -> None:
    most = items * (items - 1) // 2
    fewer, more = int(share * most), min(most, int(share * most) + 1)
    budget = graph_bit_key_budget(items, np.array([fewer, more]), d_model, bits=bits)
    assert budget[0] <= budget[1]
    assert graph_bit_key_budget(items, more, d_model + 1, bits=bits) <= budget[1]
    assert graph_bit_key_budget(items, more, d_model, bits=2 * bits) <= budget[1]


@given(items=SIZES, d_model=D_MODELS, margin=st.floats(1e-6, 1.0))
def test_packing_is_the_better_argument(items: int, d_model: int, margin: float) -> None:
    family = ln_permutations(items)
    packed = margin_key_budget(family, d_model, margin=margin)
    covered = margin_key_budget(family, d_model, margin=margin, argument="covering")
    assert covered <= packed
    assert packed <= margin_key_budget(family, d_model, margin=2 * margin)  # a wider margin costs more


def test_the_margin_bound_by_hand() -> None:
    assert float(margin_key_budget(100.0, 4, margin=0.5)) == pytest.approx((100 / np.log(7) - 1) / 8)
    assert float(margin_key_budget(100.0, 4, margin=0.5, argument="covering")) == pytest.approx(
        (100 / np.log(17) - 1) / 8
    )
    assert float(margin_key_budget(0.1, 4, margin=0.5)) == 0.0
    soft = softmax_margin_key_budget(100.0, 4, heads=2, margin=0.5, query_norm=3.0, key_norm=2.0)
    assert float(soft) == pytest.approx((100 - np.log(7)) / (8 * np.log(19)))


def test_a_layer_we_build_obeys_the_margin_bound() -> None:
    """Its margin is small, so the bound asks for little; a layer below it would refute the theorem."""
    from manyheads.construct import calibrate, general

    graph, embedding = random_graph(24, 60, seed=0), gaussian(24, 64, seed=1)
    layer = general(graph, embedding, key_width=120, block_size=8, seed=0)
    layer = calibrate(layer, certify(layer, embedding, graph))
    certificate = certify(layer, embedding, graph)
    assert certificate.holds
    bound = margin_key_budget(ln_graphs(24, 60, loops=True), 64, margin=certificate.normalised_margin)
    assert layer.key_budget >= float(bound)


# --- the regimes of Sec. 9, each against the exact bound


@given(items=st.integers(8, 10**6), d_model=D_MODELS)
def test_permutations_need_m_ln_m(items: int, d_model: int) -> None:
    where = regime(items, items, d_model)
    assert where.name == "m' = m"
    exact = float(ln_graphs(items, items)) / d_model
    assert 0.9 * where.growth * (1 - 1 / np.log(items)) <= exact <= where.growth + 1.01 * items / d_model


@given(items=st.integers(8, 10**4), density=st.floats(0.2, 0.5), d_model=D_MODELS)
def test_dense_graphs_need_m_prime(items: int, density: float, d_model: int) -> None:
    relations = int(density * items * (items - 1))
    where = regime(items, relations, d_model, dense_above=0.15)
    assert where.name == "dense"
    exact = float(ln_graphs(items, relations)) / d_model
    assert 0.69 * where.growth * 1.9 * 0.5 <= exact <= 2.7 * where.growth


@given(items=st.integers(64, 10**6), epsilon=st.floats(0.3, 0.9), d_model=D_MODELS)
def test_sparse_graphs_need_m_prime_ln_m(items: int, epsilon: float, d_model: int) -> None:
    """ε·m'·ln m ≲ ln C(N, m') ≤ m'·(ε·ln m + 1), so the form holds with the constant ε."""
    relations = int(items ** (2 - epsilon))
    where = regime(items, relations, d_model, dense_above=0.5)
    assert where.name == "sparse"
    assert where.exponent == pytest.approx(epsilon, abs=0.01)
    exact = float(ln_graphs(items, relations)) / d_model
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
    assert share >= float(upper.owner_share(len(z), lead)) * (1 - 1e-12)


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "uniform"])
def test_lemma_8_3_shares_average_one_over_l_with_tails_of_that_scale(draw: str) -> None:
    """‖p − 1/ℓ‖_ψ1 ≤ K/ℓ: over ℓ from 8 to 512, E exp(|p − 1/ℓ|·ℓ/K) ≤ 2 with one K."""
    rng = np.random.default_rng(0)
    draws = {
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
    ball = lambda W: W / max(1.0, np.linalg.norm(W))  # noqa: E731
    U, V = U / np.linalg.norm(U), V / np.linalg.norm(V)
    moved_u, moved_v = ball(U + size * step_u), ball(V + size * step_v)
    before, after = (Layer(W, K, 0.0, rule).scores(x) for W, K in ((U, V), (moved_u, moved_v)))
    distance = np.linalg.norm(U - moved_u) + np.linalg.norm(V - moved_v)
    if rule == "softmax":
        assert abs(before - after)[0, 1] <= distance / 2 + 1e-12
    else:
        assert np.abs(before - after).max() <= distance + 1e-12


# --- upper bounds


def test_one_head_for_each_relation_always_works() -> None:
    """The guarantee D_K = m', built and certified on crowded rows: 40 items in 3 dimensions."""
    graph, embedding = random_graph(40, 70, seed=3), gaussian(40, 3, seed=4)
    query = embedding[graph.sources][:, :, None].astype(np.float64)
    key = embedding[graph.targets][:, :, None].astype(np.float64)
    certificate = certify(Layer(query, key, threshold=0.0), embedding, graph)
    assert certificate.window[0] < certificate.window[1]
    layer = Layer(query, key, threshold=sum(certificate.window) / 2)
    assert certify(layer, embedding, graph).holds
    assert layer.key_budget == float(upper.rank_one_key_budget(graph.relations))


@given(relations=st.integers(1, 10**9), degree=st.integers(1, 1000), block=st.integers(1, 10**4))
def test_the_lemma_counts_more_matchings_than_there_need_be(relations: int, degree: int, block: int) -> None:
    fewest = int(upper.matchings(relations, degree, block))
    assert fewest == max(degree, -(-relations // block)) <= int(upper.lemma_matchings(relations, degree, block))


@given(items=SIZES, degree=st.integers(1, 20), d_model=D_MODELS, constant=st.floats(1, 100))
def test_under_bounded_skew_the_corollary_is_the_theorem(
    items: int, degree: int, d_model: int, constant: float
) -> None:
    relations = items * degree
    budget = upper.general_key_budget(items, relations, d_model, max_degree=degree, constant=constant)
    skew = bool(upper.is_bounded_skew(relations, degree, d_model))
    assert skew == (degree / (relations / items) <= items / d_model)
    corollary = upper.bounded_skew_key_budget(items, relations, d_model, constant=constant)
    assert (float(budget) == float(corollary)) or not skew


@given(items=st.integers(3, 10**6), d_model=D_MODELS, exponent=st.floats(1, 2), degree=st.integers(1, 100))
def test_ln_m_and_ln_m_prime_are_the_same_up_to_two(items: int, d_model: int, exponent: float, degree: int) -> None:
    forms = upper.growth_forms(items, max(items, int(items**exponent) - items), d_model, degree)
    abstract, theorem = forms["abstract, (m'/d + Δ)·ln m'"], forms["Theorem B.9, (m'/d + Δ)·ln m"]
    assert theorem * (1 - 1e-12) <= abstract <= 2 * theorem
    assert forms["Corollary B.10 and v1, m'·ln m'/d"] <= abstract


@given(items=st.integers(3, 10**6), d_model=D_MODELS)
def test_many_heads_beat_one_by_m_over_d(items: int, d_model: int) -> None:
    """Sec. 5 and Eq. 19–22."""
    ratio = upper.single_head_key_budget(items, d_model) / upper.many_heads_key_budget(items, d_model)
    assert float(ratio) == pytest.approx(float(upper.head_advantage(items, d_model)))
    noise = upper.leakage_noise(items, d_model, upper.leakage_key_width(items, d_model, items), items)
    assert float(noise) == pytest.approx(float(upper.leakage_key_width(items, d_model, items)))  # N3 = d_k there
    one, many = (
        float(f(items, d_model, context_length=items))
        for f in (upper.single_head_key_budget, upper.many_heads_key_budget)
    )
    assert one / many >= float(upper.head_advantage(items, d_model, rule="softmax")) * (1 - 1e-12)


@given(items=st.integers(3, 10**6), gamma=st.floats(0.1, 5))
def test_the_softmax_width_leaves_m_to_the_minus_gamma(items: int, gamma: float) -> None:
    width = float(upper.softmax_key_width(items, gamma=gamma))
    assert 1 - float(upper.owner_share(items, np.sqrt(width) / 2)) <= items**-gamma * (1 + 1e-9) + 1e-15


# --- laws


def test_the_check_values() -> None:
    """laws.md, section 6."""
    assert [round(float(m * m * constraint_share(1 / m))) for m in (32, 64, 128, 256, 512)] == [
        122,
        297,
        708,
        1654,
        3808,
    ]
    powers = [1, 2, 4, 8, 16, 32]
    problems = ((64, 16), (128, 32), (256, 32), (512, 64))
    splits = [freedom_split(m, m, d, heads=powers) for m, d in problems]
    assert [(h * w, h) for h, w in splits] == [(16, 2), (15, 1), (44, 4), (42, 2)]
    splits = [freedom_split(m, m, d) for m, d in ((64, 16), (256, 32))]
    assert [(h * w, h) for h, w in splits] == [(15, 3), (42, 3)]
    assert [round(np.sqrt(float(freedom_needed(m, m, 1))), 2) for m in (32, 48, 64)] == [11.05, 14.36, 17.24]


@given(f=st.floats(1e-12, 1 - 1e-9))
@settings(max_examples=30, deadline=None)
def test_the_constraint_share_in_high_precision(f: float) -> None:
    with mpmath.workdps(50):
        square = lambda t: (1 + t * t) * mpmath.ncdf(t) + t * mpmath.npdf(t)  # noqa: E731
        ramp = lambda t: t * mpmath.ncdf(t) + mpmath.npdf(t)  # noqa: E731
        g = mpmath.mpf(f)
        low, high = mpmath.mpf(-30), mpmath.mpf(30)
        for _ in range(150):
            t = (low + high) / 2
            low, high = (t, high) if g * ramp(t) < (1 - g) * ramp(-t) else (low, t)
        exact = float(g * square(t) + (1 - g) * square(-t))
    assert float(constraint_share(f)) == pytest.approx(exact, rel=1e-10)


def test_the_constraint_share_is_what_a_random_perceptron_needs() -> None:
    """Its definition by simulation: the least mean squared violation over thresholds, labels with rate f."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(400_000)
    for f in (0.5, 0.1, 0.01):
        grid = np.linspace(-3, 4, 141)
        cost = [f * (np.maximum(t + z, 0) ** 2).mean() + (1 - f) * (np.maximum(-t + z, 0) ** 2).mean() for t in grid]
        assert float(constraint_share(f)) == pytest.approx(min(cost), rel=0.01)


@given(items=st.integers(16, 500), d_model=st.integers(8, 128), heads=st.integers(1, 8), degree=st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_the_key_width_is_the_smallest_with_freedom_enough(items: int, d_model: int, heads: int, degree: int) -> None:
    width = freedom_key_width(items, degree * items, d_model, heads)
    needed = float(freedom_needed(items, degree * items, heads))
    if width is None:
        assert d_model**2 < needed
    else:
        assert 2 * d_model * width - width**2 >= needed
        assert width == 1 or 2 * d_model * (width - 1) - (width - 1) ** 2 < needed


def test_the_papers_laws() -> None:
    assert float(paper_key_budget(512, 512, 64)) == pytest.approx(1.19 * 512 * 9 / 64)
    assert float(paper_key_budget(128, 512, 32, degree=4)) == pytest.approx(0.46 * 512 * 7 / 32)
    assert float(paper_heads(512, 64)) == pytest.approx(1.65 * 8 - 6.64)
    assert float(paper_heads(64, 64)) == 1.0


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
        assert Shape(d, heads=sharing, key_width=width, key_heads=1).freedom * sharing == pytest.approx(rank)


def test_cost_counts_every_multiplication() -> None:
    shape, length = Shape(d_model=6, heads=4, key_width=3, key_heads=2), 5
    assert (shape.query_budget, shape.key_budget) == (12, 6)
    assert shape.parameters == 6 * 12 + 6 * 6
    assert shape.multiply_adds(length) == length * 6 * (12 + 6) + 4 * length * length * 3
    assert Shape(6, 4, 3).parameters == 2 * 6 * 12  # D_Q + D_K is twice D_K
    with pytest.raises(InputError, match="4 heads cannot share 3 key heads evenly"):
        Shape(6, 4, 3, key_heads=3)
    with pytest.raises(InputError, match="d_model must be at least 1, not 0"):
        Shape(0, 4, 3)


def test_the_neighbours() -> None:
    values = [(one.work.split()[0], one.value) for one in neighbours(Shape(64, 4, 8), context_length=16)]
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
    shape, half = Shape(d_model, heads, width), items * (items - 1) // 2
    by_bits = inverse.relations_by_bits(items, shape, bits=8.0)
    room = 8 * (shape.parameters + 1) * np.log(2)
    assert float(ln_graphs(items, by_bits)) <= room
    assert by_bits == half or float(ln_graphs(items, by_bits + 1)) > room
    by_freedom = inverse.relations_by_freedom(items, shape)
    assert by_freedom == 0 or float(freedom_needed(items, by_freedom, heads)) <= shape.freedom
    assert by_freedom == half or float(freedom_needed(items, by_freedom + 1, heads)) > shape.freedom
    by_paper = inverse.relations_by_paper(items, shape)
    assert by_paper == 0 or float(paper_key_budget(items, by_paper, d_model, degree=2)) <= heads * width


@given(items=st.integers(8, 200), degree=st.integers(1, 3), budget=st.integers(1, 100))
@settings(max_examples=25, deadline=None)
def test_the_d_model_that_is_needed(items: int, degree: int, budget: int) -> None:
    relations = items * degree
    d = inverse.d_model_by_bits(items, relations, budget, bits=4.0)
    assert float(graph_bit_key_budget(items, relations, d, bits=4)) <= budget
    assert d == 1 or float(graph_bit_key_budget(items, relations, d - 1, bits=4)) > budget
    d_free = inverse.d_model_by_freedom(items, relations, budget)
    h, w = freedom_split(items, relations, d_free)
    assert h * w <= budget
    fewer = freedom_split(items, relations, d_free - 1) if d_free > 1 else None
    assert fewer is None or fewer[0] * fewer[1] > budget
    d_paper = inverse.d_model_by_paper(items, relations, budget)
    assert float(paper_key_budget(items, relations, d_paper, degree=2)) <= budget


def test_bad_arguments_are_a_sentence() -> None:
    for call, says in (
        (lambda: family_key_budget(1.0, 0, bits=16), "d_model must be positive, not 0"),
        (lambda: family_key_budget(1.0, 4, bits=-1), "bits must be positive, not -1"),
        (lambda: margin_key_budget(1.0, 4, margin=0.0), "margin must be positive, not 0"),
        (lambda: constraint_share(1.0), "lies between 0 and 1, not at 1"),
        (lambda: inverse.relations_by_bits(1, Shape(4, 1, 1)), "between at least 2 items, not 1"),
    ):
        with pytest.raises(InputError, match=says):
            call()


def test_the_background_is_what_uniform_heads_leave() -> None:
    assert float(upper.background_share(9, 64)) == 0.125
    assert float(upper.background_deviation(4, 10, np.e, constant=2.0)) == pytest.approx(0.2 * (2 + 1))
