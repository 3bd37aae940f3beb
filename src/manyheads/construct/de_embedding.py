"""Constructions II and IV, by approximate de-embedding: permutations (Algorithm 1) and all graphs (Algorithm 5)."""

from __future__ import annotations

from manyheads.construct.heads import RADEMACHER, assemble, de_embed, require_permutation, require_sizes, warn_if_narrow
from manyheads.construct.matchings import Packing, pack, split_sources
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem


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
