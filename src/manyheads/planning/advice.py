"""Plan: what is impossible, what is likely, what is guaranteed, and how to split it into heads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.bounds import (
    Regime,
    Shape,
    freedom_key_width,
    freedom_needed,
    graph_bit_key_budget,
    ln_graphs,
    margin_key_budget,
    paper_heads,
    paper_key_budget,
    regime,
    upper,
)
from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.widths import binomial_width
from manyheads.errors import InputError
from manyheads.layer import Rule
from manyheads.planning.prediction import Prediction, freedom_law, predict
from manyheads.planning.split import Alternative, Split, alternatives, split

BITS = 16.0  # what a weight is usually stored in


@dataclass(frozen=True)
class Guarantee:
    """A key budget with a proof, and which."""

    key_budget: int
    heads: int
    key_width: int
    proof: str


@dataclass(frozen=True)
class Plan:
    """Everything said about one problem; budgets are key dimensions D_K unless they say otherwise."""

    items: int
    relations: int
    d_model: int
    rule: Rule
    context_length: int | None
    bit_bound: float  # no layer of 16-bit weights holds every such graph with less
    margin_bound: float  # nor one whose normalised margin is 1/(2·d_model)
    regime: Regime
    paper_law: float
    paper_heads: float
    freedom_law: float
    predicted: Prediction
    guaranteed: Guarantee | None
    recommended: Split
    reason: str
    friendly: Split | None  # with key widths that are multiples of what was asked for
    grouped: Shape | None  # with as many key heads as were asked for
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...]

    @property
    def price(self) -> float | None:
        """What the friendly widths cost, as a share of the recommended key budget."""
        return None if self.friendly is None else self.friendly.key_budget / self.recommended.key_budget - 1


def plan(
    relations: int,
    items: int,
    d_model: int,
    *,
    rule: Rule = "max",
    context_length: int | None = None,
    max_degree: int | None = None,
    bits: float = BITS,
    multiple: int | None = None,
    key_heads: int | None = None,
) -> Plan:
    """What a layer must cost that holds m' relations among m items embedded in d_model dimensions.

    For frozen rows like random ones; `max_degree` where the graph is known, else degrees are taken to be even.

    >>> advice = plan(512, 512, 64)
    >>> advice.recommended.heads, advice.bit_bound < advice.freedom_law < advice.predicted.key_budget
    (3, True)
    """
    _check(relations, items, d_model, rule, context_length, max_degree, multiple, key_heads)
    degree = max_degree or math.ceil(relations / items)
    predicted = predict(items, relations, d_model, rule=rule)
    bit_bound = float(graph_bit_key_budget(items, relations, d_model, bits=bits))
    wanted = max(predicted.safe, bit_bound, 1.0)
    most_heads = context_length if rule == "softmax" else None
    best = split(items, relations, d_model, wanted, most_heads=most_heads)
    margin = 1 / (2 * d_model)
    return Plan(
        items=items,
        relations=relations,
        d_model=d_model,
        rule=rule,
        context_length=context_length,
        bit_bound=bit_bound,
        margin_bound=float(margin_key_budget(ln_graphs(items, relations), d_model, margin=margin)),
        regime=regime(items, relations, d_model),
        paper_law=float(paper_key_budget(items, relations, d_model, degree=1 if relations == items else 2)),
        paper_heads=float(paper_heads(items, d_model)),
        freedom_law=freedom_law(items, relations, d_model),
        predicted=predicted,
        guaranteed=_guarantee(items, relations, d_model, rule),
        recommended=best,
        reason=_reason(items, relations, d_model, best),
        friendly=None
        if multiple is None
        else split(items, relations, d_model, wanted, multiple=multiple, most_heads=most_heads),
        grouped=None if key_heads is None else _grouped(items, relations, d_model, best, key_heads),
        alternatives=tuple(alternatives(items, d_model, best)),
        notes=tuple(_notes(items, relations, d_model, rule, context_length, degree, best, predicted)),
    )


def _guarantee(items: int, relations: int, d_model: int, rule: Rule) -> Guarantee | None:
    if rule != "max":
        return None
    one_each = Guarantee(relations, relations, 1, "a head of width 1 for each relation, on any rows of length 1")
    if d_model < items or relations != items:
        return one_each
    width = binomial_width(items, RADEMACHER)
    one_head = Guarantee(width, 1, width, "construction I for a permutation, on linearly independent rows")
    return min(one_each, one_head, key=lambda guarantee: guarantee.key_budget)


def _grouped(items: int, relations: int, d_model: int, best: Split, key_heads: int) -> Shape:
    """The same margin over the law as the recommended split has, with so many key heads."""
    heads = math.ceil(best.heads / key_heads) * key_heads
    alone = freedom_key_width(items, relations, d_model, heads)
    shared = freedom_key_width(items, relations, d_model, heads, key_heads=key_heads)
    if shared is None or alone is None:
        raise InputError(f"{key_heads} key heads are too few: {heads} heads over them have too little freedom")
    return Shape(d_model, heads, max(1, math.ceil(shared * best.key_budget / (heads * alone))), key_heads)


def _reason(items: int, relations: int, d_model: int, best: Split) -> str:
    needed = float(freedom_needed(items, relations, best.heads)) / d_model**2
    if best.heads == 1:
        return f"one head has room: its share of all d_model² = {d_model**2:,} degrees of freedom is {needed:.0%}"
    return (
        f"each of {best.heads} heads needs {needed:.0%} of the d_model² = {d_model**2:,} degrees of freedom of a full "
        "one: fewer heads come close to full rank, more share out too little each"
    )


def _notes(
    items: int,
    relations: int,
    d_model: int,
    rule: Rule,
    context_length: int | None,
    degree: int,
    best: Split,
    predicted: Prediction,
) -> list[str]:
    notes = []
    if predicted.is_extrapolated:
        notes.append("the prediction is an extrapolation: it was calibrated on m 32–512, d_model 12–96, degrees 1–4")
    if not upper.is_bounded_skew(relations, degree, d_model):
        notes.append(
            f"the skew condition (33) fails: Δ = {degree} exceeds m'/d_model = {relations / d_model:.3g}, so the "
            "constructions need Δ heads, more than the relations alone would ask for"
        )
    if degree > 4 * max(1.0, relations / items):
        notes.append("the prediction takes degrees to be about even, and here they are not: expect to need more")
    if rule == "softmax" and context_length is not None:
        background = float(upper.background_share(best.heads, context_length))
        floor = float(upper.softmax_floor(context_length))
        notes.append(
            f"in contexts of {context_length} items the heads that do not own a source add about (h − 1)/ℓ = "
            f"{background:.2g} to each of its scores, and Eq. 19 asks for widths of the order (ln ℓ)² = {floor:.3g}"
        )
    return notes


def _check(
    relations: int,
    items: int,
    d_model: int,
    rule: Rule,
    context_length: int | None,
    max_degree: int | None,
    multiple: int | None,
    key_heads: int | None,
) -> None:
    if items < 2:
        raise InputError(f"relations are between at least 2 items, not {items}")
    if d_model < 1:
        raise InputError(f"d_model must be at least 1, not {d_model}")
    if not 1 <= relations <= items * (items - 1):
        most = items * (items - 1)
        raise InputError(f"{relations} relations do not fit {items} items, which have {most} ordered pairs")
    for name, value in (("max_degree", max_degree), ("multiple", multiple), ("key_heads", key_heads)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, not {value}")
    if rule == "softmax" and context_length is None:
        raise InputError("under softmax a plan is for contexts of a length: give the context length")
    if rule not in ("max", "softmax"):
        raise InputError(f"plans are for the rules max and softmax, not {rule}")
    if context_length is not None and not 2 <= context_length <= items:
        raise InputError(f"a context has from 2 to {items} of the items, not {context_length}")
