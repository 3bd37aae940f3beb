"""The inverse questions: how many relations fit into a shape, and what d_model a key budget would need."""

from __future__ import annotations

import math
from collections.abc import Callable

from manyheads.bounds.channel_cost import Shape
from manyheads.bounds.counting import ln_graphs
from manyheads.bounds.laws import constraint_positives, freedom_needed, freedom_split
from manyheads.bounds.lower import LN2
from manyheads.errors import InputError
from manyheads.problem.graph import MOST_ITEMS

WIDEST = 2**20  # the largest d_model that is looked at


def relations_by_bits(shape: Shape, *, items: int, bits: float = 16.0) -> int:
    """The most relations for which the bit budget leaves room: log2 C(m(m − 1), m') ≤ b·(d·(D_Q + D_K) + 1).

    One more is impossible for some graph with so many relations. All pairs where half of them have room: no other count
    has more graphs, so the bits rule out none.
    """
    pairs = _pairs(items)
    room = bits * (shape.parameters + 1) * LN2
    most = _largest(lambda relations: float(ln_graphs(items=items, relations=relations)) <= room, pairs // 2)
    return pairs if most == pairs // 2 else most


def relations_by_freedom(shape: Shape, *, items: int) -> int:
    """The most relations for which each head has the degrees of freedom its share needs (`freedom_needed`).

    An estimate that assumes rows like random ones, an even split of the relations over the heads and the rule max;
    at most half of all pairs.
    """
    most = _pairs(items) // 2
    about = float(shape.heads * items**2 * constraint_positives(shape.freedom / items**2))
    guess = min(most, round(about))
    # to the very number, which the last bits of the inverse do not decide
    while guess < most and _fits(items, guess + 1, shape):
        guess += 1
    while guess > 0 and not _fits(items, guess, shape):
        guess -= 1
    return guess


def relations_by_paper(shape: Shape, *, items: int, slope: float = 0.46) -> int:
    """The paper's law read backwards: m' = D_Q·d/(0.46·log2 m), or with slope 1.19 for permutations."""
    return min(_pairs(items), math.floor(shape.query_budget * shape.d_model / (slope * math.log2(items))))


def d_model_by_bits(*, items: int, relations: int, key_budget: int, bits: float = 16.0) -> int:
    """The smallest d_model at which the bit budget no longer forbids D_K: d ≥ (log2 C(m(m − 1), m')/b − 1)/(2·D_K)."""
    needed = (float(ln_graphs(items=items, relations=relations)) / (LN2 * bits) - 1) / (2 * key_budget)
    return max(1, math.ceil(needed))


def d_model_by_freedom(*, items: int, relations: int, key_budget: int) -> int | None:
    """The smallest d_model at which some split of D_K into heads has the freedom; None beyond WIDEST."""

    # a split h·d_k ≤ D_K has h or d_k ≤ √D_K; with a width that small, as many heads as D_K allows need least each
    root = math.isqrt(key_budget)
    heads = sorted({*range(1, root + 1), *(key_budget // width for width in range(1, root + 1))})

    def enough(d_model: int) -> bool:
        split = freedom_split(items=items, relations=relations, d_model=d_model, heads=heads)
        return split is not None and split[0] * split[1] <= key_budget

    if not enough(WIDEST):
        return None
    return WIDEST - _largest(lambda less: enough(WIDEST - less), WIDEST - 1)


def d_model_by_paper(*, items: int, relations: int, key_budget: int, slope: float = 0.46) -> int:
    """The paper's law read for d: 0.46·m'·log2 m/D_K, or with slope 1.19 as for permutations."""
    return max(1, math.ceil(slope * relations * math.log2(items) / key_budget))


def _fits(items: int, relations: int, shape: Shape) -> bool:
    return float(freedom_needed(items=items, relations=relations, heads=shape.heads)) <= shape.freedom


def _pairs(items: int) -> int:
    if items < 2:
        raise InputError(f"relations are between at least 2 items, not {items}")
    if items > MOST_ITEMS:
        raise InputError(f"graphs are counted for up to {MOST_ITEMS:,} items, not for {items:,}")
    return items * (items - 1)


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest number from 0 to most for which a condition holds that holds up to some number; 0 always does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
