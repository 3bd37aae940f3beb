"""The limit d_k → ∞, and the search for the smallest budget."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from manyheads import Graph, construct, gaussian, permutation_graph
from manyheads.certificate import certify
from manyheads.construct import RADEMACHER, Bernoulli, WidthLimit, WidthTrial
from manyheads.construct.smallest_construction import DRAWS, NEEDED, default_matching_sizes, smallest
from manyheads.construct.width_limit import Threshold, limit_tiles, window
from manyheads.problem.problem import Problem


def limit_matrix(
    x: np.ndarray, blocks: list[construct.Matching], signatures: construct.Signatures, mu: float
) -> np.ndarray:
    full = np.full((len(x), len(x)), np.nan)
    for row, column, tile in limit_tiles(x, blocks, signatures=signatures, mu=mu):
        full[row : row + tile.shape[0], column : column + tile.shape[1]] = tile
    return full


def test_limit_is_the_product_of_gram_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    # small tiles, so that the pieces have to fit together
    module = import_module("manyheads.construct.width_limit")  # by attribute one would find the function of that name
    monkeypatch.setattr(module, "ROWS", 7)
    monkeypatch.setattr(module, "PANEL", 11)
    graph, x = permutation_graph(40, seed=0), gaussian(40, 16, seed=0)
    gram = x.astype(float) @ x.T.astype(float)
    for size in (1, 6, 13, 40):
        blocks = construct.split_sources(graph, size=size)
        direct = np.max([gram[:, sources] @ gram[targets] for sources, targets in blocks], axis=0)
        np.testing.assert_allclose(limit_matrix(x, blocks, RADEMACHER, 1.0), direct, atol=1e-12)
        found = construct.limit(Problem(graph, x), blocks)
        true = graph.adjacency()
        assert found.window.low == pytest.approx(direct[~true].max())
        assert found.window.high == pytest.approx(direct[true].min())
        assert (found.heads, found.matching_size, found.threshold) == (len(blocks), len(blocks[0][0]), 0.5)


@pytest.mark.parametrize("signatures", [RADEMACHER, Bernoulli(0.2)])
def test_limit_is_the_average_over_many_columns(signatures: construct.Signatures) -> None:
    graph, x = permutation_graph(12, seed=0), 2 * gaussian(12, 6, seed=0)
    mu, width = 4.0, 200_000
    words, blocks = signatures.draw(12, width, seed=0), construct.split_sources(graph, size=5)
    layer = construct.assemble([construct.de_embed(x, block, words, mu=mu) for block in blocks], threshold=0.0)
    expected = limit_matrix(x, blocks, signatures, mu)
    np.testing.assert_allclose(layer.scores(x) / width, expected, atol=8 / np.sqrt(width))


def test_limit_of_the_laws() -> None:
    # on the base grid no matching size passes with the paper's τ; at (256, 128) size 16 does and size 32 does not
    graph, x = permutation_graph(256, seed=0), gaussian(256, 32, seed=0)
    limits = [construct.limit(Problem(graph, x), construct.split_sources(graph, size=size)) for size in (1, 8, 32, 256)]
    assert not any(found.separates("paper") for found in limits)
    graph, x = permutation_graph(256, seed=0), gaussian(256, 128, seed=0)
    verdicts = {
        size: construct.limit(Problem(graph, x), construct.split_sources(graph, size=size)).separates("paper")
        for size in (16, 32)
    }
    assert verdicts == {16: True, 32: False}


def test_where_the_limit_fails_so_do_wide_heads() -> None:
    graph, x = permutation_graph(32, seed=0), gaussian(32, 8, seed=0)
    blocks = construct.split_sources(graph, size=8)
    found = construct.limit(Problem(graph, x), blocks)
    assert not found.separates("best")
    words = RADEMACHER.draw(32, 10_000, seed=0)
    layer = construct.assemble([construct.de_embed(x, block, words) for block in blocks], threshold=5_000.0)
    certificate = certify(layer, Problem(graph, x))
    assert certificate.verdict == "refuted"
    np.testing.assert_allclose(np.array(certificate.window) / 10_000, (found.window.low, found.window.high), atol=0.1)


def test_window_stops_where_it_is_told() -> None:
    graph = Graph(2, np.array([0]), np.array([1]))
    tiles = [(0, 0, np.array([[0.0, 1.0]])), (1, 0, np.array([[2.0, 0.5]]))]
    assert (window(graph, tiles).low, window(graph, tiles).high) == (2.0, 1.0)
    first = window(graph, iter(tiles), until=lambda so_far: so_far.is_open)
    assert (first.low, first.high) == (0.0, 1.0)
    assert first.holds(0.5)
    assert not first.holds(1.0)


@pytest.mark.parametrize("threshold", ["paper", "best"])
def test_smallest_tries_what_certify_confirms(threshold: Threshold) -> None:
    graph, x = permutation_graph(12, seed=0), gaussian(12, 128, seed=0)
    seen: list[WidthLimit | WidthTrial] = []
    result = smallest(
        Problem(graph, x), threshold=threshold, seed=3, matching_sizes=[4, 12], max_budget=450, progress=seen.append
    )
    best = result.best
    assert best is not None

    def certified(size: int, width: int, draws: int) -> int:
        layers = [
            construct.compressive(Problem(graph, x), key_width=width, seed=3 + n, matching_size=size)
            for n in range(draws)
        ]
        if threshold == "best":
            layers = [construct.calibrate(layer, certify(layer, Problem(graph, x))) for layer in layers]
        return sum(certify(layer, Problem(graph, x)).holds for layer in layers)

    assert {attempt.heads for attempt in result.trials} == {1, 3}
    for attempt in result.trials[::3]:
        assert attempt.separated == certified(attempt.matching_size, attempt.key_width, attempt.draws)
        assert attempt.draws == DRAWS or attempt.draws - attempt.separated == 2  # the second failure ends it
    # the width found passes, the one below fails
    passed = {(attempt.matching_size, attempt.key_width): attempt.passes for attempt in result.trials}
    assert passed[best.matching_size, best.key_width]
    assert not passed[best.matching_size, best.key_width - 1]
    assert best.key_budget == min(attempt.key_budget for attempt in result.trials if attempt.passes)

    assert result.certified == certified(best.matching_size, best.key_width, DRAWS)
    assert result.certificate is not None
    assert result.certificate.holds
    assert result.layer is not None
    assert result.layer.key_budget == best.key_budget
    assert [entry for entry in seen if isinstance(entry, WidthTrial)] == list(result.trials)
    assert [entry for entry in seen if isinstance(entry, WidthLimit)] == list(result.limits)


def test_nineteen_of_twenty_draws_count() -> None:
    assert not WidthTrial(heads=1, matching_size=1, key_width=1, separated=18, draws=20).passes
    assert WidthTrial(heads=1, matching_size=1, key_width=1, separated=19, draws=20).passes
    assert DRAWS == 20


def test_smallest_stops_where_no_width_works() -> None:
    graph, x = permutation_graph(64, seed=0), gaussian(64, 16, seed=0)
    result = smallest(Problem(graph, x), threshold="paper", seed=0)
    assert (result.best, result.layer, result.certificate) == (None, None, None)
    assert not result.trials
    assert len(result.limits) == len(default_matching_sizes(graph, 16))
    assert not any(found.separates("paper") for found in result.limits)


def test_one_head_for_each_relation_is_the_budget_to_beat() -> None:
    graph, x = permutation_graph(48, seed=0), gaussian(48, 96, seed=0)
    result = smallest(Problem(graph, x), threshold="best", seed=0)
    assert result.best == WidthTrial(heads=48, matching_size=1, key_width=1, separated=DRAWS, draws=DRAWS)
    assert result.certified == DRAWS


def test_smallest_takes_any_graph() -> None:
    graph = Graph(60, *np.array([[0, j] for j in range(1, 13)] + [[j, j + 1] for j in range(20, 50)]).T)
    x = gaussian(60, 256, seed=0)
    result = smallest(Problem(graph, x), threshold="best", seed=0, max_budget=2000)
    assert result.best is not None
    assert result.best.heads >= graph.max_degree == 12
    assert result.certified >= NEEDED
