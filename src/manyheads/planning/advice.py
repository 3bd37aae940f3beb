"""Plan: what is impossible, what is likely, what is guaranteed, and how to split it into heads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float32
from numpy import ndarray

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
from manyheads.errors import InputError
from manyheads.layer.layer import Rule
from manyheads.planning.guarantee import Guarantee, guarantee
from manyheads.planning.prediction import CONTEXT, Prediction, freedom_law, predict
from manyheads.planning.split import Alternative, Split, alternatives, split
from manyheads.problem.graph import MOST_ITEMS

BITS = 16.0  # what a weight is usually stored in


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything said about one problem; budgets are key dimensions D_K unless they say otherwise."""

    items: int
    relations: int
    d_model: int
    rule: Rule
    context_length: int | None
    bit_bound: float  # no layer of 16-bit weights holds every such graph with less
    margin_bound: float | None  # nor one whose normalised margin is 1/(2·d_model); softmax is not scale-free: none
    regime: Regime
    paper_law: float
    paper_heads: float
    freedom_law: float
    predicted: Prediction
    guaranteed: Guarantee | None
    unproved: str | None  # why nothing is guaranteed
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
    *,
    relations: int,
    items: int,
    d_model: int,
    rule: Rule = "max",
    context_length: int | None = None,
    max_degree: int | None = None,
    bits: float = BITS,
    multiple: int | None = None,
    key_heads: int | None = None,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> Plan:
    """What a layer must cost that holds m' relations among m items embedded in d_model dimensions.

    For frozen rows like random ones; `max_degree` where the graph is known, else degrees are taken to be even: as
    many relations as items are then a permutation. Nothing is guaranteed that the rows of an `embedding` do not allow.

    >>> advice = plan(items=512, relations=512, d_model=64)
    >>> advice.recommended.heads, advice.bit_bound < advice.freedom_law < advice.predicted.key_budget
    (3, True)
    """
    _check(relations, items, d_model, rule, context_length, max_degree, multiple, key_heads)
    if embedding is not None and embedding.shape != (items, d_model):
        raise InputError(f"the embedding has the shape {embedding.shape}, the plan is for ({items}, {d_model})")
    degree = max_degree or math.ceil(relations / items)
    predicted = predict(items=items, relations=relations, d_model=d_model, rule=rule, context_length=context_length)
    bit_bound = float(graph_bit_key_budget(items=items, relations=relations, d_model=d_model, bits=bits))
    wanted = max(predicted.safe, bit_bound, 1.0)
    most_heads = context_length if rule == "softmax" else None
    best = split(items=items, relations=relations, d_model=d_model, key_budget=wanted, most_heads=most_heads)
    margin = margin_key_budget(ln_graphs(items=items, relations=relations), d_model=d_model, margin=1 / (2 * d_model))
    is_permutation = relations == items and degree == 1
    proved = guarantee(
        items=items, relations=relations, d_model=d_model, rule=rule, is_permutation=is_permutation, embedding=embedding
    )
    guaranteed = proved if isinstance(proved, Guarantee) else None
    return Plan(
        items=items,
        relations=relations,
        d_model=d_model,
        rule=rule,
        context_length=context_length,
        bit_bound=bit_bound,
        margin_bound=float(margin) if rule == "max" else None,
        regime=regime(items=items, relations=relations, d_model=d_model),
        paper_law=float(
            paper_key_budget(items=items, relations=relations, d_model=d_model, degree=1 if relations == items else 2)
        ),
        paper_heads=float(paper_heads(items=items, d_model=d_model)),
        freedom_law=freedom_law(items=items, relations=relations, d_model=d_model),
        predicted=predicted,
        guaranteed=guaranteed,
        unproved=proved if isinstance(proved, str) else None,
        recommended=best,
        reason=_reason(items, relations, d_model, best),
        friendly=None
        if multiple is None
        else split(
            items=items,
            relations=relations,
            d_model=d_model,
            key_budget=wanted,
            multiple=multiple,
            most_heads=most_heads,
        ),
        grouped=None if key_heads is None else _grouped(items, relations, d_model, best, key_heads),
        alternatives=tuple(alternatives(best, items=items, d_model=d_model)),
        notes=tuple(_notes(items, relations, d_model, rule, context_length, degree, best, predicted, guaranteed)),
    )


def _grouped(items: int, relations: int, d_model: int, best: Split, key_heads: int) -> Shape:
    """The same margin over the law as the recommended split has, with so many key heads."""
    heads = math.ceil(best.heads / key_heads) * key_heads
    alone = freedom_key_width(items=items, relations=relations, d_model=d_model, heads=heads)
    shared = freedom_key_width(items=items, relations=relations, d_model=d_model, heads=heads, key_heads=key_heads)
    if shared is None or alone is None:
        raise InputError(f"{key_heads} key heads are too few: {heads} heads over them have too little freedom")
    return Shape(
        d_model=d_model,
        heads=heads,
        key_width=max(1, math.ceil(shared * best.key_budget / (heads * alone))),
        key_heads=key_heads,
    )


def _reason(items: int, relations: int, d_model: int, best: Split) -> str:
    needed = float(freedom_needed(items=items, relations=relations, heads=best.heads)) / d_model**2
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
    guaranteed: Guarantee | None,
) -> list[str]:
    notes = []
    if predicted.is_extrapolated:
        unmeasured = "" if context_length in (None, CONTEXT) else f"; for {context_length} it stays the same"
        notes.append(
            "the prediction is an extrapolation: it was calibrated on m 32–512, d_model 12–96, degrees 1–4, contexts "
            f"of {CONTEXT} items{unmeasured}"
        )
    if guaranteed is not None and guaranteed.key_budget < best.key_budget:
        notes.append(
            f"what is guaranteed is cheaper than what is recommended, D_K {guaranteed.key_budget:,} against "
            f"{best.key_budget:,}: a layer can be constructed with less than training is predicted to need"
        )
    if not upper.is_bounded_skew(relations=relations, max_degree=degree, d_model=d_model):
        notes.append(
            f"the skew condition (33) fails: Δ = {degree} exceeds m'/d_model = {relations / d_model:.3g}, so the "
            "constructions need Δ heads, more than the relations alone would ask for"
        )
    if degree > 4 * max(1.0, relations / items):
        notes.append("the prediction takes degrees to be about even, and here they are not: expect to need more")
    if rule == "softmax" and context_length is not None:
        background = float(upper.background_share(heads=best.heads, context_length=context_length))
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
    if items > MOST_ITEMS:
        raise InputError(f"graphs are counted for up to {MOST_ITEMS:,} items, not for {items:,}")
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
