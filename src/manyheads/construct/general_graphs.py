"""Construction IV: general graphs, their relations packed into matchings (Algorithm 5, Theorem B.9)."""

from __future__ import annotations

from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.conditions import require_sizes, warn_if_narrow
from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.split import Packing, pack
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem


def general(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    block_size: int | None = None,
    packing: Packing = "equitable",
) -> Layer:
    """Algorithm 5: pack the relations into matchings of at most d_model (or the given size), one head for each.

    The `equitable` packing needs max(Δ, ⌈m'/B⌉) heads, the fewest possible; the paper's `lemma` up to ⌈m'/B⌉ + Δ.
    """
    block_size = problem.d_model if block_size is None else block_size
    require_sizes(key_width=key_width, block_size=block_size)
    warn_if_narrow(problem)
    words = RADEMACHER.draw(problem.items, key_width, seed=seed)
    matchings = pack(problem.graph, size=block_size, packing=packing)
    return assemble([de_embed(problem.rows, matching, words) for matching in matchings], threshold=key_width / 2)
