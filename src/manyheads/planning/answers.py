"""Answers to the inverse questions of a plan: relations that fit a shape, and the d_model that a key budget needs."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float32
from numpy import ndarray

from manyheads.bounds import Shape
from manyheads.bounds.inverse import (
    d_model_by_bits,
    d_model_by_freedom,
    d_model_by_paper,
    relations_by_bits,
    relations_by_freedom,
    relations_by_paper,
)
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.planning.advice import BITS, check_counts
from manyheads.planning.guarantee import one_each_objection
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE


@dataclass(frozen=True, kw_only=True)
class RelationsThatFit:
    """The relations among `items` items that one layer of a shape holds.

    Attributes:
        items: m.
        shape: The query–key channel of the layer.
        rule: How heads are joined; the two laws are for max.
        impossible_beyond: More relations than this are impossible for at least one graph.
        likely: The degrees-of-freedom law, an estimate for rows like random ones.
        paper_law: The paper's law for graphs that are no permutations, solved for the relations.
        guaranteed: Relations with a proof; None where there is none.
        guaranteed_by_heads: Whether the proof has one relation for each head; otherwise it has one for each dimension
            of the keys.
        unproved: Why nothing is guaranteed; None where something is.
    """

    items: int
    shape: Shape
    rule: Rule
    impossible_beyond: int
    likely: int
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
        impossible_below: Below this d_model, at least one graph is impossible.
        likely_from: The degrees-of-freedom law at its best split; None where no d_model is large enough.
        paper_law: The paper's law, solved for d_model.
    """

    items: int
    relations: int
    key_budget: int
    rule: Rule
    permutation: bool
    impossible_below: int
    likely_from: int | None
    paper_law: int


def relations_that_fit(
    shape: Shape,
    *,
    items: int,
    rule: Rule | str = MAX,
    bits: float = BITS,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> RelationsThatFit:
    """How many relations fit into given heads.

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
    objection = one_each_objection(shape.d_model, rule=rule, embedding=embedding)
    return RelationsThatFit(
        items=items,
        shape=shape,
        rule=rule_named(rule),
        impossible_beyond=relations_by_bits(shape, items=items, bits=bits),
        likely=relations_by_freedom(shape, items=items),
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
    """What d_model a key budget needs.

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
    if key_budget < 1:
        raise InputError(f"key_budget must be at least 1, not {key_budget}")
    sizes = {"items": items, "relations": relations, "key_budget": key_budget}
    is_permutation = relations == items if permutation is None else permutation
    return WidthNeeded(
        **sizes,
        rule=rule_named(rule),
        permutation=is_permutation,
        impossible_below=d_model_by_bits(**sizes, bits=bits),
        likely_from=d_model_by_freedom(**sizes),
        paper_law=d_model_by_paper(**sizes, slope=PERMUTATION_SLOPE if is_permutation else RELATION_SLOPE),
    )
