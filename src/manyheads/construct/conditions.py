"""What a construction asks of its input: refused where it is malformed, warned of where a theorem does not reach it."""

from __future__ import annotations

import math
import warnings

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.graph import Graph

# Theorems 4.1, 8.1 and B.9 ask for d_model ≥ c0·ln m with c0 "sufficiently large". The largest of the m²/2 overlaps of
# Gaussian unit rows is about 2·√(ln m / d_model), and it reaches a false pair's score whole, whatever the block size
# (limit.py); with τ = ½·d_k it has to stay below ½, hence 16.
C0 = 16.0


class ConditionWarning(UserWarning):
    """A theorem's condition is not met: the layer is built all the same, and its certificate decides."""


def require_sizes(graph: Graph, embedding: Float[ndarray, "items d_model"], *, key_width: int, block_size: int) -> None:
    """Refuse an embedding that does not belong to the graph, and widths or blocks below one."""
    if embedding.ndim != 2 or embedding.shape[1] < 1:
        raise InputError(f"an embedding has a row of numbers for each item, not the shape {embedding.shape}")
    if len(embedding) != graph.items:
        raise InputError(f"the graph has {graph.items} items but the embedding has {len(embedding)} rows")
    if not np.isfinite(embedding).all():
        raise InputError("the embedding holds NaN or infinite values")
    if key_width < 1:
        raise InputError(f"the key width must be at least 1, not {key_width}")
    if block_size < 1:
        raise InputError(f"the block size must be at least 1, not {block_size}")


def require_permutation(graph: Graph) -> None:
    """Refuse a graph that is not a permutation."""
    if not graph.is_permutation:
        raise InputError(
            "this construction needs a permutation graph, one relation out of and one into every item; "
            "the general construction takes any graph"
        )


def warn_if_narrow(items: int, d_model: int) -> None:
    """Warn where d_model < c0·ln m, the condition that Theorems 4.1, 8.1 and B.9 share."""
    needed = C0 * math.log(items)
    if d_model < needed:
        warnings.warn(
            f"d_model = {d_model} is below {C0:g}·ln {items} = {needed:.0f}, so the theorem's condition is not met: "
            "items this crowded are likely to be mistaken for one another at every key width",
            ConditionWarning,
            stacklevel=3,
        )
