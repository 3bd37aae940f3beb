"""Answers to the inverse questions of a plan: relations that fit a shape, the d_model of a budget, the capacity map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32, Float64, Int64
from numpy import ndarray

from manyheads.bounds import BitsPerWeight, Shape, bits_per_weight, constraint_positives, freedom_needed
from manyheads.bounds.inverse import (
    d_model_by_bits,
    d_model_by_freedom,
    d_model_by_labellings,
    d_model_by_paper,
    relations_by_bits,
    relations_by_freedom,
    relations_by_labellings,
    relations_by_paper,
)
from manyheads.bounds.shape import equal_splits
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.numbers import check_numbers
from manyheads.planning.advice import BITS, check_counts
from manyheads.planning.guarantee import one_each_objection
from manyheads.planning.layer_plan import Plan
from manyheads.planning.model_audit import Audit
from manyheads.planning.prediction import MOST_HEADS, KeyWidths, key_widths, split
from manyheads.planning.sharing import LayerCost, layer_cost
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE

if TYPE_CHECKING:
    from manyheads.drawing.plan import CapacityMap, HeadCurve, SplitCurve


@dataclass(frozen=True, kw_only=True)
class RelationsThatFit:
    """The relations among `items` items that one layer of a shape holds.

    Attributes:
        items: m.
        shape: The query–key channel of the layer.
        rule: How heads are joined; the two laws are for max.
        impossible_beyond: More relations than this are impossible for at least one graph, with the bits given.
        unconditional_beyond: The same for any real weights; None for softmax, whose scores are no polynomials.
        likely: The degrees-of-freedom law, an estimate for rows like random ones.
        bits_per_weight: Of a layer that holds a graph with `likely` relations.
        cost: Weights, cached numbers and degrees of freedom, and what shared keys lose by measured prices.
        paper_law: The paper's law for graphs that are no permutations, solved for the relations.
        guaranteed: Relations with a proof; None if there is no proof.
        guaranteed_by_heads: Whether the proof has one relation for each head; otherwise it has one for each dimension
            of the keys.
        unproved: The reason why nothing is guaranteed; None if something is.
    """

    items: int
    shape: Shape
    rule: Rule
    impossible_beyond: int
    unconditional_beyond: int | None
    likely: int
    bits_per_weight: BitsPerWeight
    cost: LayerCost
    paper_law: int
    guaranteed: int | None
    guaranteed_by_heads: bool
    unproved: str | None


@dataclass(frozen=True, kw_only=True)
class WidthNeeded:
    """The d_model at which a key budget holds m' relations among m items.

    Attributes:
        items: m.
        relations: m'.
        key_budget: D_K.
        rule: How heads are joined; the two laws are for max.
        permutation: Whether the graph counts as a permutation of the items, for the paper's law.
        impossible_below: Below this d_model, at least one graph is impossible, with the bits given.
        unconditional_below: The same for any real weights; None for softmax.
        likely_from: The degrees-of-freedom law at its best split; None where no d_model is large enough.
        bits_per_weight: Of a layer with the key budget at `likely_from`; None where no d_model is large enough.
        paper_law: The paper's law, solved for d_model.
    """

    items: int
    relations: int
    key_budget: int
    rule: Rule
    permutation: bool
    impossible_below: int
    unconditional_below: int | None
    likely_from: int | None
    bits_per_weight: BitsPerWeight | None
    paper_law: int


def relations_that_fit(
    shape: Shape,
    *,
    items: int,
    rule: Rule | str = MAX,
    bits: float = BITS,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> RelationsThatFit:
    """The number of relations that fit into given heads.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.
        rule: How heads are joined.
        bits: Bits in a weight, for the impossible number.
        embedding: Rows to check against the condition of the proof; None assumes that the rows meet it.

    Returns:
        The impossible, likely and guaranteed numbers of relations.

    Raises:
        InputError: There are fewer than 2 items, or too many.

    >>> answer = relations_that_fit(Shape(d_model=16, heads=8, key_width=3, key_heads=2), items=64)
    >>> answer.guaranteed, answer.likely
    (6, 61)
    """
    # The proof has one head of width 1 for each relation. Query heads that share a key head need a dimension of its
    # keys each.
    one_each = shape.groups * min(shape.heads // shape.groups, shape.key_width)
    if shape.latent is not None:  # a dimension of the latent for each relation
        one_each = min(shape.heads, shape.latent)
    objection = one_each_objection(shape.d_model, rule=rule, embedding=embedding)
    rule, likely = rule_named(rule), relations_by_freedom(shape, items=items)
    return RelationsThatFit(
        items=items,
        shape=shape,
        rule=rule,
        impossible_beyond=relations_by_bits(shape, items=items, bits=bits),
        unconditional_beyond=relations_by_labellings(shape, items=items) if rule is MAX else None,
        likely=likely,
        bits_per_weight=bits_per_weight(f"random:{items}:{likely}", weights=shape.parameters),
        cost=layer_cost(shape, items=items),
        paper_law=relations_by_paper(shape, items=items, slope=RELATION_SLOPE),
        guaranteed=min(one_each, items * (items - 1)) if objection is None else None,
        guaranteed_by_heads=one_each == shape.heads,
        unproved=objection,
    )


def d_model_needed(
    *,
    items: int,
    relations: int,
    key_budget: int,
    rule: Rule | str = MAX,
    bits: float = BITS,
    permutation: bool | None = None,
) -> WidthNeeded:
    """The d_model that a key budget needs.

    Args:
        items: m, at least 2.
        relations: m', from 1 to m·(m − 1).
        key_budget: D_K, at least 1.
        rule: How heads are joined.
        bits: Bits in a weight, for the impossible d_model.
        permutation: Whether the graph is a permutation of the items; None: it counts as one if m' = m.

    Returns:
        The impossible and likely values of d_model.

    Raises:
        InputError: A size is out of its range.

    >>> d_model_needed(items=64, relations=64, key_budget=20).likely_from
    13
    """
    check_counts(items=items, relations=relations)
    check_numbers(key_budget=key_budget, bits=bits)
    sizes = {"items": items, "relations": relations, "key_budget": key_budget}
    is_permutation = relations == items if permutation is None else permutation
    rule, likely = rule_named(rule), d_model_by_freedom(**sizes)
    family = f"permutation:{items}" if is_permutation else f"random:{items}:{relations}"
    return WidthNeeded(
        **sizes,
        rule=rule,
        permutation=is_permutation,
        impossible_below=d_model_by_bits(**sizes, bits=bits),
        unconditional_below=d_model_by_labellings(**sizes) if rule is MAX else None,
        likely_from=likely,
        bits_per_weight=None if likely is None else bits_per_weight(family, weights=2 * likely * key_budget),
        paper_law=d_model_by_paper(**sizes, slope=PERMUTATION_SLOPE if is_permutation else RELATION_SLOPE),
    )


HEADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def capacity_map(*, items: int, widest: int, key_budgets: tuple[int, ...]) -> CapacityMap:
    """The relations that one layer holds, over d_model, for each key budget.

    Args:
        items: m.
        widest: The largest d_model; the smallest is 16.
        key_budgets: D_K of each curve.

    Returns:
        The impossible, likely and guaranteed numbers of relations; the likely ones are at most half of all pairs.
    """
    d_models = np.geomspace(16, widest, 25)
    impossible, unconditional, likely = np.empty((3, len(key_budgets), len(d_models)))
    for row, budget in enumerate(key_budgets):
        for column, d_model in enumerate(np.rint(d_models).astype(int).tolist()):
            shapes = [
                Shape(d_model=d_model, heads=heads, key_width=budget // heads)
                for heads in HEADS
                if d_model >= budget // heads >= 1
            ]
            if not shapes:
                shapes = [Shape(d_model=d_model, heads=budget // d_model, key_width=d_model)]
            impossible[row, column] = relations_by_bits(shapes[0], items=items)
            narrowest = Shape(d_model=d_model, heads=budget, key_width=1)  # of all splits, the bound allows it the most
            unconditional[row, column] = relations_by_labellings(narrowest, items=items)
            heads, freedom = np.array([(shape.heads, shape.freedom) for shape in shapes]).T
            held = heads * items**2 * constraint_positives(freedom / items**2)
            likely[row, column] = min(float(held.max()), items * (items - 1) / 2)
    from manyheads.drawing.plan import CapacityMap  # imports matplotlib, which answers without a picture do not need

    sure = np.array(key_budgets, dtype=np.float64)
    return CapacityMap(items, d_models, key_budgets, impossible, unconditional, likely, sure)


def map_around(advice: Plan) -> CapacityMap:
    """The capacity map for a quarter, a half, one and two times the recommended key budget.

    Args:
        advice: The plan.

    Returns:
        The rows of the picture.
    """
    budget = advice.recommended.key_budget
    budgets = tuple(max(1, budget * part // 4) for part in (1, 2, 4, 8))
    return capacity_map(items=advice.items, widest=max(256, 4 * advice.d_model), key_budgets=budgets)


def head_curve(advice: Plan) -> HeadCurve:
    """The key budgets of the degrees-of-freedom law and of the advice for each head count, with the plan's own.

    Args:
        advice: The plan.

    Returns:
        The rows of the picture; law and advice are infinite where the heads have too little freedom.
    """
    best = advice.recommended
    counts = np.array(sorted({heads for heads in HEADS if heads <= max(32, 4 * best.heads)} | {best.heads}))
    needed = np.asarray(freedom_needed(items=advice.items, relations=advice.relations, heads=counts))
    room = advice.d_model**2 - needed
    widths = advice.d_model - np.sqrt(np.maximum(room, 0.0))
    from manyheads.drawing.plan import HeadCurve

    return HeadCurve(
        title=f"{advice.relations:,} relations, {advice.items:,} items, d_model {advice.d_model}, rule {advice.rule}",
        heads=counts.astype(np.float64),
        law=np.where(room >= 0, counts * np.maximum(1.0, np.ceil(widths)), np.inf),
        advised=_advised_budgets(advice, counts),
        predicted=advice.predicted.key_budget,
        low=advice.predicted.low,
        high=advice.predicted.high,
        bit_bound=advice.bit_bound,
        paper_law=advice.paper_law,
        recommended=(best.heads, best.key_budget),
    )


def _advised_budgets(advice: Plan, counts: Int64[ndarray, " h"]) -> Float64[ndarray, " h"]:
    """D_K that the plan would recommend for this number of heads; infinite if no width is enough."""
    sizes = {"items": advice.items, "relations": advice.relations, "d_model": advice.d_model}
    widths = key_widths(**sizes, rule=advice.rule, most_heads=max(MOST_HEADS, int(counts[-1])))
    least = max(advice.bit_bound, 1.0)
    return np.array([_advised(widths, advice.d_model, int(heads), least) for heads in counts])


def _advised(widths: KeyWidths, d_model: int, heads: int, least: float) -> float:
    try:
        return float(split(widths, d_model=d_model, heads=heads, key_budget=least).key_budget)
    except InputError:  # the heads are too few
        return math.inf


def split_curve(audit: Audit) -> SplitCurve:
    """The relations that a layer holds by the law, for every split of the query budget of an architecture.

    Args:
        audit: The audit of the architecture.

    Returns:
        The rows of the picture. In every split each head has its own keys.
    """
    from manyheads.drawing.plan import SplitCurve

    shape, splits = audit.architecture.shape, equal_splits(audit.architecture.shape)
    return SplitCurve(
        title=f"{audit.architecture.name}: relations among {audit.items:,} items",
        heads=np.array([split.heads for split in splits], dtype=np.float64),
        held=np.array([relations_by_freedom(split, items=audit.items) for split in splits], dtype=np.float64),
        model=(shape.heads, audit.by_freedom),
        key_heads=shape.groups,
    )
