"""Bits per weight: log2 of the number of graphs of a family, over the weights of W_Q and W_K.

The unit of every layer and threshold. It compares layers of different sizes, graphs of different kinds, and other papers:
trained language models store about 2 bits of facts in a parameter (Allen-Zhu & Li 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.bounds.lower import LN2, ln_graphs
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.graph_kinds import GraphFamily, graph_family


@dataclass(frozen=True, kw_only=True)
class BitsPerWeight:
    """log2|𝒢| over the weights of W_Q and W_K, where 𝒢 is the family that the graph is one of.

    Attributes:
        value: The bits for each weight.
        family: 𝒢 in words, e.g. "permutations of 64 items".
        log2_graphs: log2|𝒢|, the bits that tell one graph of the family from all others.
        weights: The numbers in W_Q and W_K.
    """

    value: float
    family: str
    log2_graphs: float
    weights: int

    def __str__(self) -> str:
        return f"{self.value:.3g}: {self.log2_graphs:,.0f} bits ({self.family}) in {self.weights:,} weights"


def bits_per_weight(graph: Graph | GraphFamily | str, *, weights: int) -> BitsPerWeight:
    """The bits that each weight of a layer holds, if the layer holds one graph of a family and could hold any.

    The family of a given graph: all permutations if it is one, all r-regular graphs if it is one, otherwise all graphs
    with as many items and relations. Where the graph has a loop, the last family has loops too.

    Args:
        graph: A graph, a family, or the words of a family such as "permutation:64".
        weights: The numbers in W_Q and W_K (`Layer.weights`, `Shape.parameters`), at least 1.

    Returns:
        The value, with the family in words.

    Raises:
        InputError: There is no weight, or the words name no family.

    >>> print(bits_per_weight("permutation:64", weights=2 * 16 * 8))
    1.16: 296 bits (permutations of 64 items) in 256 weights
    """
    if weights < 1:
        raise InputError(f"a layer has at least 1 weight, not {weights}")
    family, bits = _counted(graph_family(graph) if isinstance(graph, str) else graph)
    return BitsPerWeight(value=bits / weights, family=family, log2_graphs=bits, weights=weights)


def _counted(graph: Graph | GraphFamily) -> tuple[str, float]:
    """The family in words, and log2 of its number of graphs."""
    family = _regular_family(graph) if isinstance(graph, Graph) else graph
    if family is not None and family.kind.log2_graphs is not None:
        return f"{family.label} of {family.items:,} items", family.kind.log2_graphs(family.items, *family.values)
    loops = isinstance(graph, Graph) and graph.has_loops
    bits = float(ln_graphs(items=graph.items, relations=graph.relations, loops=loops)) / LN2
    return f"graphs of {graph.items:,} items and {graph.relations:,} relations{', loops allowed' * loops}", bits


def _regular_family(graph: Graph) -> GraphFamily | None:
    if graph.is_permutation:
        return graph_family(f"permutation:{graph.items}")
    degree = graph.max_degree
    if graph.has_loops or degree < 1 or graph.relations != graph.items * degree:  # then every degree is the largest
        return None
    return graph_family(f"regular:{graph.items}:{degree}")
