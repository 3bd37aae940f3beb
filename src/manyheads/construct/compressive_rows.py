"""Construction II: permutations under compressive embeddings (Algorithm 1, Theorem 4.1)."""

from __future__ import annotations

from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.conditions import require_permutation, require_sizes, warn_if_narrow
from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.split import split_sources
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem


def compressive(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    block_size: int | None = None,
) -> Layer:
    """Algorithm 1: split the sources into blocks of d_model (or the given size), one head for each.

    Head k repeats construction I on its own block behind an approximate inverse of the embedding, Xᵀ: the fewer
    relations a head serves, the less of the embedding's overlaps it adds up.
    """
    block_size = problem.d_model if block_size is None else block_size
    require_sizes(key_width=key_width, block_size=block_size)
    require_permutation(problem.graph)
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    blocks = split_sources(problem.graph, size=block_size)
    return assemble([de_embed(problem.rows, block, words) for block in blocks], threshold=key_width / 2)
