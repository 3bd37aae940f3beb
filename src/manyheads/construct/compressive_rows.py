"""Construction II: permutations under compressive embeddings (Algorithm 1, Theorem 4.1)."""

from __future__ import annotations

from manyheads.construct.conditions import require_permutation, require_sizes, warn_if_narrow
from manyheads.construct.heads import RADEMACHER, assemble, de_embed
from manyheads.construct.matchings import split_sources
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem


def compressive(problem: Problem, *, key_width: int, seed: int, matching_size: int | None = None) -> Layer:
    """Algorithm 1: split the sources into matchings of d_model relations, one head for each.

    Head k repeats construction I on its matching, behind the approximate inverse Xᵀ of the embedding. The fewer
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
    require_sizes(key_width=key_width, matching_size=matching_size)
    require_permutation(problem.graph)
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    matchings = split_sources(problem.graph, size=matching_size)
    return assemble([de_embed(problem.rows, matching, words) for matching in matchings], threshold=key_width / 2)
