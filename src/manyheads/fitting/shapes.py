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

from manyheads.bounds import Shape, bit_key_budget, freedom_key_width
from manyheads.bounds.shape import require_even_sharing
from manyheads.errors import InputError
from manyheads.fitting.options import ShapeTrial
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

BITS = 32  # of a parameter in the layers that fit makes
FEW = 1.2  # a prediction with fewer heads is preferred up to this factor on the smallest budget
WASTE = 0.12  # the part of a budget that a split may leave unused


def require_possible(problem: Problem, *, both_budgets: int | None, shared: bool = False) -> None:
    """Refuse budgets D_Q + D_K below the bit budget, and items that no layer can tell apart.

    Args:
        problem: The graph and the embedding.
        both_budgets: D_Q + D_K; None: not yet known.
        shared: Whether heads share keys. If not, D_Q = D_K.

    Raises:
        InputError: The budgets are too small, or no layer can tell two items apart.
    """
    graph, least = problem.graph, least_budgets(problem.graph, problem.d_model)
    if both_budgets is not None and both_budgets < least:
        given, needed = (
            (f"D_Q + D_K of {both_budgets}", f"{least}")
            if shared
            else (f"a key budget of {both_budgets // 2}", f"{(least + 1) // 2}")
        )
        raise InputError(
            f"{given} is below the bit budget: {problem.d_model * both_budgets + 1} numbers "
            f"of {BITS} bits cannot tell all graphs with {graph.items} items and {graph.relations} relations apart, "
            f"{needed} is the least that can"
        )
    problem.require_distinct()


def least_budgets(graph: Graph, d_model: int) -> int:
    """The least D_Q + D_K that the bit budget allows: both budgets have the weights of a key budget of their mean."""
    return 2 * least_key_budget(graph, d_model) - 1


def least_key_budget(graph: Graph, d_model: int) -> int:
    """The bit budget of the graph's kind: permutations, or all graphs with as many relations."""
    return bit_key_budget(
        items=graph.items, relations=graph.relations, d_model=d_model, bits=BITS, permutation=graph.is_permutation
    )


def predicted_shape(
    graph: Graph, d_model: int, *, heads: int | None = None, key_heads: int | None = None
) -> tuple[int, int]:
    """The key budget and the head count that the degrees of freedom predict (`bounds.freedom_key_width`).

    The predicted number of weights hardly depends on the head count, and fits with few heads need less than it. So it
    is the prediction for the fewest heads whose weights are within a factor FEW of the smallest.

    Args:
        graph: The graph to hold.
        d_model: The width of the embedding.
        heads: A number of heads to predict the budget for, instead of the best number.
        key_heads: The number of key heads that the heads share; None: as many as heads.

    Returns:
        The key budget D_K = key_heads · key_width, and the number of heads.
    """
    relations = max(1, graph.relations)
    counted = min(relations, graph.items**2 - 1)

    def width_for(heads: int) -> int | None:
        return freedom_key_width(
            items=graph.items, relations=counted, d_model=d_model, heads=heads, key_heads=key_heads
        )

    if heads is not None:
        return (key_heads or heads) * (width_for(heads) or d_model), heads
    shapes = []
    for heads in range(key_heads or 1, 4 * relations + (key_heads or 0), key_heads or 1):
        width = width_for(heads)
        if width is not None:
            shapes.append(((heads + (key_heads or heads)) * width, heads, width))
            if heads > 4 * min(shapes)[1]:
                break
    if not shapes:
        return (relations, relations) if key_heads is None else (key_heads * d_model, key_heads * relations)
    smallest = min(shapes)[0]
    return next(((key_heads or heads) * width, heads) for size, heads, width in shapes if size <= FEW * smallest)


def completed_shape(
    problem: Problem, heads: int | None, key_width: int | None, key_heads: int | None, *, latent: int | None
) -> Shape:
    """The heads and the key width given, the rest by the law of the degrees of freedom.

    Raises:
        InputError: Keys from a latent, which the law does not complete, or there is no layer of this shape.
    """
    if heads is None or key_width is None:
        if latent is not None:
            raise InputError("keys from a latent need a shape: give the heads, the key width and the latent")
        if heads is not None:
            require_even_sharing(heads=heads, key_heads=key_heads)
        budget, predicted = predicted_shape(problem.graph, problem.d_model, heads=heads, key_heads=key_heads)
        width = budget // (key_heads or predicted)
        if key_width is not None:  # as many weights as predicted, in heads of the given width
            both = (predicted + (key_heads or predicted)) * width
            predicted = (
                max(1, -(-both // (2 * key_width)))
                if key_heads is None
                else key_heads * max(1, -(-both // (key_heads * key_width)) - 1)
            )
        heads, key_width = predicted, key_width or width
    return Shape(d_model=problem.d_model, heads=heads, key_width=key_width, key_heads=key_heads, latent=latent)


def splits(key_budget: int, d_model: int) -> list[tuple[int, int]]:
    """All (heads, key_width) with key_width ≤ d_model that leave less than WASTE of the budget unused.

    Args:
        key_budget: D_K, of heads that share no keys.
        d_model: Width of the embedding.

    Returns:
        Pairs (heads, key_width), by increasing number of heads.
    """
    return shapes_within(2 * key_budget, d_model)


def shapes_within(both_budgets: int, d_model: int, *, key_heads: int | None = None) -> list[tuple[int, int]]:
    """All (heads, key_width) with key_width ≤ d_model that leave less than WASTE of D_Q + D_K unused.

    Args:
        both_budgets: D_Q + D_K, which is 2·D_K if no heads share keys.
        d_model: Width of the embedding.
        key_heads: The number of key heads that the heads share; None: as many as heads.

    Returns:
        Pairs (heads, key_width), by increasing number of heads.

    >>> shapes_within(10, 16, key_heads=1)
    [(1, 5), (2, 3), (4, 2), (8, 1), (9, 1)]
    """
    every = range(key_heads or 1, both_budgets, key_heads or 1)
    numbers = [(heads, heads + (key_heads or heads)) for heads in every]
    shapes = [(heads, both, min(both_budgets // both, d_model)) for heads, both in numbers]
    return [(heads, width) for heads, both, width in shapes if both * width > both_budgets * (1 - WASTE)]


ROUND = 8  # splits to try before the step is halved
RECENT = 4 * ROUND  # the number of latest trials whose failures decide the order of a round
# The cost by which a round orders its splits is the sum of |ln(heads / best heads)|, of WRONG_WEIGHT · ln(1 + pairs
# wrong in the last failure) / WRONG_SCALE, and of a random number with the mean JITTER.
WRONG_WEIGHT, WRONG_SCALE, JITTER = 0.3, 3, 0.3


def likeliest(
    shapes: list[tuple[int, int]], trials: list[ShapeTrial], centre: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """The ROUND shapes with the least cost: near the best head count, with few wrong pairs in the last failure.

    Args:
        shapes: Pairs (heads, key_width).
        trials: All trials so far.
        centre: The best number of heads so far.
        rng: For the random part of the cost.

    Returns:
        The shapes to try next, the best first.
    """

    def cost(shape: tuple[int, int]) -> float:
        heads = shape[0]
        wrong = [trial.wrong for trial in trials[-RECENT:] if trial.heads == heads and not trial.certified]
        distance = abs(math.log(heads / centre))
        return (
            distance + WRONG_WEIGHT * math.log1p(min(wrong, default=0)) / WRONG_SCALE + float(rng.exponential(JITTER))
        )

    return sorted(shapes, key=cost)[:ROUND]


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
