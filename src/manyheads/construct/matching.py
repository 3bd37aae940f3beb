"""A graph into matchings, one for each head: no two relations of a head share a source or a target."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads._native import equitable_colouring
from manyheads.errors import InputError
from manyheads.problem.graph import Graph


def equitable_matchings(graph: Graph, *, block_size: int) -> Int64[ndarray, " relations"]:
    """The head 0 … h − 1 of each relation: h = max(Δ, ⌈m'/B⌉) matchings whose sizes differ by at most one.

    Fewer heads cannot do: an item of degree Δ needs Δ of them, and h − 1 blocks of B do not hold m' relations. So many
    always do: sources on one side and targets on the other make a bipartite graph, which has an equitable proper edge
    colouring for every number of colours from Δ on (de Werra, McDiarmid), and ⌈m'/h⌉ ≤ B. Lemma B.8 counts ⌈m'/B⌉ + Δ.

    >>> equitable_matchings(Graph(3, sources=np.array([0, 0, 1]), targets=np.array([0, 1, 1])), block_size=2)
    array([0, 1, 0])
    """
    _check(block_size)
    heads = max(graph.max_degree, -(-graph.relations // block_size))
    colours = equitable_colouring(graph.sources, graph.targets, graph.items, heads)
    return np.asarray(colours, dtype=np.int64)  # nanobind says "long long", which numpy tells apart from int64


def lemma_matchings(graph: Graph, *, block_size: int) -> Int64[ndarray, " relations"]:
    """Lemma B.8 as published: König's Δ matchings, each cut into blocks of at most B, ⌈m'/B⌉ + Δ heads at most.

    Any colouring with Δ colours serves the lemma; this is the equitable one.
    """
    _check(block_size)
    colours = equitable_matchings(graph, block_size=max(graph.relations, 1))  # one block holds all: h = Δ
    sizes = np.bincount(colours)
    rank = np.empty_like(colours)  # of each relation within its colour
    rank[np.argsort(colours, kind="stable")] = np.arange(len(colours)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    blocks = -(-sizes // block_size)
    return (np.cumsum(blocks) - blocks)[colours] + rank // block_size


def split_by_head(
    graph: Graph, heads: Int64[ndarray, " relations"]
) -> list[tuple[Int64[ndarray, " block"], Int64[ndarray, " block"]]]:
    """The sources and the targets of each head's relations, given the head of each relation."""
    order = np.argsort(heads, kind="stable")
    sources, targets = graph.sources[order], graph.targets[order]
    stops = np.cumsum(np.bincount(heads)).tolist()
    return [(sources[start:stop], targets[start:stop]) for start, stop in pairwise([0, *stops])]


def _check(block_size: int) -> None:
    if block_size < 1:
        raise InputError(f"a head holds a block of at least 1 relation, not {block_size}")
