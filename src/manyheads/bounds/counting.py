"""Counting: how many graphs there are, in nats, exact to float64 for billions of relations."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, xlogy

from manyheads.bounds.arguments import Given, Reals, Wholes, whole
from manyheads.errors import InputError
from manyheads.problem.graph import MOST_ITEMS

DIRECT = 32  # below this many relations the product is multiplied out; from here on Stirling's series is exact enough


def ln_graphs(*, items: Given, relations: Given, loops: bool = False) -> Reals:
    """ln C(N, m'), the graphs with m' relations among N = m(m − 1) ordered pairs, or m² with loops (Sec. 9).

    In nats; valid for 0 ≤ m' ≤ N < 2^63; relative error below 10^−14. Differences of log-gamma functions would lose
    every digit where m is large.

    >>> round(float(np.exp(ln_graphs(items=4, relations=3))))  # C(12, 3)
    220
    """
    m, k = whole(items, "items"), whole(relations, "relations")
    if (m < 1).any() or (m > MOST_ITEMS).any():
        raise InputError("graphs are counted for 1 to 2^31 − 1 items")
    pairs = m * m if loops else m * (m - 1)
    if (k < 0).any() or (k > pairs).any():
        worst = np.argmax(np.broadcast_to((k < 0) | (k > pairs), np.broadcast_shapes(k.shape, pairs.shape)))
        wrong, most = np.broadcast_arrays(k, pairs)
        raise InputError(f"{wrong.flat[worst]} relations do not fit into {most.flat[worst]} ordered pairs")
    return ln_binomial(n=pairs, k=k)


def ln_permutations(items: Given) -> Reals:
    """ln m!, the permutation graphs of m items, in nats."""
    return np.asarray(gammaln(whole(items, "items") + 1.0))


def ln_binomial(*, n: Given, k: Given) -> Reals:
    """ln C(n, k) for whole numbers 0 ≤ k ≤ n < 2^63.

    For k, n − k ≥ 32: k·ln(n/k) − (n − k)·log1p(−k/n) + ½·ln(n/(2πk(n − k))) and the remainders of Stirling's series, a
    sum without cancellation; else the product of (n − i)/(i + 1) over i < k.
    """
    total, chosen = np.broadcast_arrays(whole(n, "n"), whole(k, "k"))
    fewer = np.minimum(chosen, total - chosen)
    direct, series = _product(total, np.minimum(fewer, DIRECT)), _stirling(total, np.maximum(fewer, DIRECT))
    return np.where(fewer < DIRECT, direct, series)


def _product(n: Wholes, k: Wholes) -> Reals:
    total = np.zeros(n.shape)
    for i in range(DIRECT):
        chosen = i < k
        total += np.where(chosen, np.log(np.where(chosen, n - i, 1) / (i + 1.0)), 0.0)
    return total


def _stirling(n: Wholes, k: Wholes) -> Reals:
    n = np.maximum(n, 2 * k)  # where the product is taken instead, any sound numbers do
    rest = n - k
    main = xlogy(k, n / k) - rest * np.log1p(-(k / n))
    return main + 0.5 * np.log(n / k / rest / (2 * math.pi)) + _remainder(n) - _remainder(k) - _remainder(rest)


def _remainder(n: Wholes) -> Reals:
    """ln n! less its Stirling approximation; four terms leave 10^−16 at n = 32."""
    x = 1.0 / n
    return x * (1 / 12 - x * x * (1 / 360 - x * x * (1 / 1260 - x * x / 1680)))
