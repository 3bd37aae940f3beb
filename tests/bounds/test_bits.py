"""Bits per weight: the number of graphs of each family against enumeration, and which family a graph counts as."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from manyheads import (
    Graph,
    GraphKind,
    InputError,
    Layer,
    permutation_graph,
    random_graph,
    register_graph_kind,
    regular_graph,
    star_graph,
)
from manyheads.bounds import Shape, bits_per_weight, ln_graphs, ln_permutations
from manyheads.problem.graph_kinds import GRAPH_KINDS, log2_regular_graphs


def regular_graphs(items: int, degree: int) -> int:
    """The number of loop-free graphs with this in- and out-degree, source by source, by the degrees that are left."""
    states = Counter({(degree,) * items: 1})
    for source in range(items):
        reached: Counter[tuple[int, ...]] = Counter()
        for left, count in states.items():
            free = [target for target in range(items) if left[target] and target != source]
            for chosen in combinations(free, degree):
                rest = tuple(value - (target in chosen) for target, value in enumerate(left))
                if max(rest) < items - source:
                    reached[rest] += count
        states = reached
    return states[(0,) * items]


def test_regular_graphs_counted_one_by_one() -> None:
    assert regular_graphs(5, 2) == 216  # OEIS A007107
    for items, degree in ((4, 2), (5, 1), (5, 2), (5, 3), (6, 2), (6, 3), (6, 4), (7, 2), (8, 2)):
        gap = math.log2(regular_graphs(items, degree)) - log2_regular_graphs(items, degree)
        assert 0 < gap < 0.72 / items, (items, degree)
    assert log2_regular_graphs(9, 8) == 0  # the complete graph, the only one


def test_regular_graphs_are_fewer_than_graphs_and_more_than_permutations() -> None:
    for items, degree in ((64, 2), (128, 16), (4096, 4)):
        bits = log2_regular_graphs(items, degree)
        assert float(ln_permutations(items)) / math.log(2) < bits
        assert bits < float(ln_graphs(items=items, relations=items * degree)) / math.log(2)


@pytest.mark.parametrize(
    ("graph", "words", "family"),
    [
        (permutation_graph(40, seed=0), "permutation:40", "permutations of 40 items"),
        (regular_graph(40, 1, seed=0), "regular:40:1", "permutations of 40 items"),
        (regular_graph(40, 3, seed=0), "regular:40:3", "3-regular graphs of 40 items"),
        (random_graph(40, 90, seed=0), "random:40:90", "graphs of 40 items and 90 relations"),
        (star_graph(40, direction="in"), "star-in:40", "graphs of 40 items and 39 relations"),
    ],
)
def test_a_graph_counts_as_the_family_that_it_is_drawn_from(graph: Graph, words: str, family: str) -> None:
    one, all_of_them = bits_per_weight(graph, weights=100), bits_per_weight(words, weights=100)
    assert one == all_of_them
    assert one.family == family
    assert one.value == one.log2_graphs / 100


def test_loops_count() -> None:
    with_loop = Graph(4, np.array([0, 1]), np.array([0, 2]))
    found = bits_per_weight(with_loop, weights=1)
    assert found.family == "graphs of 4 items and 2 relations, loops allowed"
    assert found.value == pytest.approx(math.log2(math.comb(16, 2)))
    without = Graph(4, np.array([0, 1]), np.array([1, 2]))
    assert bits_per_weight(without, weights=1).value == pytest.approx(math.log2(math.comb(12, 2)))
    empty = Graph(4, np.array([], dtype=int), np.array([], dtype=int))
    assert bits_per_weight(empty, weights=1).value == 0


def test_kinds_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that says nothing counts by its items and relations; one that counts itself is believed."""
    monkeypatch.setattr("manyheads.problem.graph_kinds.GRAPH_KINDS", kinds := dict(GRAPH_KINDS))
    ring = GraphKind(
        name="ring",
        draw=lambda items, *, seed: Graph(items, np.arange(items), np.roll(np.arange(items), 1)),
        relations=lambda items: items,
        label="rings",
    )
    register_graph_kind(ring)
    register_graph_kind(replace(ring, name="known-ring", log2_graphs=lambda items: math.log2(items)))
    assert "ring" in kinds
    assert bits_per_weight("ring:12", weights=5).family == "graphs of 12 items and 12 relations"
    known = bits_per_weight("known-ring:8", weights=6)
    assert (known.family, known.value) == ("rings of 8 items", 0.5)


def test_weights_are_counted_from_the_arrays() -> None:
    layer = Layer(np.zeros((3, 16, 4)), np.zeros((3, 16, 4)), 0.0)
    assert layer.weights == 2 * 3 * 16 * 4 == Shape(d_model=16, heads=3, key_width=4).parameters


def test_no_weights() -> None:
    with pytest.raises(InputError, match="at least 1 weight"):
        bits_per_weight("permutation:8", weights=0)
