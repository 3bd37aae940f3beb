"""Laws as plain functions of (items, relations, d_model, …); each names its source and what it is worth."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm

from manyheads.errors import InputError


def paper_key_budget(items: int, relations: int, d_model: int, *, degree: int = 1) -> float:
    """D_K* as the paper measured it: 1.19·m·log2 m/d (permutations, Fig. 3) or 0.46·m'·log2 m/d (r-regular, Eq. 32).

    An empirical fit to F1 ≥ 0.99 after the paper's training, on m ≤ 4096; neither a lower nor an upper bound.
    """
    slope = 1.19 if degree == 1 else 0.46
    return slope * relations * math.log2(items) / d_model


def bit_key_budget(items: int, relations: int, d_model: int, *, bits: int, permutation: bool = False) -> int:
    """The bit budget: the least D_K with 2·d·D_K + 1 numbers of so many bits ≥ log2|𝒢| (laws.md, section 1).

    𝒢 are all permutations of the items, or all graphs with so many relations, loops allowed. A lower bound for the
    hardest graph of its kind under any embedding, whatever finds the weights; one graph alone may need less.

    >>> bit_key_budget(512, 512, 16, bits=32, permutation=True)
    4
    """
    if not 0 <= relations <= items**2:
        raise InputError(f"{items} items have between 0 and {items**2} relations, not {relations}")
    count = math.lgamma(items + 1) if permutation else _log_binomial(items**2, relations)
    return max(1, math.ceil((count / math.log(2) / bits - 1) / (2 * d_model)))


def constraint_share(positives: float) -> float:
    """g*(f): degrees of freedom one needs a constraint when a fraction f of the constraints is positive.

    g*(f) = min over t of f·U(t) + (1 − f)·U(−t), U(t) = (1 + t²)Φ(t) + tφ(t) (laws.md, section 6).

    >>> [round(m * m * constraint_share(1 / m)) for m in (32, 64, 128, 256, 512)]
    [122, 297, 708, 1654, 3808]
    """
    if not 0 < positives < 1:
        raise InputError(f"the fraction of positive constraints lies between 0 and 1, not at {positives}")

    def slope(t: float) -> float:
        return positives * _ramp(t) - (1 - positives) * _ramp(-t)

    t = brentq(slope, -40.0, 40.0, xtol=1e-13)
    return float(positives * _square(t) + (1 - positives) * _square(-t))


def freedom_key_width(items: int, relations: int, d_model: int, heads: int) -> int | None:
    """The key width at which `heads` heads have as many degrees of freedom as their share of the relations needs.

    The smallest d_k with 2·d·d_k − d_k² ≥ m²·g*(m'/(h·m²)), or None where not even full rank has enough
    (laws.md, section 6: an estimate, neither a lower nor an upper bound).

    >>> [freedom_key_width(m, m, d, h) for m, d, h in ((64, 16, 2), (128, 32, 1), (256, 32, 4), (512, 64, 2))]
    [8, 15, 11, 21]
    """
    needed = items**2 * constraint_share(relations / (heads * items**2))
    if needed > d_model**2:
        return None
    width = math.ceil(d_model - math.sqrt(d_model**2 - needed))
    return max(width, 1)


def _log_binomial(n: int, k: int) -> float:
    """ln C(n, k): differences of log-gamma lose all digits for large n, so by Stirling's series from 32 on."""
    k = min(k, n - k)
    if k < 32:
        return math.fsum(math.log((n - i) / (i + 1)) for i in range(k))

    def remainder(x: int) -> float:
        return 1 / (12 * x) - 1 / (360 * x**3)

    bulk = k * math.log(n / k) - (n - k) * math.log1p(-k / n) + 0.5 * math.log(n / (2 * math.pi * k * (n - k)))
    return bulk + remainder(n) - remainder(k) - remainder(n - k)


def _square(t: float) -> float:
    """U(t) = E[(t + z)₊²] for a standard normal z."""
    return float((1 + t * t) * norm.cdf(t) + t * norm.pdf(t))


def _ramp(t: float) -> float:
    """U'(t)/2 = E[(t + z)₊]."""
    return float(t * norm.cdf(t) + norm.pdf(t))
