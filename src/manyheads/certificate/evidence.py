"""Evidence: what looking at every ordered pair of items has brought to light, before a verdict is drawn from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Witness:
    """A pair the layer gets wrong; under softmax with the context (source first) in which it does."""

    source: int
    target: int
    labels: tuple[str, str]
    is_relation: bool
    score: float  # the layer's own score of the pair in that context
    context: tuple[int, ...] | None = None
    context_labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Evidence:
    """Over all pairs: the window of thresholds, how far rounding reaches, and the pairs that are not proved."""

    low: float  # the largest score of a pair without a relation (softmax: a proved upper bound on it)
    high: float  # the smallest score of a relation (softmax: a proved lower bound on it)
    rounding: float  # bound on the error of the score that decides
    missed: int  # relations that the layer gets wrong for certain
    false_pairs: int  # other pairs that it gets wrong for certain
    open_pairs: int  # pairs neither proved nor refuted
    witness: Witness | None
