"""The rounding bounds of certify against exact rational arithmetic and sixty digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf
from support.oracles import exact_scores

from manyheads import Graph, Layer
from manyheads.certificate import certify, projection
from manyheads.certificate.pairwise import row_scores
from manyheads.certificate.projection import project
from manyheads.certificate.softmax.pair_bounds import softmax_rounding
from manyheads.layer.rules import MAX, rule_named
from manyheads.problem.problem import Problem

ITEMS, D_MODEL, HEADS, KEY_WIDTH = 5, 6, 3, 4
Weights = tuple[np.ndarray, np.ndarray, np.ndarray]  # embedding, query, key


def ordinary(rng: np.random.Generator) -> Weights:
    query, key = rng.standard_normal((2, HEADS, D_MODEL, KEY_WIDTH))
    return rng.standard_normal((ITEMS, D_MODEL)), query, key


def single(rng: np.random.Generator) -> Weights:
    embedding, query, key = (part.astype(np.float32) for part in ordinary(rng))
    return embedding, query, key


def ill_scaled(rng: np.random.Generator) -> Weights:
    embedding, query, key = (part * 10.0 ** rng.uniform(-9, 9, part.shape) for part in ordinary(rng))
    return embedding, query, key


def one_long_key(rng: np.random.Generator) -> Weights:
    embedding, query, key = ordinary(rng)
    embedding[-1] *= 1e12
    return embedding, query, key


def cancelling_queries(rng: np.random.Generator) -> Weights:
    """Large terms, first and last, that cancel in every query; what was added between them has lost its digits."""
    embedding, query, key = ordinary(rng)
    embedding[:, -1] = -embedding[:, 0]
    query[:, 0] += 1e8
    query[:, -1] = query[:, 0]
    return embedding, query, key


def cancelling_keys(rng: np.random.Generator) -> Weights:
    embedding, query, key = cancelling_queries(rng)
    return embedding, key, query


def losing_tails(rng: np.random.Generator) -> Weights:
    """Queries and keys that are read off without error, and 63 products that each vanish beside the first."""
    query, key = np.full((2, 1, ITEMS, 64), 2.0**-26)
    query[:, :, 1:] *= 0.49 * rng.uniform(0.9, 1.0, (ITEMS, 63))
    query[:, :, 0] = key[:, :, 0] = 1.0
    return np.eye(ITEMS), query, key


def underflowing(rng: np.random.Generator) -> Weights:
    """Products near the smallest float64: q and k of about 1e−162, their products subnormal or zero."""
    embedding, query, key = ordinary(rng)
    return embedding, query * 1e-162, key * 1e-162


def subnormal(rng: np.random.Generator) -> Weights:
    """Weights that are themselves subnormal, against keys large enough to make their errors count."""
    embedding, query, key = ordinary(rng)
    return embedding, query * 1e-315, key * 1e307


FAMILIES = (
    ordinary,
    single,
    ill_scaled,
    one_long_key,
    cancelling_queries,
    cancelling_keys,
    losing_tails,
    underflowing,
    subnormal,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("rule", ["max", "sum", "logsumexp"])
def test_no_score_strays_further_than_its_bound(family: Callable[..., Weights], rule: str) -> None:
    for seed in range(3):
        embedding, query, key = family(np.random.default_rng(seed))
        layer = Layer(query, key, 0.0, rule)
        projected = project(layer, embedding)
        row_bounds = layer.rule.error_bound(projected.row_errors())
        computed = row_scores(layer.rule, projected, np.arange(ITEMS))
        by_the_layer = layer.scores(embedding)
        for source, exact_row in enumerate(exact_scores(layer, embedding)):
            bounds = layer.rule.error_bound(projected.score_errors(source))
            for target, exact in enumerate(exact_row):
                with mp.workdps(60):
                    assert abs(mpf(computed[source, target]) - exact) <= mpf(bounds[target])
                    assert abs(mpf(by_the_layer[source, target]) - exact) <= mpf(bounds[target])
                assert bounds[target] <= row_bounds[source] * (1 + 1e-12)


@pytest.mark.parametrize("rule", ["max", "sum", "logsumexp"])
def test_errors_of_heads_join_like_their_scores(rule: str) -> None:
    """Heads that all err by their bounds move the joined score by no more than the joined bound, some by nearly it."""

    def join(scores: np.ndarray) -> np.ndarray:
        return rule_named(rule).join(scores[:, None], key_width=1)[0]

    rng = np.random.default_rng(0)
    scores, errors = rng.standard_normal((16, 1000)), rng.exponential(1.0, (16, 1000))
    moved = np.abs(join(scores + errors) - join(scores)) / rule_named(rule).error_bound(errors)
    assert moved.max() <= 1 + 1e-12
    assert moved.max() > {"max": 0.9, "sum": 0.999, "logsumexp": 0.3}[rule]


def test_the_bound_is_not_idle() -> None:
    """Where terms cancel the error is real, within a factor of 1000 of the bound; elsewhere the bound is small."""
    embedding, query, key = cancelling_queries(np.random.default_rng(0))
    layer = Layer(query, key, 0.0)
    projected = project(layer, embedding)
    computed, exact = row_scores(MAX, projected, np.arange(ITEMS)), exact_scores(layer, embedding)
    bounds = MAX.error_bound(projected.row_errors())[:, None]
    errors = np.array(
        [[abs(float(mpf(c) - e)) for c, e in zip(*r, strict=True)] for r in zip(computed, exact, strict=True)]
    )
    assert (errors / bounds).max() > 1e-3
    embedding, query, key = ordinary(np.random.default_rng(0))
    projected = project(Layer(query, key, 0.0), embedding)
    assert MAX.error_bound(projected.row_errors()).max() < 1e-12


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        *product(FAMILIES, ["max", "sum", "logsumexp"]),
        *product([ordinary, single, underflowing], ["softmax"]),  # the others' logits are far too large for softmax
    ],
)
def test_verdicts_are_exactly_true_next_to_the_threshold(
    family: Callable[..., Weights], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the threshold some ulps from a computed score, whatever is said is true of the exact scores."""
    monkeypatch.setattr(projection, "BLOCK", 2 * ITEMS)  # a few pairs a tile, two sources a block
    verdicts = set()
    for seed in range(2):
        rng = np.random.default_rng(seed)
        embedding, query, key = family(rng)
        exact = exact_scores(Layer(query, key, 0.0, rule), embedding)
        scores = Layer(query, key, 0.0, rule).scores(embedding)
        middle = scores[-1, rng.integers(ITEMS)]
        for ulps in (-1e15, -100.0, -1.0, 0.0, 1.0, 100.0, 1e15):
            threshold = float(middle + ulps * np.spacing(abs(middle)))
            adjacency = np.array([[score > mpf(threshold) for score in row] for row in exact])
            disputed = adjacency.copy()
            disputed.flat[rng.integers(adjacency.size)] ^= True
            for graph, right in ((adjacency, True), (disputed, False)):
                layer = Layer(query, key, threshold, rule)
                sources, targets = np.nonzero(graph)
                relations = Graph(ITEMS, sources, targets)
                # the whole of the items is the only context of length ITEMS
                verdict = certify(layer, Problem(relations, embedding), context_length=ITEMS).verdict
                assert verdict != ("refuted" if right else "holds")
                verdicts.add(verdict)
    assert verdicts == {"holds", "refuted", "not proved"}


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_no_softmax_score_strays_further_than_its_bound(scale: float) -> None:
    for seed in range(10):
        embedding, query, key = ordinary(np.random.default_rng(seed))
        layer = Layer(scale * query, key, 0.0, "softmax")
        bound = softmax_rounding(project(layer, embedding), ITEMS)
        scores = layer.scores(embedding)
        for computed_row, exact_row in zip(scores, exact_scores(layer, embedding), strict=True):
            for computed, exact in zip(computed_row, exact_row, strict=True):
                assert abs(mpf(computed) - exact) <= mpf(bound)
        assert bound < 1e-11 * scale


def test_exact_scores_are_exact() -> None:
    """The oracle's own check: 2^53 + 1 needs a digit that float64 does not have."""
    layer = Layer(np.array([[[2.0**53], [1.0]]]), np.array([[[1.0], [0.0]]]), 0.0)
    embedding = np.array([[1.0, 1.0]])
    assert exact_scores(layer, embedding)[0][0] == 2**53 + 1
    assert Fraction(layer.scores(embedding)[0, 0]) == 2**53


def test_every_pair_of_every_tile_has_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items 0 and 1 have short keys, 2 and 3 long ones whose large parts cancel: only there is 1e-9 too close."""
    monkeypatch.setattr(projection, "BLOCK", 4)  # tiles of 2 × 2 pairs
    embedding, query = np.eye(4), np.tile([1.0, -1.0, 1.0], (4, 1))
    short, long = [0.0, 0.0, 1.0], [1e8, 1e8, 1.0]
    for keys, open_pairs in (([short, short, long, long], 8), ([long, long, short, short], 8), ([short] * 4, 0)):
        layer = Layer(query[None], np.array(keys)[None], threshold=1.0 - 1e-9)  # every pair scores exactly 1
        everything = Graph(4, np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4))
        certificate = certify(layer, Problem(everything, embedding))
        assert (certificate.open_pairs, certificate.holds) == (open_pairs, open_pairs == 0)


def test_a_pair_is_proved_beyond_one_bound_and_refuted_beyond_two() -> None:
    """A proof is about exact scores. A refutation is about the layer's own scores, which have a rounding error too."""
    query, key = np.tile([[[1.0, -1.0, 1.0]], [[1e8, 1e8, 1.0]]], (1, 2, 1))[:, None]
    embedding, all_pairs = np.eye(2), np.ones((2, 2), dtype=bool)
    bound = project(Layer(query, key, 0.0), embedding).score_errors(0).max()
    for bounds, if_all_relate, if_none_relates in (
        (0.9, "not proved", "not proved"),
        (1.1, "holds", "not proved"),
        (1.9, "holds", "not proved"),
        (2.1, "holds", "refuted"),
    ):
        layer = Layer(query, key, threshold=1.0 - bounds * bound)  # every pair scores exactly 1
        for relations, verdict in ((all_pairs, if_all_relate), (~all_pairs, if_none_relates)):
            sources, targets = np.nonzero(relations)
            graph = Graph(2, sources, targets)
            assert certify(layer, Problem(graph, embedding)).verdict == verdict


@pytest.mark.parametrize(("heads", "key_width"), [(1, 1), (2, 1), (2, 3)])
@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_tiny_weights_of_every_shape_are_certified_on_this_thread(heads: int, key_width: int, rule: str) -> None:
    """The weights of several heads of width 1 have gaps between their numbers, which the native product refused."""
    weights = np.full((heads, 2, key_width), 2.0**-950)
    graph = Graph(3, np.array([0]), np.array([1]))
    certificate = certify(Layer(weights, weights, 0.5, rule), Problem(graph, np.ones((3, 2))), context_length=3)
    assert certificate.verdict == "refuted"  # all pairs have the same score
