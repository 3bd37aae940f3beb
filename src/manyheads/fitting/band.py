"""Band: bounds on the logits of a softmax layer under which it decides every context of given lengths correctly.

Let every head's logits of pairs without a relation lie within ±b, and a relation's logit in its best head above e. Then
in a context of ℓ items a pair without a relation has a share of at most e^2b/(ℓ − 1 + e^2b) in each of h heads. A
relation, beside r − 1 other targets of its source, has a share of at least 1/(r + (ℓ − r)·e^(b − e)) in its best head
(docs/reference/laws.md, section 4). A threshold exists where the second share exceeds h times the first. So relations
have to rise above a band of other pairs by the ratio e/b. This module finds the smallest ratio that suffices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.errors import InputError

NARROWEST = 1e-3  # the smallest half width to try
ROOM = 1.1  # the relation's share over the most that all heads together give another pair


@dataclass(frozen=True)
class Band:
    """Logits of other pairs within ± half_width, those of relations above ratio · half_width."""

    half_width: float
    ratio: float


def most_heads(*, degree: int, lengths: tuple[int, int]) -> int:
    """The most heads for which a band exists: their shares of another pair add up to less than a relation's share."""
    grown = math.exp(2 * NARROWEST)
    return math.ceil((lengths[0] - 1 + grown) / (ROOM * degree * grown)) - 1


def narrowest_band(*, heads: int, degree: int, lengths: tuple[int, int]) -> Band:
    """The band with the smallest ratio.

    Args:
        heads: The number of heads.
        degree: r, the most targets of a source in one context.
        lengths: The least and the greatest number of items in a context.

    Raises:
        InputError: No band exists for this number of heads.
    """
    shortest, longest = lengths
    best: Band | None = None
    for half_width in np.geomspace(NARROWEST, 10, 400).tolist():
        grown = math.exp(2 * half_width)
        other = heads * grown / (shortest - 1 + grown)  # the most that all heads together give another pair
        share = ROOM * other
        if share * degree >= 1:
            break
        # share = 1/(r + (ℓ − r)·e^(b − e)), solved for e
        logit = half_width + math.log(max(longest - degree, 1) / (1 / share - degree))
        if best is None or logit / half_width < best.ratio:
            best = Band(half_width, logit / half_width)
    if best is None:
        raise InputError(
            f"{heads} heads are too many for contexts of {shortest} items: their shares add up to {heads}, "
            f"so a pair without a relation gets {heads}/{shortest} on average, a relation at most 1/{degree}"
        )
    return best
