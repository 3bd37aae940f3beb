"""Incoherence: how much the rows of an embedding overlap (Definition B.4), over all sets and on given matchings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.embedding import Embedding
from manyheads.problem.graph import Matching

EXACT_ITEMS = 4096  # up to this number of items γ is the maximum over every pair of rows
# Beyond that number, `incoherence_profile` examines the pairs among this number of rows: those that overlap most.
HEAVIEST_ROWS = 1024


@dataclass(frozen=True)
class IncoherenceProfile:
    """The numbers of Definition B.4 at matching size B, with δ = XXᵀ/μ − I and μ half way between the extreme ‖x_i‖².

    From `incoherence_profile` the maxima are over every set S of at most B items, as in the definition. From
    `realised_profile` they are over the sources V_k and targets T_k = π(V_k) of given matchings. There γ is the
    largest |Σ_{s∈V_k} δ_i(s)·δ_j(π(s))|: the proof uses this γ, and the definition's γ does not bound it.
    """

    items: int
    d_model: int
    matching_size: int
    mu: float
    epsilon: float  # ε_d: every ‖x_i‖²/μ lies within 1 ± ε_d
    rho: float  # largest Σ_{s∈S} δ_i(s)², i not in S
    gamma: float  # largest |Σ_{a∈S} δ_i(a)·δ_j(a)| over every i and j, so also i = j
    gamma_distinct: float  # the same over i ≠ j
    exact: bool  # False: only some pairs were examined, and the γ that depends on pairs is a lower bound
    sampled_pairs: int | None  # the number of pairs examined, if not all were


def incoherence_profile(embedding: Float[ndarray, "items d_model"], *, matching_size: int) -> IncoherenceProfile:
    """The profile over every set of at most matching_size items.

    ρ and γ are exact for any number of items. γ over i ≠ j is exact up to EXACT_ITEMS items, and beyond that number
    where the examined pairs provably include the maximum.

    Args:
        embedding: The rows of the items.
        matching_size: B, the largest size of a set, at least 1.

    Raises:
        InputError: The size is below 1, the embedding is malformed, or every row is zero.
    """
    if matching_size < 1:
        raise InputError(f"the matching size must be at least 1, not {matching_size}")
    rows, mu, epsilon = _scaled(embedding)
    items, d_model = rows.shape
    rho, masses = 0.0, np.empty(items)
    for chosen in _chunks(np.arange(items)):
        squares = _leakage(rows, chosen) ** 2
        masses[chosen] = _largest(squares, matching_size)
        squares[np.arange(len(chosen)), chosen] = 0.0
        rho = max(rho, float(_largest(squares, matching_size).max()))

    # Over any S, |Σ δ_i·δ_j| ≤ √(mass_i·mass_j), with equality for i = j. So γ is the largest mass, and a pair need not
    # be examined once another pair exceeds its bound.
    heaviest = np.argsort(-masses, kind="stable")
    examined = heaviest if items <= EXACT_ITEMS else heaviest[:HEAVIEST_ROWS]
    gamma_distinct = _cross_leakage(_leakage(rows, examined), matching_size)
    unseen_bound = masses[heaviest[len(examined) :]].max(initial=0.0)
    exact = bool(math.sqrt(masses.max() * unseen_bound) <= gamma_distinct)
    return IncoherenceProfile(
        items=items,
        d_model=d_model,
        matching_size=matching_size,
        mu=mu,
        epsilon=epsilon,
        rho=rho,
        gamma=float(masses.max()),
        gamma_distinct=gamma_distinct,
        exact=exact,
        sampled_pairs=None if exact else math.comb(len(examined), 2),
    )


def realised_profile(embedding: Float[ndarray, "items d_model"], matchings: Sequence[Matching]) -> IncoherenceProfile:
    """The profile on the matchings (V_k, π(V_k)) of a construction.

    Beyond EXACT_ITEMS items, γ of a matching is taken over the EXACT_ITEMS rows that overlap most with it.

    Args:
        embedding: The rows of the items.
        matchings: Sources and targets; the n-th source of a matching belongs to its n-th target.

    Raises:
        InputError: A matching names an item outside the embedding or one item twice, the embedding is malformed, or
            every row is zero.
    """
    rows, mu, epsilon = _scaled(embedding)
    items, d_model = rows.shape
    rho = gamma = gamma_distinct = unseen_bound = 0.0
    for sources, targets in matchings:
        _check_matching(sources, targets, items)
        into_sources, into_targets = _leakage(rows, sources).T, _leakage(rows, targets).T  # δ[:, V_k], δ[:, T_k]
        for leakage, block in ((into_sources, sources), (into_targets, targets)):
            squares = leakage**2
            squares[block, np.arange(len(block))] = 0.0
            rho = max(rho, float(squares.sum(axis=1).max()))
        same, distinct, unseen = _cross_on_matching(into_sources, into_targets)
        gamma = max(gamma, same, distinct)
        gamma_distinct = max(gamma_distinct, distinct)
        unseen_bound = max(unseen_bound, unseen)
    exact = bool(unseen_bound <= gamma_distinct)
    return IncoherenceProfile(
        items=items,
        d_model=d_model,
        matching_size=max((len(sources) for sources, _ in matchings), default=0),
        mu=mu,
        epsilon=epsilon,
        rho=rho,
        gamma=gamma,
        gamma_distinct=gamma_distinct,
        exact=exact,
        sampled_pairs=None if exact else len(matchings) * EXACT_ITEMS**2,
    )


def _scaled(embedding: Float[ndarray, "items d_model"]) -> tuple[Float64[ndarray, "items d_model"], float, float]:
    """X/√μ, whose Gram matrix is I + δ, with μ and ε_d."""
    rows = Embedding.of(embedding).rows.astype(np.float64)
    lengths = np.einsum("id,id->i", rows, rows)
    mu = float(lengths.max() + lengths.min()) / 2  # half way: no other μ has a smaller ε_d
    if mu == 0.0:
        raise InputError("every row of the embedding is zero")
    return rows / math.sqrt(mu), mu, float(lengths.max() / mu - 1)


def _leakage(rows: Float64[ndarray, "items d_model"], chosen: Int[ndarray, " n"]) -> Float64[ndarray, "n items"]:
    """The rows δ_i of the chosen items."""
    delta = rows[chosen] @ rows.T
    delta[np.arange(len(chosen)), chosen] -= 1.0
    return delta


def _largest(values: Float64[ndarray, "n items"], size: int) -> Float64[ndarray, " n"]:
    """The sum of the size largest values of each row."""
    if size >= values.shape[1]:
        return values.sum(axis=1)
    return np.partition(values, -size, axis=1)[:, -size:].sum(axis=1)


def _cross_leakage(delta: Float64[ndarray, "n items"], size: int) -> float:
    """The largest |Σ_{a∈S} δ_i(a)·δ_j(a)| over two different of the given rows and sets S of at most size items."""
    best = 0.0
    for first in _chunks(np.arange(len(delta))):
        others = delta[first[0] :]
        bounds = np.triu(_pair_bounds(delta[first], others, size), k=1)  # each pair once, no row with itself
        i, j = np.nonzero(bounds > best)
        for pairs in _chunks(np.argsort(-bounds[i, j], kind="stable")):
            if bounds[i[pairs[0]], j[pairs[0]]] <= best:
                break
            products = others[i[pairs]] * others[j[pairs]]
            # the best set takes the largest products of one sign
            for signed in (np.maximum(products, 0.0), np.maximum(-products, 0.0)):
                best = max(best, float(_largest(signed, size).max()))
    return best


def _pair_bounds(
    some: Float64[ndarray, "n items"], others: Float64[ndarray, "rows items"], size: int
) -> Float64[ndarray, "n rows"]:
    """For each pair of rows, an upper bound on |Σ_{a∈S} δ_i(a)·δ_j(a)| that costs a few matrix products.

    Cauchy–Schwarz, and Hölder over the at most B products of one sign: their sum is at most
    B^(1−1/k) · (Σ product^k)^(1/k), whatever k; k = 1 is sharp for large sets, k = 4 for small ones. On Gaussian and
    sparse binary rows the best bound excludes more than 99 of 100 pairs.
    """
    bounds = np.sqrt(np.outer(_largest(some**2, size), _largest(others**2, size)))
    left, right = np.abs(some), np.abs(others)
    for k in (1, 2, 4):
        both_signs, difference = left @ right.T, np.copysign(left, some) @ np.copysign(right, others).T
        moment = (both_signs + np.abs(difference)) / 2  # Σ product^k, the larger of the sums of the two signs
        np.minimum(bounds, size ** (1 - 1 / k) * moment ** (1 / k), out=bounds)
        left, right = left**2, right**2
    return bounds * (1 + 1e-9)  # rounding must not hide the maximum


def _cross_on_matching(
    into_sources: Float64[ndarray, "items matching"], into_targets: Float64[ndarray, "items matching"]
) -> tuple[float, float, float]:
    """The largest |Σ_{s∈V_k} δ_i(s)·δ_j(π(s))| for i = j and for i ≠ j, and a bound for the other pairs."""
    source_norms, target_norms = np.linalg.norm(into_sources, axis=1), np.linalg.norm(into_targets, axis=1)
    heaviest = np.argsort(-np.maximum(source_norms, target_norms), kind="stable")
    seen, unseen = heaviest[:EXACT_ITEMS], heaviest[EXACT_ITEMS:]
    same = distinct = 0.0
    for places in _chunks(np.arange(len(seen))):
        cross = into_sources[seen[places]] @ into_targets[seen].T
        diagonal = np.arange(len(places)), places
        same = max(same, float(np.abs(cross[diagonal]).max()))
        cross[diagonal] = 0.0
        distinct = max(distinct, float(cross.max()), -float(cross.min()))
    # Cauchy–Schwarz
    i_unseen = source_norms[unseen].max(initial=0.0) * target_norms.max()
    j_unseen = source_norms.max() * target_norms[unseen].max(initial=0.0)
    return same, distinct, float(max(i_unseen, j_unseen))


def _chunks(indices: Int[ndarray, " n"]) -> Iterator[Int[ndarray, " part"]]:
    """The indices in runs of 256, which bounds the memory of the arrays computed from them."""
    return (indices[start : start + 256] for start in range(0, len(indices), 256))


def _check_matching(sources: Int[ndarray, " _"], targets: Int[ndarray, " _"], items: int) -> None:
    if sources.ndim != 1 or sources.shape != targets.shape:
        raise InputError(f"a matching pairs each source with its target, not {sources.shape} with {targets.shape}")
    for ends in (sources, targets):
        outside = ends[(ends < 0) | (ends >= items)]
        if outside.size:
            raise InputError(f"a matching names item {outside[0]}, but the embedding has {items} rows")
        if len(np.unique(ends)) < len(ends):
            raise InputError("a matching has no item twice as a source or twice as a target")
