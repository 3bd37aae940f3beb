"""Shapes of a layer, (heads, key width): impossible ones, predicted ones, and the splits of a key budget."""

from __future__ import annotations

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
        InputError: Either is the case.
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
    """All (heads, key_width) with key_width ≤ d_model that leave less than WASTE of the budget unused."""
    shapes = [(heads, min(key_budget // heads, d_model)) for heads in range(1, key_budget + 1)]
    return [(heads, width) for heads, width in shapes if heads * width > key_budget * (1 - WASTE)]
