"""Plan: which key budgets are impossible, likely and guaranteed, and how to split the recommended one into heads."""

from __future__ import annotations

import math

from jaxtyping import Float32
from numpy import ndarray

from manyheads.bounds import (
    Shape,
    bits_per_weight,
    freedom_key_width,
    graph_bit_key_budget,
    ln_graphs,
    log2_share,
    margin_key_budget,
    paper_heads,
    paper_key_budget,
    permutation_margin,
    regime,
    unconditional_key_budget,
    upper,
)
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, SOFTMAX, Rule, rule_named
from manyheads.numbers import check_numbers
from manyheads.planning.guarantee import Guarantee, guarantee
from manyheads.planning.layer_plan import Plan
from manyheads.planning.prediction import (
    CALIBRATED,
    CONTEXT,
    MOST_HEADS,
    KeyWidths,
    Prediction,
    Split,
    alternatives,
    freedom_law,
    key_widths,
    predict,
    split,
)
from manyheads.problem.embedding import Embedding
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE
from manyheads.tables import counted

BITS = 16.0  # bits of a weight in most stored models
SKEWED = 4.0  # times the mean degree: with a larger degree the prediction is too low


def plan(
    *,
    items: int,
    relations: int,
    d_model: int,
    heads: int | None = None,
    rule: Rule | str = MAX,
    context_length: int | None = None,
    max_degree: int | None = None,
    permutation: bool | None = None,
    bits: float = BITS,
    multiple: int | None = None,
    key_heads: int | None = None,
    embedding: Embedding | ndarray | None = None,
) -> Plan:
    """Plan a layer that holds m' relations among m items in d_model dimensions, on frozen rows like random ones.

    Args:
        items: m, at least 2.
        relations: m', from 1 to m·(m − 1).
        d_model: Width of the embedding, at least 1.
        heads: The number of heads, if it is fixed: the plan then says how wide they must be. None: the plan recommends
            a number.
        rule: How heads are joined: max or softmax.
        context_length: Items in a context, from 2 to m; the rule softmax needs it.
        max_degree: Largest in- or out-degree of the graph; None assumes that all degrees are about equal.
        permutation: Whether the graph is a permutation of the items. It decides the slope of the paper's law and
            whether construction I applies. None: a graph with m' = m whose degrees are equal counts as a permutation,
            and a note says so.
        bits: Bits in a weight, for the impossible key budget.
        multiple: Plan also with key widths that are multiples of this.
        key_heads: Plan also with this number of key heads, shared by equal groups of query heads. It divides heads, if
            these are given; else the plan with shared keys takes the next number of heads that it divides.
        embedding: Rows to check against the conditions of the proofs; None assumes that the rows meet them.

    Returns:
        The plan.

    Raises:
        InputError: A size is out of its range, or the sizes contradict each other.

    >>> advice = plan(items=512, relations=512, d_model=64)
    >>> advice.recommended.heads, advice.bit_bound < advice.freedom_law < advice.predicted.key_budget
    (5, True)
    >>> plan(items=512, relations=512, d_model=64, heads=32).recommended.key_width
    4
    """
    rule = rule_named(rule)
    rows = None if embedding is None else Embedding.of(embedding).rows
    _check_sizes(items, relations, d_model, rows)
    check_numbers(heads=heads, max_degree=max_degree, multiple=multiple, key_heads=key_heads, bits=bits)
    _check_options(items, rule, context_length)
    is_permutation = _is_permutation(items, relations, max_degree, permutation)
    sizes = {"items": items, "relations": relations, "d_model": d_model}
    predicted = predict(**sizes, rule=rule, context_length=context_length)
    bit_bound = float(graph_bit_key_budget(**sizes, bits=bits))
    wanted = max(bit_bound, 1.0)
    widths = key_widths(**sizes, rule=rule, most_heads=max(MOST_HEADS, 2 * (heads or 1)))
    most_heads = context_length if rule is SOFTMAX else None
    best = split(widths, d_model=d_model, heads=heads, key_budget=wanted, most_heads=most_heads)
    others = alternatives(best, widths, d_model=d_model, heads=heads, key_budget=wanted)
    friendly = None
    if multiple is not None:
        friendly = split(
            widths, d_model=d_model, heads=heads, key_budget=wanted, multiple=multiple, most_heads=most_heads
        )
    margin_bound, least, share = None, None, None
    if rule is MAX:
        family = float(ln_graphs(items=items, relations=relations))
        margin_bound = float(margin_key_budget(family, d_model=d_model, margin=permutation_margin(d_model)))
        least = unconditional_key_budget(family, items=items, d_model=d_model)
        if least > 1:
            share = float(log2_share(family, items=items, d_model=d_model, heads=least - 1, key_width=1))
    slope = PERMUTATION_SLOPE if is_permutation else RELATION_SLOPE
    proved = guarantee(**sizes, rule=rule, permutation=is_permutation, embedding=rows)
    guaranteed = proved if isinstance(proved, Guarantee) else None
    degree = max_degree or math.ceil(relations / items)
    notes = [
        *_permutation_notes(is_permutation, permutation),
        *_prediction_notes(predicted, context_length),
        *_guarantee_notes(guaranteed, best),
        *_degree_notes(items, relations, d_model, degree),
        *_softmax_notes(rule, context_length, best),
    ]
    return Plan(
        **sizes,
        rule=rule,
        context_length=context_length,
        permutation=is_permutation,
        bit_bound=bit_bound,
        margin_bound=margin_bound,
        unconditional_bound=least,
        log2_share_below=share,
        bits_per_weight=bits_per_weight(
            f"permutation:{items}" if is_permutation else f"random:{items}:{relations}",
            weights=2 * d_model * best.key_budget,
        ),
        regime=regime(**sizes),
        paper_law=float(paper_key_budget(**sizes, slope=slope)),
        paper_heads=float(paper_heads(items=items, d_model=d_model)),
        freedom_law=freedom_law(**sizes),
        predicted=predicted,
        guaranteed=guaranteed,
        unproved=proved if isinstance(proved, str) else None,
        recommended=best,
        reason=_reason(d_model, best, widths, heads),
        friendly=friendly,
        grouped=None if key_heads is None else _grouped(sizes, best, widths, key_heads, heads),
        alternatives=tuple(one for one in others if one.heads <= max(most_heads or one.heads, best.heads)),
        notes=tuple(notes),
    )


def check_counts(*, items: int, relations: int) -> None:
    """Refuse counts that no graph without loops has.

    Args:
        items: m.
        relations: m'.

    Raises:
        InputError: There are fewer than 2 items, too many items, or more relations than ordered pairs.
    """
    check_numbers(items=items, relations=relations)
    if items < 2:
        raise InputError(f"relations are between at least 2 items, not {items}")
    pairs = items * (items - 1)
    if not 1 <= relations <= pairs:
        raise InputError(f"{relations} relations do not fit {items} items, which have {pairs} ordered pairs")


def _is_permutation(items: int, relations: int, max_degree: int | None, permutation: bool | None) -> bool:
    possible = relations == items and max_degree in (None, 1)
    if permutation and not possible:
        degree = "" if max_degree is None else f" and the largest degree {max_degree}"
        raise InputError(f"a permutation of {items} items has {items} relations, not {relations}{degree}")
    return possible if permutation is None else permutation


def _grouped(sizes: dict[str, int], best: Split, widths: KeyWidths, key_heads: int, given: int | None) -> Shape:
    """The shape with these key heads whose key width exceeds the law by the same factor as that of separate heads."""
    d_model, heads = sizes["d_model"], given or math.ceil(best.heads / key_heads) * key_heads
    own, shared = (freedom_key_width(**sizes, heads=heads, key_heads=groups) for groups in (None, key_heads))
    if shared is None or own is None:
        raise InputError(f"{key_heads} key heads are too few: {heads} heads over them have too little freedom")
    separate = split(widths, d_model=d_model, heads=heads) if heads != best.heads else best
    key_width = max(1, math.ceil(shared * separate.key_width / own))
    return Shape(d_model=d_model, heads=heads, key_width=key_width, key_heads=key_heads)


def _reason(d_model: int, best: Split, widths: KeyWidths, given: int | None) -> str:
    needed = float(widths.shares[best.heads - 1])
    if given is not None:
        return f"the width that training needs in {counted(given, 'head')}, with the safety of every recommendation"
    if best.heads == 1:
        return f"one head is enough: it needs {needed:.0%} of the d_model² = {d_model**2:,} degrees of freedom"
    return (
        f"each of {best.heads} heads needs {needed:.0%} of the d_model² = {d_model**2:,} degrees of freedom of a full "
        "one: with fewer heads each is nearer to full rank, with more heads each holds too little"
    )


def _permutation_notes(is_permutation: bool, given: bool | None) -> list[str]:
    if not is_permutation or given:
        return []
    return [
        "as many relations as items are taken for a permutation: for other graphs the constant of the paper's fit is "
        f"{RELATION_SLOPE} instead of {PERMUTATION_SLOPE}"
    ]


def _prediction_notes(predicted: Prediction, context_length: int | None) -> list[str]:
    if not predicted.is_extrapolated:
        return []
    ranges = {name: f"{low:g}–{high:g}" for name, (low, high) in CALIBRATED.items()}
    unmeasured = "" if context_length in (None, CONTEXT) else f"; for {context_length} it stays the same"
    return [
        f"the prediction is an extrapolation: it was calibrated on m {ranges['items']}, d_model {ranges['d_model']}, "
        f"degrees {ranges['degree']}, contexts of {CONTEXT} items{unmeasured}"
    ]


def _guarantee_notes(guaranteed: Guarantee | None, best: Split) -> list[str]:
    if guaranteed is None or guaranteed.key_budget >= best.key_budget:
        return []
    return [
        f"what is guaranteed is cheaper than what is recommended, D_K {guaranteed.key_budget:,} against "
        f"{best.key_budget:,}: a layer can be constructed with less than training is predicted to need"
    ]


def _degree_notes(items: int, relations: int, d_model: int, degree: int) -> list[str]:
    notes = []
    if not upper.is_bounded_skew(relations=relations, max_degree=degree, d_model=d_model):
        notes.append(
            f"the skew condition (33) fails: Δ = {degree} exceeds m'/d_model = {relations / d_model:.3g}, so the "
            "constructions need Δ heads, more than the relations alone would ask for"
        )
    if degree > SKEWED * max(1.0, relations / items):
        notes.append("the prediction takes degrees to be about even, and here they are not: expect to need more")
    return notes


def _softmax_notes(rule: Rule, context_length: int | None, best: Split) -> list[str]:
    if rule is not SOFTMAX or context_length is None:
        return []
    background = float(upper.background_share(heads=best.heads, context_length=context_length))
    floor = float(upper.softmax_floor(context_length))
    return [
        f"in contexts of {context_length} items the heads that do not own a source add about (h − 1)/ℓ = "
        f"{background:.2g} to each of its scores, and Eq. 19 asks for widths of the order (ln ℓ)² = {floor:.3g}"
    ]


def _check_sizes(items: int, relations: int, d_model: int, embedding: Float32[ndarray, "items d_model"] | None) -> None:
    check_numbers(d_model=d_model)
    check_counts(items=items, relations=relations)
    if embedding is not None and embedding.shape != (items, d_model):
        raise InputError(f"the embedding has the shape {embedding.shape}, the plan is for ({items}, {d_model})")


def _check_options(items: int, rule: Rule, context_length: int | None) -> None:
    check_numbers(context_length=context_length)
    if rule is SOFTMAX and context_length is None:
        raise InputError("under softmax a plan is for contexts of a length: give the context length")
    if rule not in (MAX, SOFTMAX):
        raise InputError(f"plans are for the rules max and softmax, not {rule}")
    if context_length is not None and not 2 <= context_length <= items:
        raise InputError(f"a context has from 2 to {items} of the items, not {context_length}")
