"""Audit: what the query–key channel of a real architecture can hold at the size of its vocabulary.

Its reach: one layer, alone, with frozen rows like random ones and the rule max. Real layers meet other rows at every
depth, attend by softmax and share the work; so this says what a layer's shape allows, not what a model knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.bounds import Shape, neighbours
from manyheads.bounds.architectures import Architecture
from manyheads.bounds.inverse import relations_by_bits, relations_by_freedom, relations_by_paper
from manyheads.bounds.neighbours import Neighbour
from manyheads.planning.advice import BITS

NEAR = 0.05  # a split that holds this much less than the best of its budget is still near it
REACH = "one layer alone, on frozen rows like random ones, rule max: what the shape allows, not what the model knows"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """One layer of an architecture, all of which are alike, among `items` items."""

    architecture: Architecture
    items: int
    by_bits: int  # more relations are impossible with 16-bit weights
    by_freedom: int  # the degrees-of-freedom law
    by_paper: int  # the paper's empirical law for regular graphs
    best_heads: int  # of the same query budget, the head count that holds most by the law
    by_best_split: int
    without_sharing: int  # by the law, if every query head had keys of its own
    neighbours: tuple[Neighbour, ...]

    @property
    def is_near_best(self) -> bool:
        """Whether the split, keys of its own for each head, is within NEAR of the best of its budget."""
        return self.without_sharing >= (1 - NEAR) * self.by_best_split

    @property
    def sharing_loss(self) -> float:
        """The share of relations that shared keys cost, by the law."""
        return 1 - self.by_freedom / self.without_sharing if self.without_sharing else 0.0


def audit(architecture: Architecture, *, items: int | None = None, context_length: int = 1024) -> Audit:
    """What one layer holds by each law; `items` is the vocabulary unless given."""
    count = architecture.vocabulary if items is None else items
    shape = architecture.shape
    alone = Shape(d_model=shape.d_model, heads=shape.heads, key_width=shape.key_width)
    splits = _splits(alone)
    held = {split.heads: relations_by_freedom(split, items=count) for split in splits}
    best = max(held, key=lambda heads: (held[heads], -heads))
    return Audit(
        architecture=architecture,
        items=count,
        by_bits=relations_by_bits(shape, items=count, bits=BITS),
        by_freedom=relations_by_freedom(shape, items=count),
        by_paper=relations_by_paper(shape, items=count),
        best_heads=best,
        by_best_split=held[best],
        without_sharing=held[shape.heads],
        neighbours=tuple(neighbours(shape, context_length=context_length)),
    )


def _splits(shape: Shape) -> list[Shape]:
    """The query budget in every number of heads that divides it, none wider than d_model."""
    budget = shape.query_budget
    return [
        Shape(d_model=shape.d_model, heads=heads, key_width=budget // heads)
        for heads in range(1, budget + 1)
        if budget % heads == 0 and (budget // heads <= shape.d_model or heads == shape.heads)
    ]
