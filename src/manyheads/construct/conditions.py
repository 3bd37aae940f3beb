"""Conditions of the constructions: malformed input is refused, an unmet condition of a theorem is warned of."""

from __future__ import annotations

import math
import warnings

from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

# Theorems 4.1, 8.1 and B.9 ask for d_model ≥ c0·ln m with c0 "sufficiently large". The largest of the m²/2 overlaps of
# Gaussian unit rows is about 2·√(ln m / d_model). A false pair's score holds it undiminished, whatever the matching
# size (width_limit.py). With τ = ½·d_k it has to stay below ½, so c0 is 16.
C0 = 16.0


class ConditionWarning(UserWarning):
    """A theorem's condition is not met. The layer is built all the same; its certificate decides."""


def require_sizes(*, key_width: int, matching_size: int) -> None:
    """Refuse a key width or a matching size below 1."""
    if key_width < 1:
        raise InputError(f"the key width must be at least 1, not {key_width}")
    if matching_size < 1:
        raise InputError(f"the matching size must be at least 1, not {matching_size}")


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
