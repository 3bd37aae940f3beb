"""Guarantee: a key budget with a proof and a stated constant, where its conditions are known to hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.widths import binomial_width
from manyheads.layer.layer import Rule
from manyheads.planning.promise import MOST_ITEMS

ROWS = "on rows of length 1, no two of them equal or opposite"  # what one head for each relation asks for
NO_PROOF = "no proof with a stated constant"
LENGTH_TOLERANCE = 1e-3  # half precision keeps three digits
OVERLAP_TOLERANCE = 1e-6  # nearer than float32 can tell is as good as equal
TILE = 1024  # rows whose overlaps with all others are looked at together


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A key budget with a proof, and which."""

    key_budget: int
    heads: int
    key_width: int
    proof: str


def guarantee(
    *,
    items: int,
    relations: int,
    d_model: int,
    rule: Rule,
    is_permutation: bool,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> Guarantee | str:
    """The smallest key budget with a proof, or why there is none; an embedding is held against what the proofs ask."""
    objection = one_each_objection(d_model, rule=rule, embedding=embedding)
    found = []
    if objection is None:
        found.append(
            Guarantee(
                key_budget=relations, heads=relations, key_width=1, proof=f"a head of width 1 for each relation, {ROWS}"
            )
        )
    if rule == "max" and is_permutation and d_model >= items and (embedding is None or _is_independent(embedding)):
        width = binomial_width(items, RADEMACHER)
        proof = "construction I for a permutation, on linearly independent rows"
        found.append(Guarantee(key_budget=width, heads=1, key_width=width, proof=proof))
    return min(found, key=lambda one: one.key_budget) if found else str(objection)


def one_each_objection(
    d_model: int, *, rule: Rule, embedding: Float32[ndarray, "items d_model"] | None = None
) -> str | None:
    """Why a head of width 1 for each relation is not proved to do (`rank_one_key_budget`), if it is not."""
    if rule != "max":
        return NO_PROOF
    if d_model == 1:
        return "nothing: in one dimension any two rows of length 1 are equal or opposite"
    if embedding is None:
        return None
    x = embedding.astype(np.float64)
    lengths = np.linalg.norm(x, axis=1)
    if not lengths.all():
        return f"nothing: row {int(np.argmin(lengths))} of the embedding is zero"
    off = np.abs(lengths - 1)
    if off.max() > LENGTH_TOLERANCE:
        row = int(np.argmax(off))
        return f"nothing: the proof is for rows of length 1, and row {row} of the embedding has {lengths[row]:.4g}"
    if len(x) > MOST_ITEMS:
        return f"nothing: whether rows are equal or opposite is looked at for up to {MOST_ITEMS:,} items"
    twins = _twins(x)
    return None if twins is None else f"nothing: rows {twins[0]} and {twins[1]} of the embedding are equal or opposite"


def _twins(x: Float64[ndarray, "items d_model"]) -> tuple[int, int] | None:
    """Two rows i, p with |x_p·x_i| ≥ |x_i|², so that the head of a relation of i cannot tell p from it."""
    own = (x * x).sum(axis=1)
    for start in range(0, len(x), TILE):
        overlaps = np.abs(x[start : start + TILE] @ x.T)
        here = np.arange(len(overlaps))
        overlaps[here, start + here] = 0.0
        close = np.argwhere(overlaps >= own[start : start + TILE, None] * (1 - OVERLAP_TOLERANCE))
        if len(close):
            return start + int(close[0, 0]), int(close[0, 1])
    return None


def _is_independent(embedding: Float32[ndarray, "items d_model"]) -> bool:
    return int(np.linalg.matrix_rank(embedding)) == len(embedding)
