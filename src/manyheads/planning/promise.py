"""Promise: what the constructions may promise on a given embedding, read off its incoherence profile."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float32
from numpy import ndarray

from manyheads.construct import limit, pack
from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.incoherence import IncoherenceProfile, incoherence, realised_incoherence

MOST_ITEMS = 8192  # beyond, the m² pairs of every block size take minutes


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The largest block size at which construction IV separates once its heads are wide enough, if there is one."""

    worst: IncoherenceProfile  # over every set of d_model items, as Definition B.4 has it
    realised: IncoherenceProfile | None  # on the blocks themselves
    block_size: int | None
    heads: int | None
    tried: tuple[int, ...]


def promise(graph: Graph, embedding: Float32[ndarray, "items d_model"]) -> Promise:
    """Halve the block size from d_model until the limit of large widths separates at the best threshold."""
    if graph.items != len(embedding):
        raise InputError(f"the graph has {graph.items} items but the embedding has {len(embedding)} rows")
    if graph.items > MOST_ITEMS:
        raise InputError(f"an embedding's promise is worked out for up to {MOST_ITEMS} items, not for {graph.items}")
    d_model = embedding.shape[1]
    worst = incoherence(embedding, block_size=min(d_model, graph.items))
    size, tried = min(d_model, graph.items), []
    while size >= 1:
        tried.append(size)
        blocks = pack(graph, size=size)
        # a size that fails mostly shows it in its first tiles, and small blocks are slow to go through
        found = limit(graph, embedding, blocks, mu=worst.mu, until=lambda so_far: not so_far.is_open)
        if found.separates("best"):
            return Promise(
                worst=worst,
                realised=realised_incoherence(embedding, blocks),
                block_size=size,
                heads=found.heads,
                tried=tuple(tried),
            )
        size //= 2
    return Promise(worst=worst, realised=None, block_size=None, heads=None, tried=tuple(tried))
