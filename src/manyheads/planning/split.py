"""Split: into how many heads a key budget should go, and what other splits of it would lose."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.bounds import Shape, freedom_needed
from manyheads.bounds.inverse import relations_by_freedom

# Needed freedom over d_model², at the head counts that needed least in calibration. A head near full rank (1) wastes
# its width on d_k², one far below it its budget on ever more heads.
FILL = 0.42
FILLS = (0.3, 0.5)
MOST_HEADS = 1024


@dataclass(frozen=True, kw_only=True)
class Split:
    """Heads and their width."""

    heads: int
    key_width: int

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The same key budget in another number of heads, and the relations that fit into it by the law."""

    heads: int
    key_width: int
    relations: int
    loss: float  # the share of relations lost against the recommended split; negative where more would fit


def fills(*, items: int, relations: int, d_model: int, most_heads: int = MOST_HEADS) -> dict[int, float]:
    """By head count: the freedom each head needs, as a share of the d_model² there is at full rank."""
    heads = np.arange(1, most_heads + 1)
    shares = np.asarray(freedom_needed(items=items, relations=relations, heads=heads)) / d_model**2
    return {int(count): float(share) for count, share in zip(heads, shares, strict=True)}


def split(
    *, items: int, relations: int, d_model: int, key_budget: float, multiple: int = 1, most_heads: int | None = None
) -> Split:
    """The cheapest split that holds the budget, of head counts about which training was found at its best.

    `multiple`: the key width is one of it, as matrix hardware likes; `most_heads`: an upper limit.
    """
    shares = fills(items=items, relations=relations, d_model=d_model)
    near = [heads for heads, share in shares.items() if FILLS[0] <= share <= FILLS[1]]
    if not near:  # one head already has room to spare, or the counts jump over the range
        near = [min(shares, key=lambda heads: (abs(shares[heads] - FILL), heads))]
    near = [heads for heads in near if heads * d_model >= key_budget] or [math.ceil(key_budget / d_model)]  # d_k ≤ d
    near = [heads for heads in near if most_heads is None or heads <= most_heads] or [most_heads or 1]
    choices = [Split(heads=heads, key_width=_width(key_budget / heads, multiple)) for heads in near]
    return min(choices, key=lambda one: (one.key_budget, abs(shares.get(one.heads, 0.0) - FILL)))


def alternatives(recommended: Split, *, items: int, d_model: int) -> list[Alternative]:
    """Half and twice the heads with the same key budget, by what the degrees-of-freedom law lets them hold."""
    shapes = [
        Shape(d_model=d_model, heads=heads, key_width=max(1, recommended.key_budget // heads))
        for heads in (recommended.heads // 2, recommended.heads, 2 * recommended.heads)
        if heads >= 1
    ]
    held = [relations_by_freedom(shape, items=items) for shape in shapes]
    here = next(count for count, shape in zip(held, shapes, strict=True) if shape.heads == recommended.heads)
    return [
        Alternative(
            heads=shape.heads,
            key_width=shape.key_width,
            relations=count,
            loss=1 - count / here if here else 0.0,
        )
        for count, shape in zip(held, shapes, strict=True)
        if shape.heads != recommended.heads
    ]


def _width(width: float, multiple: int) -> int:
    return max(multiple, -int(-width // multiple) * multiple)
