"""Shapes of a layer, (heads, key width): impossible ones, predicted ones, splits of a budget, and the band of softmax.

The band: let every head's logits of pairs without a relation lie within ±b, and a relation's logit in its best head
above e. Then in a context of ℓ items a pair without a relation has a share of at most e^2b/(ℓ − 1 + e^2b) in each of h
heads. A relation, beside r − 1 other targets of its source, has a share of at least 1/(r + (ℓ − r)·e^(b − e)) in its
best head (docs/reference/laws.md, section 4). A threshold exists if the second share exceeds h times the first. So
relations have to rise above a band of other pairs by the ratio e/b; `narrowest_band` finds the smallest such ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.bounds import bit_key_budget, freedom_key_width
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

BITS = 32  # of a parameter in the layers that fit makes
FEW = 1.2  # a prediction with fewer heads is preferred up to this factor on the smallest budget
WASTE = 0.12  # the part of a budget that a split may leave unused


def require_possible(problem: Problem, *, key_budget: int | None) -> None:
    """Refuse a key budget below the bit budget, and items that no layer can tell apart.

    Raises:
        InputError: The key budget is too small, or no layer can tell two items apart.
    """
    graph, least = problem.graph, least_key_budget(problem.graph, problem.d_model)
    if key_budget is not None and key_budget < least:
        raise InputError(
            f"a key budget of {key_budget} is below the bit budget: {2 * problem.d_model * key_budget + 1} numbers "
            f"of {BITS} bits cannot tell all graphs with {graph.items} items and {graph.relations} relations apart, "
            f"{least} is the least that can"
        )
    problem.require_distinct()


def least_key_budget(graph: Graph, d_model: int) -> int:
    """The bit budget of the graph's kind: permutations, or all graphs with as many relations."""
    return bit_key_budget(
        items=graph.items, relations=graph.relations, d_model=d_model, bits=BITS, permutation=graph.is_permutation
    )


def predicted_shape(graph: Graph, d_model: int, *, heads: int | None = None) -> tuple[int, int]:
    """The key budget and the head count that the degrees of freedom predict (`bounds.freedom_key_width`).

    The predicted budget hardly depends on the head count, and fits with few heads need less than it. So it is the
    prediction for the fewest heads whose budget is within a factor FEW of the smallest.

    Args:
        graph: The graph to hold.
        d_model: The width of the embedding.
        heads: A number of heads to predict the budget for, instead of the best number.

    Returns:
        The key budget and the number of heads.
    """
    relations = max(1, graph.relations)
    counted = min(relations, graph.items**2 - 1)
    if heads is not None:
        width = freedom_key_width(items=graph.items, relations=counted, d_model=d_model, heads=heads)
        return heads * (width or d_model), heads
    shapes = []
    for heads in range(1, 4 * relations):
        width = freedom_key_width(items=graph.items, relations=counted, d_model=d_model, heads=heads)
        if width is not None:
            shapes.append((heads * width, heads))
            if heads > 4 * min(shapes)[1]:
                break
    if not shapes:
        return relations, relations
    smallest = min(shapes)[0]
    return next(shape for shape in shapes if shape[0] <= FEW * smallest)


def splits(key_budget: int, d_model: int) -> list[tuple[int, int]]:
    """All (heads, key_width) with key_width ≤ d_model that leave less than WASTE of the budget unused.

    Args:
        key_budget: D_K.
        d_model: Width of the embedding.

    Returns:
        Pairs (heads, key_width), by increasing number of heads.
    """
    shapes = [(heads, min(key_budget // heads, d_model)) for heads in range(1, key_budget + 1)]
    return [(heads, width) for heads, width in shapes if heads * width > key_budget * (1 - WASTE)]


NARROWEST = 1e-3  # the smallest half width to try
ROOM = 1.1  # the relation's share over the most that all heads together give another pair


@dataclass(frozen=True)
class Band:
    """Logits of other pairs within ± half_width, those of relations above ratio · half_width."""

    half_width: float
    ratio: float


def most_heads(*, degree: int, lengths: tuple[int, int]) -> int:
    """The most heads for which a band exists: their shares of another pair add up to less than a relation's share."""
    grown = math.exp(2 * NARROWEST)
    return math.ceil((lengths[0] - 1 + grown) / (ROOM * degree * grown)) - 1


def narrowest_band(*, heads: int, degree: int, lengths: tuple[int, int]) -> Band:
    """The band with the smallest ratio.

    Args:
        heads: The number of heads.
        degree: r, the most targets of a source in one context.
        lengths: The least and the greatest number of items in a context.

    Raises:
        InputError: No band exists for this number of heads.
    """
    shortest, longest = lengths
    best: Band | None = None
    for half_width in np.geomspace(NARROWEST, 10, 400).tolist():
        grown = math.exp(2 * half_width)
        other = heads * grown / (shortest - 1 + grown)  # the most that all heads together give another pair
        share = ROOM * other
        if share * degree >= 1:
            break
        # share = 1/(r + (ℓ − r)·e^(b − e)), solved for e
        logit = half_width + math.log(max(longest - degree, 1) / (1 / share - degree))
        if best is None or logit / half_width < best.ratio:
            best = Band(half_width, logit / half_width)
    if best is None:
        raise InputError(
            f"{heads} heads are too many for contexts of {shortest} items: their shares add up to {heads}, "
            f"so a pair without a relation gets {heads}/{shortest} on average, a relation at most 1/{degree}"
        )
    return best
