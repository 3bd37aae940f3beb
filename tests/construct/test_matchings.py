"""Matchings: proper, equitable and as few as can be, against enumeration and rustworkx's edge colouring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import rustworkx
from hypothesis import example, given
from hypothesis import strategies as st

from manyheads import Graph, InputError, _native, permutation_graph
from manyheads.construct.matchings import equitable_matchings, lemma_matchings, split_by_head

Edges = list[tuple[int, int]]


def graph_of(items: int, edges: Edges) -> Graph:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return Graph(items, ends[:, 0], ends[:, 1])


def skewed(items: int, draws: int, exponent: float, *, seed: int) -> Graph:
    """Ends drawn with weight rank^−exponent, the two sides ranked apart; draws that repeat a relation are dropped."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, items + 1) ** -exponent
    ends = rng.choice(items, size=(draws, 2), p=weights / weights.sum())
    ends = np.unique(np.stack([rng.permutation(items)[end] for end in ends.T], axis=1), axis=0)
    return Graph(items, ends[:, 0], ends[:, 1])


GRAPHS = {
    "empty": graph_of(5, []),
    "single relation": graph_of(2, [(0, 1)]),
    "single loop": graph_of(1, [(0, 0)]),
    "loops": graph_of(7, [(i, i) for i in range(7)]),
    "path with loops": graph_of(6, [(i, j) for i in range(6) for j in (i, i + 1) if j < 6]),
    "star out": graph_of(40, [(3, j) for j in range(40)]),
    "star in": graph_of(40, [(i, 3) for i in range(40)]),
    "two stars": graph_of(60, sorted({(0, j) for j in range(60)} | {(i, 0) for i in range(60)})),
    "complete": graph_of(13, [(i, j) for i in range(13) for j in range(13)]),
    "half of a complete": graph_of(13, [(i, j) for i in range(13) for j in range(i)]),
    "permutation": permutation_graph(100, seed=0),
    "circulant": graph_of(30, [(i, (i + step) % 30) for i in range(30) for step in (0, 1, 4, 9)]),
    "uniform": skewed(300, 2000, 0.0, seed=1),
    "skewed": skewed(300, 3000, 0.8, seed=2),
    "very skewed": skewed(2000, 30_000, 1.1, seed=3),
}
BLOCKS = [1, 2, 3, 7, 16, 64, 100_000]


def heads_used(heads: np.ndarray) -> int:
    return int(heads.max()) + 1 if heads.size else 0


def fewest_heads(graph: Graph, matching_size: int) -> int:
    return max(graph.max_degree, math.ceil(graph.relations / matching_size))


def assert_matchings(graph: Graph, heads: np.ndarray, matching_size: int) -> None:
    """Every head has relations, at most matching_size, and none of them shares a source or a target with another."""
    assert heads.shape == graph.sources.shape
    sizes = Counter(heads.tolist())
    assert sorted(sizes) == list(range(len(sizes)))
    assert all(size <= matching_size for size in sizes.values())
    for ends in (graph.sources, graph.targets):
        assert len(set(zip(heads.tolist(), ends.tolist(), strict=True))) == graph.relations


def assert_equitable(heads: np.ndarray) -> None:
    sizes = np.bincount(heads)
    assert sizes.size == 0 or sizes.max() - sizes.min() <= 1


def konig(graph: Graph) -> np.ndarray:
    """The oracle: rustworkx's colour of each relation."""
    bipartite = rustworkx.PyGraph()
    bipartite.add_nodes_from(range(2 * graph.items))
    bipartite.add_edges_from_no_data(
        [(int(i), graph.items + int(j)) for i, j in zip(graph.sources, graph.targets, strict=True)]
    )
    colours = rustworkx.graph_bipartite_edge_color(bipartite)
    return np.array([colours[edge] for edge in range(graph.relations)], dtype=np.int64)


def enumerated_fewest_heads(edges: Edges, matching_size: int) -> int:
    """The oracle: tries every way to give the relations to the heads."""

    def fits(rest: Edges, blocks: list[Edges], heads: int) -> bool:
        if not rest:
            return True
        (source, target), *rest = rest
        opened = [*blocks, []] if len(blocks) < heads else blocks  # heads are alike: one new head stands for all
        return any(
            len(block) < matching_size
            and all(source != s and target != t for s, t in block)
            and fits(rest, [*opened[:k], [*block, (source, target)], *opened[k + 1 :]], heads)
            for k, block in enumerate(opened)
        )

    return next(heads for heads in range(len(edges) + 1) if fits(edges, [], heads))


@pytest.mark.parametrize("matching_size", BLOCKS)
@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_are_few_and_equal(name: str, matching_size: int) -> None:
    graph = GRAPHS[name]
    heads = equitable_matchings(graph, matching_size=matching_size)
    assert_matchings(graph, heads, matching_size)
    assert_equitable(heads)
    assert heads_used(heads) == fewest_heads(graph, matching_size)
    np.testing.assert_array_equal(heads, equitable_matchings(graph, matching_size=matching_size))


@pytest.mark.parametrize("matching_size", BLOCKS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_lemma_holds_and_is_never_better(name: str, matching_size: int) -> None:
    graph = GRAPHS[name]
    heads = lemma_matchings(graph, matching_size=matching_size)
    assert_matchings(graph, heads, matching_size)
    assert fewest_heads(graph, matching_size) <= heads_used(heads)
    assert heads_used(heads) <= math.ceil(graph.relations / matching_size) + graph.max_degree


@pytest.mark.parametrize(
    ("name", "matching_size", "equitable", "lemma"),
    [
        ("circulant", 20, 6, 8),  # 4 matchings of 30, each cut in two, where 120/20 blocks suffice
        ("circulant", 29, 5, 8),  # one relation too many in each of the 4
        ("complete", 12, 15, 26),
        ("complete", 13, 13, 13),  # Δ matchings that just fit
        ("permutation", 30, 4, 4),
        ("star out", 8, 40, 40),  # only Δ counts
    ],
)
def test_where_the_lemma_needs_more_heads(name: str, matching_size: int, equitable: int, lemma: int) -> None:
    graph = GRAPHS[name]
    assert heads_used(equitable_matchings(graph, matching_size=matching_size)) == equitable
    assert heads_used(lemma_matchings(graph, matching_size=matching_size)) == lemma


@pytest.mark.parametrize("name", GRAPHS)
def test_one_large_block_needs_as_many_colours_as_rustworkx(name: str) -> None:
    graph = GRAPHS[name]
    oracle = konig(graph)
    assert_matchings(graph, oracle, max(graph.relations, 1))
    for matchings in (equitable_matchings, lemma_matchings):
        assert heads_used(matchings(graph, matching_size=max(graph.relations, 1))) == heads_used(oracle)


vertices = st.integers(0, 8)


@given(edges=st.sets(st.tuples(vertices, vertices), max_size=60), matching_size=st.integers(1, 62))
def test_any_graph(edges: set[tuple[int, int]], matching_size: int) -> None:
    graph = graph_of(9, sorted(edges))
    heads, lemma = (
        equitable_matchings(graph, matching_size=matching_size),
        lemma_matchings(graph, matching_size=matching_size),
    )
    assert_matchings(graph, heads, matching_size)
    assert_matchings(graph, lemma, matching_size)
    assert_equitable(heads)
    assert heads_used(heads) == fewest_heads(graph, matching_size) <= heads_used(lemma)


small = st.integers(0, 3)


@given(edges=st.sets(st.tuples(small, small), max_size=7), matching_size=st.integers(1, 4))
def test_fewer_heads_cannot_do(edges: set[tuple[int, int]], matching_size: int) -> None:
    heads = equitable_matchings(graph_of(4, sorted(edges)), matching_size=matching_size)
    assert heads_used(heads) == enumerated_fewest_heads(sorted(edges), matching_size)


hubs = st.one_of(st.just(0), st.integers(0, 2), st.integers(0, 20))  # degrees far apart


@given(edges=st.lists(st.tuples(hubs, hubs), min_size=1, max_size=150), spare=st.integers(0, 70))
@example(edges=[(0, 0)] * 130, spare=0)  # parallel edges alone, colours past two words of 64
@example(edges=[(0, 1), (1, 0), (0, 0), (1, 1)] * 16, spare=0)  # 2 · 16 · 2 edges in exactly 32 perfect matchings
def test_the_colouring_takes_parallel_edges_in_any_order(edges: Edges, spare: int) -> None:
    left, right = np.array(edges, dtype=np.int64).T.copy()
    colours = max(*Counter(left.tolist()).values(), *Counter(right.tolist()).values()) + spare
    colour_of = _native.equitable_colouring(left, right, 21, colours)
    for ends in (left, right):
        assert len(set(zip(ends.tolist(), colour_of.tolist(), strict=True))) == len(edges)
    sizes = np.bincount(colour_of, minlength=colours)
    assert sizes.size == colours
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(
    ("left", "right", "colours", "says"),
    [
        ([0, 0], [1, 2], 1, "more edges than there are colours"),
        ([0, 3], [1, 2], 2, "outside the graph"),
        ([0, 1], [1, -1], 2, "outside the graph"),
        ([0, 1], [1], 2, "two ends"),
        ([0], [1], 0, "at least one colour"),
        ([0], [1], 2**31, "at most"),
    ],
)
def test_the_colouring_refuses_what_it_cannot_colour(
    left: list[int], right: list[int], colours: int, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        _native.equitable_colouring(np.array(left), np.array(right), 3, colours)


@pytest.mark.parametrize("name", ["empty", "permutation", "skewed"])
def test_split_by_head_hands_out_every_relation_once(name: str) -> None:
    graph = GRAPHS[name]
    heads = equitable_matchings(graph, matching_size=16)
    blocks = split_by_head(graph, heads)
    assert len(blocks) == heads_used(heads)
    handed_out = [
        (head, source, target)
        for head, (sources, targets) in enumerate(blocks)
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True)
    ]
    relations = zip(heads.tolist(), graph.sources.tolist(), graph.targets.tolist(), strict=True)
    assert handed_out == sorted(relations)


@pytest.mark.parametrize("matchings", [equitable_matchings, lemma_matchings])
@pytest.mark.parametrize("matching_size", [0, -3])
def test_a_matching_holds_something(matchings: Callable[..., object], matching_size: int) -> None:
    with pytest.raises(InputError, match=f"at least 1, not {matching_size}"):
        matchings(GRAPHS["permutation"], matching_size=matching_size)
