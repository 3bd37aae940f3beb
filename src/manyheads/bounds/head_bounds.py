"""Head bounds: the number of heads for a query that retrieves D extrema (head-count paper, arXiv 2510.06662).

The task: z_i = min over t ∈ S_i of f_i(x(t)) for i = 1 … D, and the answer F0(z_1 … z_D); sequences of T tokens of
[0, 1]^d, f_i twice differentiable with a unique minimiser, |S_i| ≥ T/4, F0 once differentiable. One layer of h heads of
width n, with softmax of any sharpness, read out at a class token. M counts the parameters of the two MLPs,
ε is the largest error over all sequences. γ, C and the constants in Ω depend on f_i and F0 and are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.bounds.arguments import Given, Reals, Wholes, whole
from manyheads.errors import InputError

SUFFICIENT_WIDTH = 2  # n of the D heads that suffice: one coordinate for f_i, one for membership in S_i


def retrieval_exponent(*, dimension: Given, length: Given, heads: Given, width: Given) -> Reals:
    """k of M = Ω(ε^(−k)) with s = `heads` < D heads: (T/4 − s − D + 1)/((n + 1)·s + 1) − 1, not below 0.

    A lower bound on the number of parameters of the MLPs, for at least one task of dimension D; exponential in T. An
    exponent of 0 is no restriction. Short sequences have this exponent (`retrieval_length`).

    Args:
        dimension: D, the number of retrieved things.
        length: T, the number of tokens.
        heads: s, below D.
        width: n, the width of each head.

    Returns:
        k, at least 0.

    Raises:
        InputError: A number is below 1, or there are D heads or more.

    >>> float(retrieval_exponent(dimension=4, length=128, heads=1, width=2))
    6.0
    """
    D, T, s, n = _checked(dimension, length, heads, width)
    if (s >= D).any():
        raise InputError(f"the bound is for fewer heads than D = {np.max(D)}: D heads suffice")
    return np.maximum(0.0, (T / 4 - s - D + 1) / ((n + 1) * s + 1) - 1)


def retrieval_length(*, dimension: Given, heads: Given, width: Given) -> Wholes:
    """The largest T at which `retrieval_exponent` is 0: 4·((n + 2)·s + D).

    Args:
        dimension: D.
        heads: s.
        width: n, the width of each head.

    Returns:
        T, in tokens.

    Raises:
        InputError: A number is below 1.

    >>> int(retrieval_length(dimension=4, heads=3, width=8))
    136
    """
    D, _, s, n = _checked(dimension, 1, heads, width)
    return 4 * ((n + 2) * s + D)


def memorising_width(*, length: Given, input_width: Given) -> Wholes:
    """T·d: one head of this width can copy the sequence, and a five-layer ReLU network suffices, M > C/ε^(1 + γ)."""
    return _at_least_one(length, "length") * _at_least_one(input_width, "input_width")


def layers_for(*, dimension: Given, heads: Given) -> Wholes:
    """⌈D/h⌉, the smallest number of layers L, by the paper's conjecture that L·h ≥ D is necessary."""
    return -(-_at_least_one(dimension, "dimension") // _at_least_one(heads, "heads"))


def is_covered(*, subset: Given, length: Given) -> np.bool_ | np.ndarray:
    """Whether a subset S_i with `subset` tokens is large enough for the theorems: |S_i| ≥ T/4."""
    return 4 * _at_least_one(subset, "subset") >= _at_least_one(length, "length")


@dataclass(frozen=True, kw_only=True)
class FewerHeads:
    """The lower bound for s < D heads."""

    heads: int
    exponent: float  # 0: no restriction at this length
    from_length: int  # the smallest T with an exponent above 0
    layers: int  # that suffice by the conjecture


@dataclass(frozen=True, kw_only=True)
class RetrievalBounds:
    """All bounds for one task.

    Attributes:
        dimension: D, the number of extrema to retrieve.
        length: T, the number of tokens of a sequence.
        width: n, the width of each of fewer heads than D.
        sufficient_heads: A number of heads that is enough, D.
        sufficient_width: A width of these D heads that is enough.
        fewer: The lower bounds for smaller numbers of heads.
        memorising_width: The width at which one head can store the whole sequence; None if the width of a token is not
            given.
        least_subset: ⌈T/4⌉, the least number of tokens in the set of a feature.
    """

    dimension: int
    length: int
    width: int
    sufficient_heads: int
    sufficient_width: int
    fewer: tuple[FewerHeads, ...]
    memorising_width: int | None
    least_subset: int


def retrieval_bounds(
    *, dimension: int, length: int, width: int = SUFFICIENT_WIDTH, input_width: int | None = None
) -> RetrievalBounds:
    """All bounds for one task: the sufficient heads, the cost of fewer heads, and the width of one memorising head.

    Args:
        dimension: D, the number of retrieved things.
        length: T, the number of tokens.
        width: n, the width of each head, for fewer heads than D.
        input_width: d, the width of a token, for the memorising head.

    Returns:
        The bounds.

    Raises:
        InputError: A number is below 1.

    >>> [round(one.exponent, 3) for one in retrieval_bounds(dimension=3, length=64, width=2).fewer]
    [2.25, 0.714]
    """
    _checked(dimension, length, 1, width)
    fewer = tuple(
        FewerHeads(
            heads=s,
            exponent=float(retrieval_exponent(dimension=dimension, length=length, heads=s, width=width)),
            from_length=int(retrieval_length(dimension=dimension, heads=s, width=width)) + 1,
            layers=int(layers_for(dimension=dimension, heads=s)),
        )
        for s in _some_below(dimension)
    )
    return RetrievalBounds(
        dimension=dimension,
        length=length,
        width=width,
        sufficient_heads=dimension,
        sufficient_width=SUFFICIENT_WIDTH,
        fewer=fewer,
        memorising_width=None if input_width is None else int(memorising_width(length=length, input_width=input_width)),
        least_subset=-(-length // 4),
    )


def _some_below(dimension: int) -> list[int]:
    """Every s < D; for D above 9 only the powers of two and D − 1."""
    if dimension <= 9:
        return list(range(1, dimension))
    return sorted({1 << power for power in range((dimension - 1).bit_length())} | {dimension - 1})


def _checked(dimension: Given, length: Given, heads: Given, width: Given) -> tuple[Wholes, Wholes, Wholes, Wholes]:
    D, T = _at_least_one(dimension, "D"), _at_least_one(length, "length")
    return D, T, _at_least_one(heads, "heads"), _at_least_one(width, "width")


def _at_least_one(values: Given, name: str) -> Wholes:
    array = whole(values, name)
    if (array < 1).any() or (array > 2**31).any():  # so that no product of two overflows
        wrong = array.min() if array.min() < 1 else array.max()
        raise InputError(f"{name} must be at least 1 and at most 2^31, not {wrong:,}")
    return array
