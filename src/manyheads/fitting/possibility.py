"""Refusals: what no layer can do, said before any time is spent on it."""

from __future__ import annotations

from manyheads.bounds import bit_key_budget
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

BITS = 32  # a parameter's, in the layers that fit makes


def require_possible(problem: Problem, *, key_budget: int | None) -> None:
    """Refuse a key budget below the bit budget, and items that no layer can tell apart."""
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
