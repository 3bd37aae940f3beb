"""Blocks: the relations each head is responsible for, as its sources V_k and their targets T_k in the same order."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from manyheads.construct.matching import equitable_matchings, lemma_matchings, split_by_head
from manyheads.problem.graph import Graph

Block = tuple[Int64[ndarray, "_"], Int64[ndarray, "_"]]
Packing = Literal["equitable", "lemma"]


def split_sources(graph: Graph, *, size: int) -> list[Block]:
    """A permutation's sources in ⌈m/size⌉ consecutive blocks, as equal as can be.

    >>> from manyheads import permutation_graph
    >>> [len(sources) for sources, _ in split_sources(permutation_graph(10, seed=0), size=4)]
    [4, 3, 3]
    """
    heads = math.ceil(graph.items / size)
    return list(zip(np.array_split(graph.sources, heads), np.array_split(graph.targets, heads), strict=True))


def pack(graph: Graph, *, size: int, packing: Packing = "equitable") -> list[Block]:
    """Any graph's relations in matchings of at most the given size; a graph without relations is one empty block."""
    if graph.relations == 0:
        return [(graph.sources, graph.targets)]
    matchings = equitable_matchings if packing == "equitable" else lemma_matchings
    return split_by_head(graph, matchings(graph, block_size=size))
