"""Band: what the logits of a softmax layer have to keep to, so that every context of a length is decided rightly.

Let every head's logits of pairs without a relation lie within ±b, and a relation's in its best head above e. In a
context of ℓ items such a pair then has a share of at most e^2b/(ℓ − 1 + e^2b) in each of h heads, and a relation, with
r − 1 other targets of its source beside it, a share of at least 1/(r + (ℓ − r)·e^(b − e)) in its best head (laws.md,
section 4). A threshold fits between where the second exceeds h times the first. So relations have to rise above a
band of others, not only above a ceiling, by the ratio e/b: the smallest that will do is found here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.errors import InputError

NARROWEST = 1e-3  # half width that is looked at
ROOM = 1.1  # the relation's share, over what all heads together may give another pair


@dataclass(frozen=True)
class Band:
    """Logits of other pairs within ± half_width, those of relations above ratio · half_width."""

    half_width: float
    ratio: float


def most_heads(*, degree: int, lengths: tuple[int, int]) -> int:
    """The most heads for which there is a band: their shares of another pair add up to less than a relation's."""
    grown = math.exp(2 * NARROWEST)
    return math.ceil((lengths[0] - 1 + grown) / (ROOM * degree * grown)) - 1


def narrowest_band(*, heads: int, degree: int, lengths: tuple[int, int]) -> Band:
    """The band with the smallest ratio for so many heads, targets of a source and items of a context."""
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
