"""The answer of `manyheads plan --retrieve D --length T`."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from manyheads.bounds.head_bounds import SUFFICIENT_WIDTH, FewerHeads, RetrievalBounds, retrieval_bounds
from manyheads.cli.render.answer import Answer
from manyheads.cli.render.certificate_table import in_heads, pairs_table, shown_notes


def retrieval_planned(dimension: int, length: int, *, width: int | None, input_width: int | None) -> Answer:
    """The bounds of arXiv 2510.06662 for one task, in its symbols where it states no constant."""
    bounds = retrieval_bounds(
        dimension=dimension, length=length, width=SUFFICIENT_WIDTH if width is None else width, input_width=input_width
    )
    enough = in_heads(bounds.sufficient_heads, bounds.sufficient_width)
    rows = [
        ("sufficient", f"{enough}: M > C/ε^γ, whatever the length"),
        *((in_heads(one.heads, bounds.width), _fewer(one, bounds)) for one in bounds.fewer),
        ("one that memorises", _memorising(bounds)),
    ]
    notes = [
        f"the theorems ask that every S_i has at least {bounds.least_subset} of the {length} tokens, a quarter",
        "M counts the parameters of the two MLPs; C, γ and the constant in Ω depend on f_i and F0 and are not stated",
    ]
    if bounds.fewer:
        notes.append("that L layers of h heads do where L·h ≥ D is the paper's conjecture, not a theorem")
    head = Text(
        f"retrieve {dimension} thing{'s' if dimension > 1 else ''} from {length:,} tokens, with an error of at most ε"
    )
    return Answer(facts=asdict(bounds), shown=[head, pairs_table(rows), *shown_notes(notes)], yes=True)


def _fewer(one: FewerHeads, bounds: RetrievalBounds) -> str:
    layers = f"may do in {one.layers} layers"
    if not one.exponent:
        return f"the bound says nothing before T = {one.from_length:,}; {layers}"
    return f"M = Ω(ε^−{one.exponent:.3g}), the exponent growing with T; {layers}"


def _memorising(bounds: RetrievalBounds) -> str:
    width = bounds.memorising_width
    number = f"{bounds.length:,}·d" if width is None else f"{width:,}"
    return f"1 head of width T·d = {number}: M > C/ε^(1+γ)"
