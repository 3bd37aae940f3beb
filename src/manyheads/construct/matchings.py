"""Matchings, the relations that each head holds, and the constructions from them: II (Algorithm 1), IV (Algorithm 5).

No two relations of a matching share a source or a target. A `Matching` is the sources V_k of head k and their targets
T_k, in the same order.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads._native import equitable_colouring
from manyheads.construct.heads import RADEMACHER, assemble, de_embed, require_permutation, require_sizes, warn_if_narrow
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph, Matching
from manyheads.problem.problem import Problem

Packing = Literal["equitable", "lemma"]


def compressive(problem: Problem, *, key_width: int, seed: int, matching_size: int | None = None) -> Layer:
    """Algorithm 1: split the sources into matchings of d_model relations, one head for each.

    Head k is construction I on its matching, after the approximate inverse Xᵀ of the embedding. The fewer
    relations a head holds, the smaller is the sum of the overlaps between rows in its scores.

    Args:
        problem: A permutation, and rows of about length one.
        key_width: d_k, the width of a head, at least 1.
        seed: Decides the signatures.
        matching_size: The most relations of a head, at least 1; by default d_model.

    Returns:
        A layer of ⌈m/matching_size⌉ heads with the threshold d_k/2.

    Raises:
        InputError: The graph is no permutation, or a size is below 1.
    """
    matching_size = problem.d_model if matching_size is None else matching_size
    require_sizes(problem, key_width=key_width, matching_size=matching_size, seed=seed)
    require_permutation(problem.graph)
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    matchings = split_sources(problem.graph, size=matching_size)
    return assemble([de_embed(problem.rows, matching, words) for matching in matchings], threshold=key_width / 2)


def general(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    matching_size: int | None = None,
    packing: Packing = "equitable",
) -> Layer:
    """Algorithm 5: pack the relations into matchings of at most d_model relations, one head for each.

    Args:
        problem: Any graph, and rows of about length one.
        key_width: d_k, the width of a head, at least 1.
        seed: Decides the signatures.
        matching_size: B, the most relations of a head, at least 1; by default d_model.
        packing: `equitable` takes max(Δ, ⌈m'/B⌉) heads, the fewest possible; `lemma`, as published, up to ⌈m'/B⌉ + Δ.

    Returns:
        A layer with the threshold d_k/2.

    Raises:
        InputError: A size is below 1.
    """
    matching_size = problem.d_model if matching_size is None else matching_size
    require_sizes(problem, key_width=key_width, matching_size=matching_size, seed=seed)
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    matchings = pack(problem.graph, size=matching_size, packing=packing)
    return assemble([de_embed(problem.rows, matching, words) for matching in matchings], threshold=key_width / 2)


def split_sources(graph: Graph, *, size: int) -> list[Matching]:
    """Split a permutation's sources into ⌈m/size⌉ consecutive parts whose sizes differ by at most one.

    Args:
        graph: A permutation.
        size: The most relations of a matching, at least 1.

    Returns:
        One matching for each head.

    >>> from manyheads import permutation_graph
    >>> [len(sources) for sources, _ in split_sources(permutation_graph(10, seed=0), size=4)]
    [4, 3, 3]
    """
    heads = math.ceil(graph.items / size)
    return list(zip(np.array_split(graph.sources, heads), np.array_split(graph.targets, heads), strict=True))


def pack(graph: Graph, *, size: int, packing: Packing = "equitable") -> list[Matching]:
    """Pack the relations of any graph into matchings.

    Args:
        graph: Any graph.
        size: The most relations of a matching, at least 1.
        packing: `equitable` takes the fewest matchings that exist, `lemma` the matchings of Lemma B.8.

    Returns:
        One matching for each head; for a graph without relations, one empty matching.

    Raises:
        InputError: The size is below 1.
    """
    if graph.relations == 0:
        return [(graph.sources, graph.targets)]
    matchings = equitable_matchings if packing == "equitable" else lemma_matchings
    return split_by_head(graph, matchings(graph, matching_size=size))


def equitable_matchings(graph: Graph, *, matching_size: int) -> Int64[ndarray, " relations"]:
    """Divide the relations among h = max(Δ, ⌈m'/B⌉) matchings whose sizes differ by at most one.

    Fewer heads are impossible: an item of degree Δ needs Δ heads, and h − 1 matchings of B hold fewer than m'
    relations. This number always suffices. With the sources on one side and the targets on the other the graph is
    bipartite, and a bipartite graph has an equitable proper edge colouring for every number of colours from Δ on
    (de Werra, McDiarmid). Its colours have at most ⌈m'/h⌉ ≤ B relations. Lemma B.8 counts ⌈m'/B⌉ + Δ heads.

    Args:
        graph: Any graph.
        matching_size: B, the most relations of a matching, at least 1.

    Returns:
        The head 0 … h − 1 of each relation, in the order of the graph's relations.

    Raises:
        InputError: The size is below 1.

    >>> equitable_matchings(Graph(3, sources=np.array([0, 0, 1]), targets=np.array([0, 1, 1])), matching_size=2)
    array([0, 1, 0])
    """
    _check(matching_size)
    heads = max(graph.max_degree, -(-graph.relations // matching_size))
    colours = equitable_colouring(graph.sources, graph.targets, graph.items, heads)
    return np.asarray(colours, dtype=np.int64)  # nanobind's "long long" is another type than int64 to numpy


def lemma_matchings(graph: Graph, *, matching_size: int) -> Int64[ndarray, " relations"]:
    """Divide the relations as Lemma B.8 does: König's Δ matchings, each cut into parts of at most B relations.

    Any colouring with Δ colours serves the lemma; this one is equitable. It takes at most ⌈m'/B⌉ + Δ heads.
    Arguments, return value and errors are those of `equitable_matchings`.
    """
    _check(matching_size)
    colours = equitable_matchings(graph, matching_size=max(graph.relations, 1))  # with this size, h = Δ
    sizes = np.bincount(colours)
    rank = np.empty_like(colours)  # of each relation within its colour
    rank[np.argsort(colours, kind="stable")] = np.arange(len(colours)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = -(-sizes // matching_size)
    return (np.cumsum(parts) - parts)[colours] + rank // matching_size


def split_by_head(graph: Graph, heads: Int64[ndarray, " relations"]) -> list[Matching]:
    """The matching of each head, given the head of each relation."""
    order = np.argsort(heads, kind="stable")
    sources, targets = graph.sources[order], graph.targets[order]
    stops = np.cumsum(np.bincount(heads)).tolist()
    return [(sources[start:stop], targets[start:stop]) for start, stop in pairwise([0, *stops])]


def _check(matching_size: int) -> None:
    if matching_size < 1:
        raise InputError(f"the matching size must be at least 1, not {matching_size}")
