"""Widths: key widths at which construction I provably holds with probability 1 − m^−3, as formulas of m and p."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from manyheads.construct.signatures import Bernoulli, Signatures
from manyheads.errors import InputError


def chernoff_exponents(p: float) -> tuple[float, float]:
    """c1 and c2 of Theorem B.1: a true pair fails with probability ≤ exp(−c1·d_k), a false one ≤ exp(−c2·d_k)."""
    return p * (1 - p) ** 2 / 8, p * (1 - p) ** 2 / (2 * (1 + 3 * p))


def paper_width(items: int, *, p: float) -> int:
    """The paper's d_k = C·ln m with C = max(3/c1, 2/c2), which gives only 1 − 2·m^−2 (p ≤ ½), not its 1 − m^−3."""
    c1, c2 = chernoff_exponents(p)
    return max(1, math.ceil(max(3 / c1, 2 / c2) * math.log(items)))


def chernoff_width(items: int, *, p: float) -> int:
    """The corrected closed form d_k = ⌈(4·ln m + ln 2)/c1⌉ for p ≤ ½: both Chernoff terms are at most m^−3/2.

    The false pairs' term needs (5·ln m + ln 2)/c2, which is less because c2 ≥ (8/5)·c1 for p ≤ ½.

    >>> chernoff_width(1024, p=0.25)
    1617
    """
    if not 0 < p <= 0.5:
        raise InputError(f"the closed form of construction I's key width holds for 0 < p ≤ 1/2, not for {p}")
    return math.ceil((4 * math.log(items) + math.log(2)) / chernoff_exponents(p)[0])


def rademacher_width(items: int) -> int:
    """d_k = ⌈8·(5·ln m − ln 2)⌉: C(m, 2)·exp(−d_k/8) ≤ m^−3 by Hoeffding, at τ = d_k/2."""
    return max(1, math.ceil(8 * (5 * math.log(items) - math.log(2))))


def failure_bound(items: int, key_widths: Int[ndarray, " n"], signatures: Signatures) -> Float64[ndarray, " n"]:
    """Union bound, by exact binomial tails, on the probability that construction I fails at each key width.

    Only the m words and their C(m, 2) pairs matter: the score of (i, j) is that of the words of π(i) and j.
    """
    from scipy.stats import binom  # takes longer to import than the command line

    pairs = items * (items - 1) / 2
    match signatures:
        case Bernoulli(p=p):
            threshold = (p + p**2) / 2 * key_widths
            missed = binom.cdf(np.floor(threshold), key_widths, p)
            return items * missed + pairs * binom.sf(np.ceil(threshold) - 1, key_widths, p**2)
        case _:  # signs: a true pair scores d_k always, a false one 2·Bin(d_k, ½) − d_k ≥ d_k/2
            return pairs * binom.sf(np.ceil(0.75 * key_widths) - 1, key_widths, 0.5)


def binomial_width(items: int, signatures: Signatures) -> int:
    """The d_k from which on the failure bound by exact tails is at most m^−3: below the closed forms, and as rigorous.

    Some smaller widths pass as well, now and then, as τ crosses whole numbers (953 at m = 1024, p = ¼).

    >>> binomial_width(1024, Bernoulli(0.25))
    968
    """
    # from the closed form on every width passes
    closed = chernoff_width(items, p=signatures.p) if isinstance(signatures, Bernoulli) else rademacher_width(items)
    failing = np.flatnonzero(failure_bound(items, np.arange(1, closed), signatures) > float(items) ** -3)
    return int(failing[-1]) + 2 if failing.size else 1
