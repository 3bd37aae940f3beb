"""The number of graphs of a family, and bits per weight: log2 of this number over the weights of W_Q and W_K.

Bits per weight is the unit of every layer and threshold. It compares layers of different sizes, graphs of different
kinds, and other papers: trained language models store about 2 bits of facts in a parameter (Allen-Zhu & Li 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from manyheads.bounds.arguments import Given, Reals, Wholes, whole
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.graph_kinds import DEGREE, GraphFamily, graph_family
from manyheads.tables import counted

LN2 = math.log(2.0)
MOST_ITEMS = 2**31 - 1  # their m² pairs are whole numbers of 64 bits
DIRECT = 32  # with fewer relations ln C(n, k) is a sum of k logarithms, with more it is Stirling's series


def ln_graphs(*, items: Given, relations: Given, loops: bool = False) -> Reals:
    """ln C(N, m'), where C(N, m') is the number of graphs with m' relations among N ordered pairs (Sec. 9).

    The relative error is below 10^−14. Differences of log-gamma functions would lose every digit where m is large.

    Args:
        items: m, from 1 to 2^31 − 1.
        relations: m', from 0 to N.
        loops: Whether an item may relate to itself: N = m² instead of m·(m − 1).

    Returns:
        The logarithm, in nats.

    Raises:
        InputError: A number is not whole, or out of its range.

    >>> round(float(np.exp(ln_graphs(items=4, relations=3))))  # C(12, 3)
    220
    """
    m, k = whole(items, "items"), whole(relations, "relations")
    if (m < 1).any() or (m > MOST_ITEMS).any():
        raise InputError("graphs are counted for 1 to 2^31 − 1 items")
    pairs = m * m if loops else m * (m - 1)
    if (k < 0).any() or (k > pairs).any():
        worst = np.argmax(np.broadcast_to((k < 0) | (k > pairs), np.broadcast_shapes(k.shape, pairs.shape)))
        wrong, most = np.broadcast_arrays(k, pairs)
        raise InputError(f"{wrong.flat[worst]} relations do not fit into {most.flat[worst]} ordered pairs")
    return ln_binomial(n=pairs, k=k)


def ln_permutations(items: Given) -> Reals:
    """ln m!, where m! is the number of permutation graphs of m items.

    Args:
        items: m, whole numbers.

    Returns:
        The logarithms, in nats.

    Raises:
        InputError: A number is not whole.
    """
    return np.asarray(gammaln(whole(items, "items") + 1.0))


def ln_binomial(*, n: Given, k: Given) -> Reals:
    """ln C(n, k), in nats.

    For k, n − k ≥ 32: k·ln(n/k) − (n − k)·log1p(−k/n) + ½·ln(n/(2πk(n − k))) and the remainders of Stirling's series, a
    sum without cancellation. Otherwise: the product of (n − i)/(i + 1) over i < k.

    Args:
        n: Whole numbers below 2^63.
        k: Whole numbers from 0 to n.

    Returns:
        The logarithms.

    Raises:
        InputError: A number is not whole.
    """
    total, chosen = np.broadcast_arrays(whole(n, "n"), whole(k, "k"))
    fewer = np.minimum(chosen, total - chosen)
    direct, series = _product(total, np.minimum(fewer, DIRECT)), _stirling(total, np.maximum(fewer, DIRECT))
    return np.where(fewer < DIRECT, direct, series)


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
        return (
            f"{self.value:.3g}: {counted(round(self.log2_graphs), 'bit')} ({self.family}) in {self.weights:,} weights"
        )


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
    if family is not None and family.kind.parameters == (DEGREE,) and family.values == (1,):
        family = graph_family(f"permutation:{family.items}")  # a regular graph of degree 1 is one
    if family is not None and family.kind.log2_graphs is not None:
        return f"{family.label} of {family.items:,} items", family.kind.log2_graphs(family.items, *family.values)
    loops = isinstance(graph, Graph) and graph.has_loops
    bits = float(ln_graphs(items=graph.items, relations=graph.relations, loops=loops)) / LN2
    sizes = f"{counted(graph.items, 'item')} and {counted(graph.relations, 'relation')}"
    return f"graphs of {sizes}{', loops allowed' * loops}", bits


def _regular_family(graph: Graph) -> GraphFamily | None:
    if graph.is_permutation:
        return graph_family(f"permutation:{graph.items}")
    degree = graph.max_degree
    if graph.has_loops or degree < 1 or graph.relations != graph.items * degree:  # then every degree is the largest
        return None
    return graph_family(f"regular:{graph.items}:{degree}")


def _product(n: Wholes, k: Wholes) -> Reals:
    total = np.zeros(n.shape)
    for i in range(DIRECT):
        chosen = i < k
        total += np.where(chosen, np.log(np.where(chosen, n - i, 1) / (i + 1.0)), 0.0)
    return total


def _stirling(n: Wholes, k: Wholes) -> Reals:
    n = np.maximum(n, 2 * k)  # valid also where the product is used instead
    rest = n - k
    main = xlogy(k, n / k) - rest * np.log1p(-(k / n))
    return main + 0.5 * np.log(n / k / rest / (2 * math.pi)) + _remainder(n) - _remainder(k) - _remainder(rest)


def _remainder(n: Wholes) -> Reals:
    """ln n! minus Stirling's approximation; after four terms the error is 10^−16 at n = 32."""
    x = 1.0 / n
    return x * (1 / 12 - x * x * (1 / 360 - x * x * (1 / 1260 - x * x / 1680)))
