"""How many heads a query that must retrieve D things needs ("The effect of attention head count", arXiv 2510.06662).

The task: z_i = min over t ∈ S_i of f_i(x(t)) for i = 1 … D, and the answer F0(z_1 … z_D); sequences of T tokens of
[0, 1]^d, f_i twice differentiable with a unique minimiser, |S_i| ≥ T/4, F0 once differentiable. One layer of h heads of
width n, whose softmax may be as sharp as it likes, read out at a class token. M counts the parameters of the two MLPs,
ε is the largest error over all sequences. γ, C and the constants in Ω depend on f_i and F0 and are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.bounds.arguments import Given, Reals, Wholes, whole
from manyheads.errors import InputError

SUFFICIENT_WIDTH = 2
"""n of the D heads that suffice: one coordinate for f_i, one for who belongs to S_i."""


def retrieval_exponent(*, dimension: Given, length: Given, heads: Given, width: Given) -> Reals:
    """k of M = Ω(ε^(−k)) with s = `heads` < D heads: (T/4 − s − D + 1)/((n + 1)·s + 1) − 1, not below 0.

    A lower bound on what the MLPs must cost, for some task of dimension D: exponential in T. Where it is 0 it says
    nothing, as it does for short sequences (`retrieval_length`).

    >>> float(retrieval_exponent(dimension=4, length=128, heads=1, width=2))
    6.0
    """
    D, T, s, n = _checked(dimension, length, heads, width)
    if (s >= D).any():
        raise InputError(f"the bound is for fewer heads than D = {np.max(D)}: as many suffice")
    return np.maximum(0.0, (T / 4 - s - D + 1) / ((n + 1) * s + 1) - 1)


def retrieval_length(*, dimension: Given, heads: Given, width: Given) -> Wholes:
    """The largest T at which `retrieval_exponent` still says nothing: 4·((n + 2)·s + D).

    >>> int(retrieval_length(dimension=4, heads=3, width=8))
    136
    """
    D, _, s, n = _checked(dimension, 1, heads, width)
    return 4 * ((n + 2) * s + D)


def memorising_width(*, length: Given, input_width: Given) -> Wholes:
    """n ≥ T·d: one head so wide can copy the sequence, and a five-layer ReLU network do the rest, M > C/ε^(1 + γ)."""
    return _at_least_one(length, "length") * _at_least_one(input_width, "input_width")


def layers_for(*, dimension: Given, heads: Given) -> Wholes:
    """⌈D/h⌉, the least number of layers by the paper's conjecture that L·h ≥ D is needed."""
    return -(-_at_least_one(dimension, "dimension") // _at_least_one(heads, "heads"))


def is_covered(*, subset: Given, length: Given) -> np.bool_ | np.ndarray:
    """Whether a subset S_i of so many tokens is large enough for the theorems: |S_i| ≥ T/4."""
    return 4 * _at_least_one(subset, "subset") >= _at_least_one(length, "length")


@dataclass(frozen=True, kw_only=True)
class FewerHeads:
    """What the lower bound says of s < D heads."""

    heads: int
    exponent: float  # 0: nothing at this length
    from_length: int  # the first T at which it says something
    layers: int  # so many would do by the conjecture


@dataclass(frozen=True, kw_only=True)
class RetrievalBounds:
    """All of it for one task."""

    dimension: int
    length: int
    width: int
    sufficient_heads: int
    sufficient_width: int
    fewer: tuple[FewerHeads, ...]
    memorising_width: int | None  # None where the width of the tokens is not known
    least_subset: int  # ⌈T/4⌉ tokens


def retrieval_bounds(
    *, dimension: int, length: int, width: int = SUFFICIENT_WIDTH, input_width: int | None = None
) -> RetrievalBounds:
    """What is sufficient, what fewer heads of width n must cost, and how wide one head that memorises is.

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
    """Every s < D, or where those are many the powers of two among them and the last."""
    if dimension <= 9:
        return list(range(1, dimension))
    return sorted({1 << power for power in range((dimension - 1).bit_length())} | {dimension - 1})


def _checked(dimension: Given, length: Given, heads: Given, width: Given) -> tuple[Wholes, Wholes, Wholes, Wholes]:
    return (
        _at_least_one(dimension, "D"),
        _at_least_one(length, "length"),
        _at_least_one(heads, "heads"),
        _at_least_one(width, "width"),
    )


def _at_least_one(values: Given, name: str) -> Wholes:
    array = whole(values, name)
    if (array < 1).any():
        raise InputError(f"{name} must be at least 1, not {array.min()}")
    return array
