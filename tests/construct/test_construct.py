"""The constructions: each against its algorithm written out, and certified at sizes where it must work."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Graph, InputError, Layer, construct, gaussian, one_hot, permutation_graph
from manyheads.certificate import certify
from manyheads.construct import RADEMACHER, Bernoulli, ConditionWarning
from manyheads.problem.incoherence import realised_profile
from manyheads.problem.problem import Problem

# by name, layers that must certify
MUST_CERTIFY: dict[str, Callable[[], tuple[Layer, np.ndarray, Graph]]] = {}


def case(build: Callable[[], tuple[Layer, np.ndarray, Graph]]) -> Callable[[], tuple[Layer, np.ndarray, Graph]]:
    MUST_CERTIFY[build.__name__] = build
    return build


@case
def one_hot_with_bernoulli_words() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(64, seed=0), one_hot(64)
    return construct.one_hot(Problem(graph, x), seed=0), x, graph


@case
def one_hot_with_signs() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(64, seed=0), one_hot(64)
    return construct.one_hot(Problem(graph, x), seed=0, signatures=RADEMACHER), x, graph


@case
def compressive() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(300, seed=0), gaussian(300, 256, seed=0)
    return construct.compressive(Problem(graph, x), key_width=600, seed=0, matching_size=64), x, graph


@case
def one_head_for_each_relation() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(300, seed=0), gaussian(300, 256, seed=0)
    return construct.compressive(Problem(graph, x), key_width=1, seed=0, matching_size=1), x, graph


@case
def incoherent_of_another_length() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(100, seed=0), 3 * gaussian(100, 192, seed=0)
    return construct.incoherent(Problem(graph, x), key_width=400, seed=0), x, graph


@case
def incoherent_with_bernoulli_words() -> tuple[Layer, np.ndarray, Graph]:
    graph, x = permutation_graph(40, seed=0), gaussian(40, 512, seed=0)
    return (
        construct.incoherent(Problem(graph, x), key_width=2500, seed=0, matching_size=4, signatures=Bernoulli(0.05)),
        x,
        graph,
    )


@case
def general_with_skew() -> tuple[Layer, np.ndarray, Graph]:
    graph = Graph(200, *np.array([[0, j] for j in range(1, 21)] + [[j, 0] for j in range(50, 60)] + [[5, 6]]).T)
    x = gaussian(200, 256, seed=0)
    return construct.general(Problem(graph, x), key_width=200, seed=0), x, graph


@case
def general_without_relations() -> tuple[Layer, np.ndarray, Graph]:
    none = np.array([], dtype=np.int64)
    graph, x = Graph(100, none, none), gaussian(100, 128, seed=0)
    return construct.general(Problem(graph, x), key_width=3, seed=0), x, graph


@pytest.mark.parametrize("name", MUST_CERTIFY)
def test_certifies_where_it_must(name: str) -> None:
    layer, x, graph = MUST_CERTIFY[name]()
    certificate = certify(layer, Problem(graph, x))
    assert certificate.holds, certificate


def literal_weights(
    graph: Graph, x: np.ndarray, words: np.ndarray, blocks: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1, lines 6 to 9, letter by letter: templates of m rows, then XᵀW'."""
    target_of = dict(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    queries, keys = [], []
    for sources, targets in blocks:
        query_template, key_template = np.zeros_like(words), np.zeros_like(words)
        for i in sources.tolist():
            query_template[i] = words[target_of[i]]
        for j in targets.tolist():
            key_template[j] = words[j]
        queries.append(x.T @ query_template)
        keys.append(x.T @ key_template)
    return np.array(queries), np.array(keys)


@settings(max_examples=30, deadline=None)
@given(items=st.integers(1, 30), d_model=st.integers(1, 12), size=st.integers(1, 40), width=st.integers(1, 9))
def test_compressive_is_algorithm_1_letter_by_letter(items: int, d_model: int, size: int, width: int) -> None:
    graph, x = permutation_graph(items, seed=1), gaussian(items, d_model, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditionWarning)
        layer = construct.compressive(Problem(graph, x), key_width=width, seed=3, matching_size=size)
    blocks = construct.split_sources(graph, size=size)
    assert sorted(np.concatenate([sources for sources, _ in blocks])) == list(range(items))
    assert max(len(sources) for sources, _ in blocks) <= size
    assert len(blocks) == -(-items // size) == layer.heads
    query, key = literal_weights(graph, x.astype(float), RADEMACHER.draw(items, width, seed=3), blocks)
    np.testing.assert_allclose(layer.query, query, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.key, key, rtol=1e-5, atol=1e-5)
    assert layer.threshold == width / 2
    assert layer.rule.name == "max"


def test_blocks_have_the_size_of_d_model_unless_told() -> None:
    graph, x = permutation_graph(301, seed=0), gaussian(301, 100, seed=0)
    assert construct.compressive(Problem(graph, x), key_width=2, seed=0).heads == 4  # d_model does not divide m
    assert construct.softmax(Problem(graph, x), key_width=2, seed=0).heads == 4
    assert construct.general(Problem(graph, x), key_width=2, seed=0).heads == 4


def test_incoherent_on_one_hot_items_scores_as_construction_one() -> None:
    graph, x = permutation_graph(40, seed=0), one_hot(40)
    one = construct.one_hot(Problem(graph, x), key_width=50, seed=7, signatures=RADEMACHER)
    three = construct.incoherent(Problem(graph, x), key_width=50, seed=7, matching_size=40)
    np.testing.assert_array_equal(three.scores(x), one.scores(x))
    assert three.threshold == one.threshold == 25
    words = RADEMACHER.draw(40, 50, seed=7)
    np.testing.assert_array_equal(one.scores(x), words[graph.targets] @ words.T)


def test_incoherent_is_blind_to_the_length_of_the_rows() -> None:
    graph, x = permutation_graph(50, seed=0), gaussian(50, 128, seed=0)
    three = construct.incoherent(Problem(graph, 5 * x), key_width=20, seed=0, matching_size=10)
    two = construct.compressive(Problem(graph, x), key_width=20, seed=0, matching_size=10)
    np.testing.assert_allclose(three.scores(5 * x), two.scores(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("packing", ["equitable", "lemma"])
def test_general_on_a_permutation_holds_what_compressive_holds(packing: construct.Packing) -> None:
    graph, x = permutation_graph(150, seed=0), gaussian(150, 100, seed=0)
    two = construct.compressive(Problem(graph, x), key_width=12, seed=4, matching_size=40)
    four = construct.general(Problem(graph, x), key_width=12, seed=4, matching_size=40, packing=packing)
    assert four.heads == two.heads == 4
    # the relations are dealt out otherwise, but every one is in exactly one head: the templates add up to the same
    np.testing.assert_allclose(four.query.sum(axis=0), two.query.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(four.key.sum(axis=0), two.key.sum(axis=0), atol=1e-5)
    blocks = construct.pack(graph, size=40, packing=packing)
    words = RADEMACHER.draw(150, 12, seed=4)
    np.testing.assert_allclose(four.query, literal_weights(graph, x, words, blocks)[0], atol=1e-5)


def test_the_equitable_packing_saves_heads_on_the_lemma() -> None:
    # a star of 20 beside a matching of 60: the lemma cuts colours of unequal size, whose last blocks stay short
    star = [[0, j] for j in range(1, 21)]
    graph = Graph(200, *np.array(star + [[30 + j, 100 + j] for j in range(60)]).T)
    x = gaussian(200, 256, seed=0)
    equitable = construct.general(Problem(graph, x), key_width=1, seed=0, matching_size=3)
    lemma = construct.general(Problem(graph, x), key_width=1, seed=0, matching_size=3, packing="lemma")
    assert equitable.heads == max(20, -(-80 // 3)) == 27
    assert equitable.heads < lemma.heads <= 27 + 20


def test_softmax_as_published() -> None:
    graph, x = permutation_graph(120, seed=0), gaussian(120, 100, seed=0)
    two = construct.compressive(Problem(graph, x), key_width=9, seed=1)
    layer = construct.softmax(Problem(graph, x), key_width=9, seed=1)
    assert (layer.rule.name, layer.threshold) == ("softmax", 0.5)
    np.testing.assert_array_equal(layer.query, two.query)
    np.testing.assert_array_equal(layer.key, two.key)
    scaled = construct.softmax(Problem(graph, x), key_width=9, seed=1, scale=0.3, threshold=0.4)
    assert scaled.threshold == 0.4
    np.testing.assert_allclose(scaled.head_scores(x[:5]), 0.3 * layer.head_scores(x[:5]), rtol=1e-5)


def test_mended_softmax_certifies_where_the_published_one_does_not() -> None:
    graph, x = permutation_graph(64, seed=0), gaussian(64, 256, seed=0)
    published = construct.softmax(Problem(graph, x), key_width=256, seed=0, matching_size=16)
    assert certify(published, Problem(graph, x), context_length=16).verdict == "refuted"
    mended = construct.mended_softmax(Problem(graph, x), key_width=256, context_length=16, seed=0, matching_size=16)
    assert mended.certificate.holds
    assert mended.scale in [trial.scale for trial in mended.trials]
    low, high = max((trial.window for trial in mended.trials), key=lambda window: window[1] - window[0])
    assert mended.layer.threshold == pytest.approx((low + high) / 2)


def test_incoherent_finds_the_largest_matchings_the_profile_admits() -> None:
    graph, x = permutation_graph(80, seed=0), gaussian(80, 96, seed=0)
    constants = construct.Constants(c2=1.0, c3=1.0)
    choice = construct.matchings_by_profile(Problem(graph, x), constants=constants)
    assert choice.theorem_applies
    assert constants.admit(choice.profile)
    heads = -(-80 // choice.matching_size)
    assert choice.profile.matching_size == choice.matching_size > 1
    one_head_less = construct.split_sources(graph, size=-(-80 // (heads - 1)))
    assert not constants.admit(realised_profile(x, one_head_less))
    fewer = construct.matchings_by_profile(Problem(graph, x), constants=construct.Constants(c2=0.8, c3=0.8))
    assert fewer.matching_size < choice.matching_size
    assert construct.incoherent(Problem(graph, x), key_width=2, seed=0).heads == heads


def test_the_theorem_asks_for_all_three_numbers() -> None:
    profile = construct.matchings_by_profile(Problem(permutation_graph(20, seed=0), gaussian(20, 64, seed=0))).profile
    log = math.log(20)
    edge = replace(profile, epsilon=0.5, rho=2.0 / log, gamma=3.0 / log)
    assert construct.Constants(c1=0.51, c2=2.01, c3=3.01).admit(edge)
    assert not construct.Constants(c1=0.49, c2=2.01, c3=3.01).admit(edge)
    assert not construct.Constants(c1=0.51, c2=1.99, c3=3.01).admit(edge)
    assert not construct.Constants(c1=0.51, c2=2.01, c3=2.99).admit(edge)


def test_matchings_found_by_certificate_say_that_the_theorem_does_not_apply() -> None:
    graph, x = permutation_graph(100, seed=0), gaussian(100, 256, seed=0)
    by_profile = construct.matchings_by_profile(Problem(graph, x))
    choice = construct.matchings_by_certificate(Problem(graph, x), key_width=800, seed=0)
    assert choice.certificate is not None
    assert choice.certificate.holds
    assert choice.matching_size > by_profile.matching_size
    assert not choice.theorem_applies


def test_where_no_matching_is_incoherent_enough_the_theorem_does_not_apply() -> None:
    graph, x = permutation_graph(100, seed=0), gaussian(100, 8, seed=0)
    choice = construct.matchings_by_profile(Problem(graph, x))
    assert (choice.matching_size, choice.theorem_applies) == (1, False)
    with pytest.warns(ConditionWarning, match="does not apply"):
        construct.incoherent(Problem(graph, x), key_width=2, seed=0)
    refused = construct.matchings_by_certificate(Problem(graph, x), key_width=4, seed=0)
    assert refused.certificate is not None
    assert (refused.matching_size, refused.certificate.verdict) == (1, "refuted")


def test_calibrate_moves_the_threshold_into_the_window() -> None:
    layer, x, graph = compressive()
    astray = Layer(layer.query, layer.key, threshold=0.0)
    refuted = certify(astray, Problem(graph, x))
    assert refuted.verdict == "refuted"
    assert certify(construct.calibrate(astray, refuted), Problem(graph, x)).holds


@pytest.mark.parametrize("build", [construct.compressive, construct.softmax, construct.general, construct.incoherent])
def test_a_seed_decides_everything(build: Callable[..., Layer]) -> None:
    graph, x = permutation_graph(90, seed=0), gaussian(90, 80, seed=0)
    first, again, other = (build(Problem(graph, x), key_width=6, seed=seed, matching_size=30) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.query, again.query)
    np.testing.assert_array_equal(first.key, again.key)
    assert not np.array_equal(first.query, other.query)


@pytest.mark.parametrize("signatures", [RADEMACHER, Bernoulli(0.3)])
def test_signatures_are_what_they_say(signatures: construct.Signatures) -> None:
    words = signatures.draw(200, 300, seed=1)
    assert set(np.unique(words)) == ({-1.0, 1.0} if signatures == RADEMACHER else {0.0, 1.0})
    assert words.mean() == pytest.approx(signatures.mean, abs=0.02)  # 5 standard deviations
    assert (words**2).mean() == pytest.approx(signatures.square, abs=0.02)
    # half way between what a word scores with itself and with another
    scores = words @ words.T / 300
    others = scores[~np.eye(200, dtype=bool)].mean()
    assert signatures.threshold(300) / 300 == pytest.approx((np.diag(scores).mean() + others) / 2, abs=0.02)


@pytest.mark.parametrize(
    "build", [construct.compressive, construct.softmax, construct.general], ids=lambda build: build.__name__
)
def test_too_narrow_a_model_is_a_warning(build: Callable[..., Layer]) -> None:
    graph, x = permutation_graph(256, seed=0), gaussian(256, 32, seed=0)
    with pytest.warns(ConditionWarning, match=r"d_model = 32 is below 16·ln 256 = 89"):
        build(Problem(graph, x), key_width=4, seed=0)


def test_a_dense_bernoulli_word_is_a_warning_in_construction_three() -> None:
    graph, x = permutation_graph(50, seed=0), gaussian(50, 128, seed=0)
    with pytest.warns(ConditionWarning, match="p ≤ 1/20"):
        construct.incoherent(Problem(graph, x), key_width=4, seed=0, matching_size=5, signatures=Bernoulli(0.1))


PERMUTATION, ROWS = permutation_graph(10, seed=0), gaussian(10, 64, seed=0)
PATH = Graph(10, np.arange(9), np.arange(1, 10))
LOUD = np.full((10, 64), np.nan, dtype=np.float32)


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        (lambda: construct.one_hot(Problem(PATH, one_hot(10)), seed=0), "permutation"),
        (lambda: construct.compressive(Problem(PATH, ROWS), key_width=4, seed=0), "permutation"),
        (lambda: construct.softmax(Problem(PATH, ROWS), key_width=4, seed=0), "permutation"),
        (lambda: construct.incoherent(Problem(PATH, ROWS), key_width=4, seed=0), "permutation"),
        (lambda: construct.matchings_by_profile(Problem(PATH, ROWS)), "permutation"),
        (lambda: construct.one_hot(Problem(PERMUTATION, ROWS), seed=0), "one-hot"),
        (lambda: construct.one_hot(Problem(PERMUTATION, one_hot(10)[::-1]), seed=0), "one-hot"),
        (lambda: construct.compressive(Problem(PERMUTATION, ROWS[:9]), key_width=4, seed=0), "10 items.*9 rows"),
        (lambda: construct.general(Problem(PATH, ROWS[:9]), key_width=4, seed=0), "10 items.*9 rows"),
        (lambda: construct.compressive(Problem(PERMUTATION, ROWS), key_width=0, seed=0), "key_width .*not 0"),
        (lambda: construct.one_hot(Problem(PERMUTATION, one_hot(10)), key_width=0, seed=0), "key_width .*not 0"),
        (lambda: construct.general(Problem(PATH, ROWS), key_width=4, seed=0, matching_size=0), "matching_size .*not 0"),
        (lambda: construct.compressive(Problem(PERMUTATION, LOUD), key_width=4, seed=0), "NaN"),
        (lambda: construct.softmax(Problem(PERMUTATION, ROWS), key_width=4, seed=0, scale=0.0), "scale"),
        (lambda: construct.incoherent(Problem(PERMUTATION, 0 * ROWS), key_width=4, seed=0, matching_size=2), "zero"),
        (lambda: construct.one_hot(Problem(PERMUTATION, one_hot(10)), seed=0, signatures=Bernoulli(0.6)), "1/2"),
        (lambda: Bernoulli(0.0), "between 0 and 1"),
        (lambda: Bernoulli(1.0), "between 0 and 1"),
    ],
)
def test_malformed_input_is_refused_with_a_sentence(attempt: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        attempt()


def test_a_graph_without_relations_still_gets_a_finite_threshold() -> None:
    graph, embedding = Graph(6, np.array([], dtype=int), np.array([], dtype=int)), gaussian(6, 8, seed=0)
    query, key = np.random.default_rng(0).standard_normal((2, 2, 8, 3))
    layer = construct.calibrate(layer := Layer(query, key, 0.0), certify(layer, Problem(graph, embedding)))
    assert certify(layer, Problem(graph, embedding)).holds
