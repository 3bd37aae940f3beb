"""Refusals: what no layer can do, said before any time is spent on it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.bounds import bit_key_budget
from manyheads.errors import InputError
from manyheads.problem.graph import Graph

BITS = 32  # a parameter's, in the layers that fit makes


def require_possible(graph: Graph, embedding: Float[ndarray, "items d_model"], *, key_budget: int | None) -> None:
    """Refuse a key budget below the bit budget, and items that no layer can tell apart."""
    if embedding.ndim != 2 or len(embedding) != graph.items:
        raise InputError(f"an embedding of shape {embedding.shape} does not fit a graph of {graph.items} items")
    if not np.isfinite(embedding).all():
        raise InputError("the embedding holds NaN or infinite values")
    least = least_key_budget(graph, embedding.shape[1])
    if key_budget is not None and key_budget < least:
        raise InputError(
            f"a key budget of {key_budget} is below the bit budget: {2 * embedding.shape[1] * key_budget + 1} numbers "
            f"of {BITS} bits cannot tell all graphs with {graph.items} items and {graph.relations} relations apart, "
            f"{least} is the least that can"
        )
    _require_distinct(graph, embedding)


def least_key_budget(graph: Graph, d_model: int) -> int:
    """The bit budget of the graph's kind: permutations, or all graphs with as many relations."""
    return bit_key_budget(
        items=graph.items, relations=graph.relations, d_model=d_model, bits=BITS, permutation=graph.is_permutation
    )


def _require_distinct(graph: Graph, embedding: Float[ndarray, "items d_model"]) -> None:
    """Two items with the same row score alike with every other, so they need the same relations."""
    _, first, place = np.unique(embedding, axis=0, return_index=True, return_inverse=True)
    twins = np.flatnonzero(first[place.ravel()] != np.arange(graph.items))
    outgoing, incoming = _neighbours(graph.sources, graph.targets), _neighbours(graph.targets, graph.sources)
    for item in twins.tolist():
        twin = int(first[place.ravel()[item]])
        for kind, ends in (("relations", outgoing), ("relations to them", incoming)):
            if ends.get(item, frozenset()) != ends.get(twin, frozenset()):
                names = f"{graph.name(twin)} and {graph.name(item)}"
                raise InputError(
                    f"rows {twin} and {item} of the embedding ({names}) are identical but their {kind} differ: "
                    "no layer can tell them apart"
                )


def _neighbours(ends: ndarray, others: ndarray) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    for end, other in zip(ends.tolist(), others.tolist(), strict=True):
        found.setdefault(end, set()).add(other)
    return {end: frozenset(items) for end, items in found.items()}
