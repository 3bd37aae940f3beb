"""Guarantee: key budgets with a proof and a stated constant, and block sizes that work on given rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads.construct import limit, pack
from manyheads.construct.heads import RADEMACHER
from manyheads.construct.one_hot_items import binomial_width
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.problem.graph import Graph
from manyheads.problem.incoherence import IncoherenceProfile, incoherence_profile, realised_profile
from manyheads.problem.problem import Problem

ROWS = "on rows of length 1, no two of them equal or opposite"  # condition of one head for each relation
NO_PROOF = "no proof with a stated constant"
LENGTH_TOLERANCE = 1e-3  # half precision has three digits
OVERLAP_TOLERANCE = 1e-6  # closer rows are equal in float32
TILE = 1024  # rows whose inner products with all rows are computed together
MOST_ITEMS = 8192  # with more items the m² pairs take minutes


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A key budget, its split, and the proof in words.

    Attributes:
        key_budget: D_K.
        heads: h.
        key_width: d_k.
        proof: The proof in one sentence.
    """

    key_budget: int
    heads: int
    key_width: int
    proof: str


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The largest block size at which construction IV separates on given rows, if its heads are wide enough.

    Attributes:
        worst: Incoherence over every set of d_model items, as in Definition B.4.
        realised: Incoherence on the blocks of the construction; None where no block size works.
        matching_size: Relations in a block; None where no block size works.
        heads: Heads of the construction at this block size; None where no block size works.
        tried: The block sizes that were tried, the largest first.
    """

    worst: IncoherenceProfile
    realised: IncoherenceProfile | None
    matching_size: int | None
    heads: int | None
    tried: tuple[int, ...]


def guarantee(
    *,
    items: int,
    relations: int,
    d_model: int,
    rule: Rule | str = MAX,
    permutation: bool,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> Guarantee | str:
    """The smallest key budget with a proof.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        rule: How heads are joined.
        permutation: Whether the graph is a permutation of the items.
        embedding: Rows to check against the conditions of the proofs; None assumes that the rows meet them.

    Returns:
        The guarantee, or one sentence that says why there is none.
    """
    objection = one_each_objection(d_model, rule=rule, embedding=embedding)
    proved = []
    if objection is None:
        proof = f"a head of width 1 for each relation, {ROWS}"
        proved.append(Guarantee(key_budget=relations, heads=relations, key_width=1, proof=proof))
    independent = d_model >= items and (embedding is None or np.linalg.matrix_rank(embedding) == len(embedding))
    if rule_named(rule) is MAX and permutation and independent:
        width = binomial_width(items, RADEMACHER)
        proof = "construction I for a permutation, on linearly independent rows"
        proved.append(Guarantee(key_budget=width, heads=1, key_width=width, proof=proof))
    return min(proved, key=lambda one: one.key_budget) if proved else str(objection)


def one_each_objection(
    d_model: int, *, rule: Rule | str = MAX, embedding: Float32[ndarray, "items d_model"] | None = None
) -> str | None:
    """The reason why one head of width 1 for each relation has no proof (`bounds.upper.rank_one_key_budget`).

    Args:
        d_model: Width of the embedding.
        rule: How heads are joined; the proof is for max.
        embedding: Rows to check; None assumes rows of length 1, no two of them equal or opposite.

    Returns:
        One sentence, or None if the proof holds.
    """
    if rule_named(rule) is not MAX:
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
        return f"nothing: rows are compared with each other for up to {MOST_ITEMS:,} items"
    twins = _twins(x)
    return None if twins is None else f"nothing: rows {twins[0]} and {twins[1]} of the embedding are equal or opposite"


def promise(graph: Graph, embedding: Float32[ndarray, "items d_model"]) -> Promise:
    """Find the largest block size at which construction IV separates in the limit of wide heads.

    The block size starts at d_model and is halved until the limit separates at the best threshold.

    Args:
        graph: At most MOST_ITEMS items.
        embedding: One row for each item.

    Returns:
        The block size with its incoherence, or a promise without a block size.

    Raises:
        InputError: The rows do not match the items, or there are too many items.
    """
    if graph.items != len(embedding):
        raise InputError(f"the graph has {graph.items} items but the embedding has {len(embedding)} rows")
    if graph.items > MOST_ITEMS:
        raise InputError(f"the block size is computed for up to {MOST_ITEMS} items, not for {graph.items}")
    d_model = embedding.shape[1]
    worst = incoherence_profile(embedding, matching_size=min(d_model, graph.items))
    size, tried = min(d_model, graph.items), []
    while size >= 1:
        tried.append(size)
        blocks = pack(graph, size=size)
        # a block size that fails usually fails in its first tiles, and small blocks have many tiles
        found = limit(Problem(graph, embedding), blocks, mu=worst.mu, until=lambda so_far: not so_far.is_open)
        if found.separates("best"):
            realised = realised_profile(embedding, blocks)
            return Promise(worst=worst, realised=realised, matching_size=size, heads=found.heads, tried=tuple(tried))
        size //= 2
    return Promise(worst=worst, realised=None, matching_size=None, heads=None, tried=tuple(tried))


def _twins(x: Float64[ndarray, "items d_model"]) -> tuple[int, int] | None:
    """Two rows i and p with |x_p·x_i| ≥ |x_i|²: the head of a relation of i scores p as high as i."""
    own = (x * x).sum(axis=1)
    for start in range(0, len(x), TILE):
        overlaps = np.abs(x[start : start + TILE] @ x.T)
        here = np.arange(len(overlaps))
        overlaps[here, start + here] = 0.0
        close = np.argwhere(overlaps >= own[start : start + TILE, None] * (1 - OVERLAP_TOLERANCE))
        if len(close):
            return start + int(close[0, 0]), int(close[0, 1])
    return None
