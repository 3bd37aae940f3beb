"""Graph and its generators: the promises of each checked on the relations themselves, the random ones by frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest
import rustworkx as rx
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, linregress

from manyheads import (
    Graph,
    InputError,
    graph_from_networkx,
    graph_from_rustworkx,
    permutation_graph,
    positional_graph,
    power_law_graph,
    random_graph,
    regular_graph,
    star_graph,
)


def pairs(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))


def names(graph: Graph) -> set[str]:
    return {f"{graph.name(source)}→{graph.name(target)}" for source, target in pairs(graph)}


@given(st.integers(1, 8).flatmap(lambda m: st.tuples(st.just(m), st.sets(st.tuples(*[st.integers(0, m - 1)] * 2)))))
def test_a_graph_is_its_relations(drawn: tuple[int, set[tuple[int, int]]]) -> None:
    items, relations = drawn
    sources, targets = np.array(list(relations), dtype=np.int64).reshape(-1, 2).T
    graph = Graph(items, sources, targets)
    assert pairs(graph) == sorted(relations)
    dense = np.array([[(i, j) in relations for j in range(items)] for i in range(items)])
    np.testing.assert_array_equal(graph.adjacency(), dense)
    np.testing.assert_array_equal(graph.adjacency(items // 2), dense[items // 2 :])
    np.testing.assert_array_equal(graph.out_degrees, dense.sum(axis=1))
    np.testing.assert_array_equal(graph.in_degrees, dense.sum(axis=0))
    assert graph.max_degree == max(dense.sum(axis=0).max(), dense.sum(axis=1).max())
    assert graph.is_permutation == ((dense.sum(axis=0) == 1).all() and (dense.sum(axis=1) == 1).all())
    for i in range(items):
        own = graph.targets[graph.row_starts[i] : graph.row_starts[i + 1]]
        assert own.tolist() == [j for j in range(items) if dense[i, j]]


def test_a_graph_cannot_be_changed() -> None:
    graph = permutation_graph(5, seed=0)
    for array in (graph.sources, graph.targets, graph.out_degrees, graph.in_degrees, graph.row_starts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


def test_graphs_are_equal_where_relations_and_labels_are() -> None:
    forward, backward = Graph(3, np.array([0, 2]), np.array([1, 1])), Graph(3, np.array([2, 0]), np.array([1, 1]))
    assert forward == backward
    assert hash(forward) == hash(backward)
    assert forward != forward.with_labels("abc")
    assert forward != Graph(4, forward.sources, forward.targets)


@pytest.mark.parametrize(
    ("items", "sources", "targets", "labels", "says"),
    [
        (0, [], [], None, "a graph is a whole number from 1"),
        (2**40, [2**39], [1], None, "from 1 to 1,073,741,824"),
        (2, [0], [0, 1], None, "pair up"),
        (2, [0], [2], None, "item 2 is not among"),
        (2, [-1], [0], None, "item -1 is not among"),
        (2, [0, 1, 0], [1, 0, 1], ("cat", "dog"), "cat → dog is given twice"),
        (2, [0.5], [1.0], None, "whole numbers"),
        (2, [[0]], [[1]], None, "flat"),
        (2, [0], [1], ("cat",), "1 labels do not name 2 items"),
        (2, [0], [1], ("cat", "cat"), "'cat' names 2 items"),
    ],
)
def test_a_malformed_graph_says_why(
    items: int, sources: list[int], targets: list[int], labels: tuple[str, ...] | None, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        Graph(items, np.array(sources), np.array(targets), labels)


def test_permutations_are_uniform() -> None:
    drawn = Counter(tuple(permutation_graph(3, seed=seed).targets.tolist()) for seed in range(1200))
    assert chisquare([drawn[order] for order in permutations(range(3))]).pvalue > 1e-3


@pytest.mark.parametrize(("items", "degree"), [(2, 1), (3, 2), (7, 3), (40, 20), (64, 63), (257, 1), (4096, 32)])
def test_regular_graphs_are_regular(items: int, degree: int) -> None:
    graph = regular_graph(items, degree, seed=3)
    assert set(graph.out_degrees) == set(graph.in_degrees) == {degree}
    assert (graph.sources != graph.targets).all()
    assert graph == regular_graph(items, degree, seed=3)


def test_regular_graphs_complete_where_greedy_choice_gets_stuck() -> None:
    # at five items the last matchings leave no choice, and a random permutation meets them rarely
    for seed, degree in product(range(40), (3, 4)):
        assert set(regular_graph(5, degree, seed=seed).in_degrees) == {degree}


def test_regular_graphs_need_no_table_of_all_pairs_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scipy.sparse.csgraph.maximum_bipartite_matching", None)
    assert set(regular_graph(400, 8, seed=0).in_degrees) == {8}


@pytest.mark.parametrize(("items", "degree"), [(6, 2), (5, 3)])
def test_regular_graphs_favour_no_pair(items: int, degree: int) -> None:
    seeds = 250
    share = sum(regular_graph(items, degree, seed=seed).adjacency().astype(int) for seed in range(seeds)) / seeds
    expected = degree / (items - 1) * (1 - np.eye(items))
    assert np.abs(share - expected).max() < 4 * np.sqrt(0.25 / seeds)


@pytest.mark.parametrize(("loops", "possible"), [(False, 6), (True, 9)])
def test_random_graphs_are_uniform_over_sets_of_pairs(loops: bool, possible: int) -> None:
    drawn = Counter(tuple(pairs(random_graph(3, 2, seed=seed, loops=loops))) for seed in range(2000))
    allowed = [pair for pair in product(range(3), repeat=2) if loops or pair[0] != pair[1]]
    assert len(allowed) == possible
    assert set(drawn) == set(combinations(allowed, 2))
    assert chisquare(list(drawn.values())).pvalue > 1e-3


def test_random_graphs_reach_both_ends() -> None:
    assert random_graph(4, 0, seed=0).relations == 0
    np.testing.assert_array_equal(random_graph(4, 12, seed=0).adjacency(), ~np.eye(4, dtype=bool))
    assert random_graph(4, 16, seed=0, loops=True).adjacency().all()
    assert random_graph(100_000, 1_000_000, seed=0).relations == 1_000_000


def test_stars() -> None:
    out, into = star_graph(4, direction="out"), star_graph(4, direction="in")
    assert pairs(out) == [(0, 1), (0, 2), (0, 3)]
    assert pairs(into) == [(1, 0), (2, 0), (3, 0)]
    assert star_graph(1, direction="in").relations == 0


@pytest.mark.parametrize(("relations", "exponent"), [(20_000, 2.3), (100_000, 2.6), (300_000, 3.5)])
def test_power_law_degrees_fall_as_their_exponent_says(relations: int, exponent: float) -> None:
    graph = power_law_graph(10_000, relations, exponent=exponent, seed=0)
    assert graph.relations == relations
    assert (graph.sources != graph.targets).all()
    for degrees in (graph.out_degrees, graph.in_degrees):
        ranks = np.arange(3, 200)
        slope = linregress(np.log(ranks), np.log(np.sort(degrees)[::-1][ranks])).slope
        assert slope == pytest.approx(-1 / (exponent - 1), rel=0.1)
    assert abs(np.corrcoef(graph.out_degrees, graph.in_degrees)[0, 1]) < 0.05


def test_power_law_graphs_reach_a_million_relations() -> None:
    graph = power_law_graph(100_000, 1_000_000, exponent=2.6, seed=0)
    assert graph.relations == 1_000_000
    assert 4_000 < graph.max_degree < 6_000


def test_power_law_graphs_fill_half_of_the_pairs() -> None:
    assert power_law_graph(20, 190, exponent=2.1, seed=0).relations == 190


@pytest.mark.parametrize("offsets", [[-1], [0], range(-3, 0), range(-3, 4), [2, -2], []])
def test_positional_graphs_relate_tokens_at_the_offsets(offsets: list[int]) -> None:
    tokens, positions = random_graph(3, 4, seed=0, loops=True).with_labels(["a", "b", "c"]), 4
    graph = positional_graph(tokens, positions, offsets=offsets)
    adjacency, items = tokens.adjacency(), list(product(range(3), range(positions)))
    expected = [[bool(adjacency[t, u]) and q - p in offsets for u, q in items] for t, p in items]
    np.testing.assert_array_equal(graph.adjacency(), expected)
    assert graph.labels == tuple(f"{'abc'[t]}@{p}" for t, p in items)


def test_networkx_graphs_keep_their_names() -> None:
    graph = graph_from_networkx(nx.DiGraph([("cat", "mammal"), ("dog", "mammal")]))
    assert graph.labels == ("cat", "mammal", "dog")
    assert names(graph) == {"cat→mammal", "dog→mammal"}


def test_networkx_numbers_stay_numbers() -> None:
    graph = graph_from_networkx(nx.DiGraph([(2, 0), (0, 1)]))
    assert (graph.labels, pairs(graph)) == (None, [(0, 1), (2, 0)])
    # but 1 and 5 are not the items of a graph of two
    assert names(graph_from_networkx(nx.DiGraph([(1, 5)]))) == {"1→5"}


def test_undirected_edges_are_two_relations() -> None:
    assert pairs(graph_from_networkx(nx.Graph([(0, 1), (1, 1)]))) == [(0, 1), (1, 0), (1, 1)]
    undirected = rx.PyGraph()
    undirected.extend_from_edge_list([(0, 1), (1, 1)])
    assert pairs(graph_from_rustworkx(undirected)) == [(0, 1), (1, 0), (1, 1)]


def test_rustworkx_graphs_keep_their_names_past_removed_nodes() -> None:
    source = rx.PyDiGraph()
    cat, gone, mammal = source.add_nodes_from(["cat", "gone", "mammal"])
    source.add_edges_from_no_data([(cat, mammal), (gone, cat)])
    source.remove_node(gone)
    graph = graph_from_rustworkx(source)
    assert (graph.items, graph.labels, names(graph)) == (2, ("cat", "mammal"), {"cat→mammal"})


def test_rustworkx_agrees_with_networkx() -> None:
    theirs = nx.gnp_random_graph(30, 0.2, seed=1, directed=True)
    assert graph_from_rustworkx(rx.networkx_converter(theirs)) == graph_from_networkx(theirs)
    assert graph_from_rustworkx(rx.generators.directed_path_graph(3)).labels is None


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (nx.MultiDiGraph([("cat", "dog"), ("cat", "dog")]), "cat → dog is given twice"),
        (nx.DiGraph([(1, "1")]), "'1' names 2 items"),
        (nx.DiGraph(), "a graph is a whole number from 1"),
    ],
)
def test_a_networkx_graph_that_is_no_graph_of_ours_says_why(source: nx.DiGraph, says: str) -> None:
    with pytest.raises(InputError, match=says):
        graph_from_networkx(source)


@pytest.mark.parametrize(
    "impossible",
    [
        lambda: permutation_graph(0, seed=0),
        lambda: regular_graph(4, 4, seed=0),
        lambda: regular_graph(4, 0, seed=0),
        lambda: random_graph(3, 7, seed=0),
        lambda: random_graph(3, -1, seed=0),
        lambda: random_graph(0, 0, seed=0),
        lambda: star_graph(0, direction="out"),
        lambda: power_law_graph(4, 7, exponent=2.5, seed=0),
        lambda: power_law_graph(4, 2, exponent=2.0, seed=0),
        lambda: power_law_graph(4, 2, exponent=float("nan"), seed=0),
        lambda: positional_graph(permutation_graph(3, seed=0), 2, offsets=[2]),
        lambda: positional_graph(permutation_graph(3, seed=0), 0, offsets=[]),
    ],
)
def test_an_impossible_graph_is_refused(impossible: Callable[[], Graph]) -> None:
    with pytest.raises(InputError):
        impossible()
