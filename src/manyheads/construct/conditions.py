"""What a construction asks of its input: refused where it is malformed, warned of where a theorem does not reach it."""

from __future__ import annotations

import math
import warnings

from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

# Theorems 4.1, 8.1 and B.9 ask for d_model ≥ c0·ln m with c0 "sufficiently large". The largest of the m²/2 overlaps of
# Gaussian unit rows is about 2·√(ln m / d_model), and it reaches a false pair's score whole, whatever the block size
# (limit.py); with τ = ½·d_k it has to stay below ½, hence 16.
C0 = 16.0


class ConditionWarning(UserWarning):
    """A theorem's condition is not met: the layer is built all the same, and its certificate decides."""


def require_sizes(*, key_width: int, block_size: int) -> None:
    """Refuse widths and blocks below one."""
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


def warn_if_narrow(problem: Problem) -> None:
    """Warn where d_model < c0·ln m, the condition that Theorems 4.1, 8.1 and B.9 share."""
    needed = C0 * math.log(problem.items)
    if problem.d_model < needed:
        warnings.warn(
            f"d_model = {problem.d_model} is below {C0:g}·ln {problem.items} = {needed:.0f}, so the theorem's "
            "condition is not met: items this crowded are likely to be mistaken for one another at every key width",
            ConditionWarning,
            stacklevel=3,
        )
