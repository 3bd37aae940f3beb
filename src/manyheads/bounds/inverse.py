"""Inverse: the relations that fit a shape, and the d_model that a key budget needs, by each bound and law."""

from __future__ import annotations

import math
from collections.abc import Callable

from manyheads.bounds.graph_counts import LN2, ln_graphs
from manyheads.bounds.laws import constraint_positives, freedom_needed, freedom_split
from manyheads.bounds.lower import log2_labellings, log2_patterns
from manyheads.bounds.shape import Shape
from manyheads.errors import InputError
from manyheads.numbers import check_numbers
from manyheads.problem.graph_kinds import RELATION_SLOPE

WIDEST = 2**20  # the largest d_model that is considered


def relations_by_bits(shape: Shape, *, items: int, bits: float = 16.0) -> int:
    """The largest m' that the bit budget allows: log2 C(m(m − 1), m') ≤ b·(d_model·(D_Q + D_K) + 1).

    With one relation more, at least one graph is impossible. If half of all pairs are allowed, every number is: no
    other number of relations has more graphs.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.
        bits: b, bits in each weight.

    Returns:
        m', at most the number of ordered pairs.

    Raises:
        InputError: There are fewer than 2 items, or too many.
    """
    check_numbers(bits=bits)
    return _relations_within(bits * (shape.parameters + 1) * LN2, items)


def relations_by_labellings(shape: Shape, *, items: int) -> int:
    """The largest m' for which layers of a shape may hold every graph, whatever their weights (`log2_labellings`).

    With one relation more, at least one graph is impossible for real weights of any size, under the rules max and sum.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.

    Returns:
        m', at most the number of ordered pairs.

    Raises:
        InputError: There are fewer than 2 items, or too many.
    """
    degree = 2 + (shape.latent is not None) + (shape.query_latent is not None)
    held = log2_patterns(items=items, heads=shape.heads, variables=shape.all_freedom + 1, degree=degree)
    return _relations_within(float(held) * LN2, items)


def _relations_within(room: float, items: int) -> int:
    """The largest m' with ln C(m(m − 1), m') ≤ room; all pairs if half of them are allowed."""
    pairs = _pairs(items)
    most = _largest(lambda relations: float(ln_graphs(items=items, relations=relations)) <= room, pairs // 2)
    return pairs if most == pairs // 2 else most


def relations_by_freedom(shape: Shape, *, items: int) -> int:
    """The largest m' for which each head has the degrees of freedom that its share needs (`laws.freedom_needed`).

    An estimate. It assumes rows like random ones, relations that are split evenly over the heads, and the rule max.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.

    Returns:
        m', at most half of all ordered pairs.

    Raises:
        InputError: There are fewer than 2 items, or too many.
    """
    most = _pairs(items) // 2
    about = float(shape.heads * items**2 * constraint_positives(shape.freedom / items**2))
    guess = min(most, round(about))
    # The inverse is exact to 1e-12, which leaves the last relations undecided: widen a range around it, then bisect.
    reach, low, high = 1, guess, guess
    while low > 0 and not _fits(items, low, shape):
        low, reach = max(0, low - reach), 2 * reach
    reach = 1
    while high < most and _fits(items, high + 1, shape):
        high, reach = min(most, high + reach), 2 * reach
    return low + _largest(lambda more: more == 0 or _fits(items, low + more, shape), high - low)


def relations_by_paper(shape: Shape, *, items: int, slope: float = RELATION_SLOPE) -> int:
    """The relations that fit by the paper's law (`laws.paper_key_budget`): m' = D_K·d_model/(slope·log2 m).

    The paper has no shared keys. Half the weights stand for D_K·d_model here: layers with the same weights hold about
    the same relations, however they share keys (docs/results/shared-keys.md).

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.
        slope: Constant of the law; by default that of graphs which are no permutations, because a layer that holds
            more than m relations holds no permutation.

    Returns:
        m', at most the number of ordered pairs.

    Raises:
        InputError: There are fewer than 2 items.
    """
    return min(_pairs(items), math.floor(shape.parameters / (2 * slope * math.log2(items))))


def d_model_by_bits(*, items: int, relations: int, key_budget: int, bits: float = 16.0) -> int:
    """The smallest d_model for which the bit budget allows D_K: d_model ≥ (log2 C(m(m − 1), m')/b − 1)/(2·D_K).

    Args:
        items: m.
        relations: m'.
        key_budget: D_K.
        bits: b, bits in each weight.

    Returns:
        d_model, at least 1.

    Raises:
        InputError: The relations do not fit the items.
    """
    check_numbers(key_budget=key_budget, bits=bits)
    needed = (float(ln_graphs(items=items, relations=relations)) / (LN2 * bits) - 1) / (2 * key_budget)
    return max(1, math.ceil(needed))


def d_model_by_labellings(*, items: int, relations: int, key_budget: int) -> int:
    """The smallest d_model at which layers with D_K may hold every graph, whatever their weights and heads.

    Args:
        items: m.
        relations: m'.
        key_budget: D_K, as heads of width 1, the split to which the bound allows the most (`log2_labellings`).

    Returns:
        d_model, at least 1 and at most WIDEST.

    Raises:
        InputError: The relations do not fit the items.
    """
    needed = float(ln_graphs(items=items, relations=relations)) / LN2

    def enough(d_model: int) -> bool:
        held = log2_labellings(items=items, d_model=d_model, heads=key_budget, key_width=1)
        return float(held) >= needed

    return WIDEST - _largest(lambda less: enough(WIDEST - less), WIDEST - 1)


def d_model_by_freedom(*, items: int, relations: int, key_budget: int) -> int | None:
    """The smallest d_model for which one split of D_K into heads has enough degrees of freedom.

    Args:
        items: m.
        relations: m'.
        key_budget: D_K.

    Returns:
        d_model, or None where WIDEST is not enough.

    Raises:
        InputError: A size is not positive.
    """

    check_numbers(key_budget=key_budget)
    # A split h·d_k ≤ D_K has h ≤ √D_K or d_k ≤ √D_K. In the second case the largest head count needs the least freedom.
    root = math.isqrt(key_budget)
    heads = sorted({*range(1, root + 1), *(key_budget // width for width in range(1, root + 1))})

    def enough(d_model: int) -> bool:
        split = freedom_split(items=items, relations=relations, d_model=d_model, heads=heads)
        return split is not None and split[0] * split[1] <= key_budget

    if not enough(WIDEST):
        return None
    return WIDEST - _largest(lambda less: enough(WIDEST - less), WIDEST - 1)


def d_model_by_paper(*, items: int, relations: int, key_budget: int, slope: float) -> int:
    """The smallest d_model by the paper's law (`laws.paper_key_budget`): slope·m'·log2 m/D_K, rounded up.

    Args:
        items: m, at least 2.
        relations: m'.
        key_budget: D_K.
        slope: `PERMUTATION_SLOPE` for permutations, `RELATION_SLOPE` for other graphs.

    Returns:
        d_model, at least 1.
    """
    check_numbers(items=items, relations=relations, key_budget=key_budget)
    return max(1, math.ceil(slope * relations * math.log2(items) / key_budget))


def _fits(items: int, relations: int, shape: Shape) -> bool:
    return float(freedom_needed(items=items, relations=relations, heads=shape.heads)) <= shape.freedom


def _pairs(items: int) -> int:
    check_numbers(items=items)
    if items < 2:
        raise InputError(f"relations are between at least 2 items, not {items}")
    return items * (items - 1)


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest number from 0 to `most` for which a condition holds; it holds for 0 and for all smaller numbers."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
