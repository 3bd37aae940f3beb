"""Lower bounds on the key budget (Sec. 9): budgets below which no weights work. The number of graphs decides.

A layer has 2·d_model·D_K weights and a threshold. The bounds count the labellings of the ordered pairs that these
numbers can produce, and the graphs that need different labellings. They hold for every rule and for contexts of 2 items
or more. They are statements about a family of graphs: at least one graph of the family needs the bound, not every one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln, xlogy

from manyheads.bounds.arguments import Given, Reals, Wholes, positive, whole
from manyheads.errors import InputError
from manyheads.problem.graph import MOST_ITEMS

LN2 = float(np.log(2.0))
DIRECT = 32  # with fewer relations ln C(n, k) is a sum of k logarithms, with more it is Stirling's series


def ln_graphs(*, items: Given, relations: Given, loops: bool = False) -> Reals:
    """ln C(N, m'), where C(N, m') is the number of graphs with m' relations among N ordered pairs (Sec. 9).

    The relative error is below 10^−14. Differences of log-gamma functions would lose every digit where m is large.

    Args:
        items: m, from 1 to 2^31 − 1.
        relations: m', from 0 to N.
        loops: Whether an item may relate to itself: N = m² instead of m·(m − 1).

    Returns:
        The logarithm, in nats.

    Raises:
        InputError: A number is not whole, or out of its range.

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
    """ln m!, where m! is the number of permutation graphs of m items.

    Args:
        items: m, whole numbers.

    Returns:
        The logarithms, in nats.

    Raises:
        InputError: A number is not whole.
    """
    return np.asarray(gammaln(whole(items, "items") + 1.0))


def ln_binomial(*, n: Given, k: Given) -> Reals:
    """ln C(n, k), in nats.

    For k, n − k ≥ 32: k·ln(n/k) − (n − k)·log1p(−k/n) + ½·ln(n/(2πk(n − k))) and the remainders of Stirling's series, a
    sum without cancellation. Otherwise: the product of (n − i)/(i + 1) over i < k.

    Args:
        n: Whole numbers below 2^63.
        k: Whole numbers from 0 to n.

    Returns:
        The logarithms.

    Raises:
        InputError: A number is not whole.
    """
    total, chosen = np.broadcast_arrays(whole(n, "n"), whole(k, "k"))
    fewer = np.minimum(chosen, total - chosen)
    direct, series = _product(total, np.minimum(fewer, DIRECT)), _stirling(total, np.maximum(fewer, DIRECT))
    return np.where(fewer < DIRECT, direct, series)


def family_key_budget(ln_family: Given, *, d_model: Given, bits: Given) -> Reals:
    """The bit budget: D_K ≥ (log2|𝒢|/b − 1)/(2·d_model), with b bits in every weight and in the threshold (Sec. 9).

    Exact: b·(2·d_model·D_K + 1) bits produce at most 2^(b·(2·d_model·D_K + 1)) labellings, and every graph of the
    family 𝒢 needs its own.

    Args:
        ln_family: ln|𝒢|, in nats (`ln_graphs`, `ln_permutations`).
        d_model: Width of the embedding.
        bits: b, bits in each number.

    Returns:
        The bound, in key dimensions, at least 0.

    Raises:
        InputError: `d_model` or `bits` is not positive.
    """
    weights = np.asarray(ln_family) / (LN2 * positive(bits, "bits"))
    return np.maximum(0.0, (weights - 1) / (2 * positive(d_model, "d_model")))


def margin_key_budget(
    ln_family: Given, *, d_model: Given, margin: Given, argument: Literal["packing", "covering"] = "packing"
) -> Reals:
    """Theorem 9.2 with its constant: D_K ≥ (ln|𝒢|/ln(1 + c/γ) − 1)/(2·d_model) for real weights of any precision.

    γ is a number of the layer, not a constant. It falls with m in the paper's own constructions, and no permutation
    layer on Gaussian rows can exceed about 1/(2·d_model) (`permutation_margin`).

    Args:
        ln_family: ln|𝒢|, in nats.
        d_model: Width of the embedding.
        margin: γ, the normalised margin: margin/(‖W_Q‖_F·‖W_K‖_F·max‖x‖²), as `certify` reports it.
        argument: "packing" has c = 3: parameters of different graphs are at least 2γ apart (Lemma 9.3), and the unit
            ball has room for few of them. "covering" is the paper's argument, with c = 8; its bound is weaker.

    Returns:
        The bound, in key dimensions, at least 0.

    Raises:
        InputError: `d_model` or `margin` is not positive.
    """
    share = np.log1p({"packing": 3.0, "covering": 8.0}[argument] / positive(margin, "margin"))
    return np.maximum(0.0, (np.asarray(ln_family) / share - 1) / (2 * positive(d_model, "d_model")))


def softmax_margin_key_budget(
    ln_family: Given, *, d_model: Given, heads: Given, margin: Given, query_norm: Given, key_norm: Given
) -> Reals:
    """The same for the rule softmax: ln|𝒢| ≤ 2·d·D_K·ln(1 + 3·R_U·R_V/(2γ)) + ln(1 + 3h/(2γ)), on contexts of 2.

    A larger scale of the weights changes what softmax computes, so the norms of the weights enter. Rows have length 1.

    Args:
        ln_family: ln|𝒢|, in nats.
        d_model: Width of the embedding.
        heads: h, the number of heads.
        margin: γ, the margin of the scores, not normalised.
        query_norm: R_U ≥ ‖W_Q‖_F.
        key_norm: R_V ≥ ‖W_K‖_F.

    Returns:
        The bound, in key dimensions, at least 0.

    Raises:
        InputError: An argument is not positive.
    """
    gamma = positive(margin, "margin")
    scale = positive(query_norm, "query_norm") * positive(key_norm, "key_norm")
    threshold = np.log1p(3 * positive(heads, "heads") / (2 * gamma))
    a_weight = np.log1p(3 * scale / (2 * gamma))
    return np.maximum(0.0, (np.asarray(ln_family) - threshold) / (2 * positive(d_model, "d_model") * a_weight))


def permutation_margin(d_model: Given) -> Reals:
    """About the largest normalised margin of a permutation layer on Gaussian unit rows, 1/(2·d_model).

    An estimate, not a bound: the scores of the m targets are at least 2γ above all others, and a form A with ‖A‖_F ≤ 1
    cannot produce a larger distance.

    Args:
        d_model: Width of the embedding.

    Returns:
        The estimate of γ.

    Raises:
        InputError: A width is not positive.
    """
    return 1 / (2 * positive(d_model, "d_model"))


@dataclass(frozen=True)
class Regime:
    """One of the three regimes of Sec. 9, and how D_K must grow in it.

    Attributes:
        name: The name of the regime.
        form: The formula of the growth.
        growth: The value of `form`: D_K = Ω(growth).
        exponent: ε of m' = m^(2 − ε) in the sparse regime, else None.
    """

    name: str
    form: str
    growth: float
    exponent: float | None = None


def regime(*, items: int, relations: int, d_model: int, dense_above: float = 0.125) -> Regime:
    """The regime of Sec. 9 for a problem: exactly m relations, dense m' = Θ(m²), or sparse m' = O(m^(2−ε)).

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        dense_above: Share m'/m² from which the problem counts as dense. The paper's regimes are statements about
            growth, so a single problem needs such a border.

    Returns:
        The regime, with the value of its growth.

    >>> regime(items=512, relations=512, d_model=64).form
    'm·ln m/d'
    """
    m, k = float(items), float(relations)
    if relations == items:
        return Regime("m' = m", "m·ln m/d", m * float(np.log(m)) / d_model)
    if k >= dense_above * m * m:
        return Regime("dense", "m'/d", k / d_model)
    exponent = 2 - float(np.log(max(k, 1.0)) / np.log(m)) if items > 1 else None
    return Regime("sparse", "m'·ln m/d", k * float(np.log(m)) / d_model, exponent)


def graph_bit_key_budget(*, items: Given, relations: Given, d_model: Given, bits: Given = 16.0) -> Reals:
    """The bit budget (`family_key_budget`) over all loop-free graphs with m' relations.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        bits: Bits in each weight.

    Returns:
        The bound, in key dimensions: at least one of the graphs needs it.

    Raises:
        InputError: A size is out of its range.
    """
    return family_key_budget(ln_graphs(items=items, relations=relations), d_model=d_model, bits=bits)


def bit_key_budget(*, items: int, relations: int, d_model: int, bits: int, permutation: bool = False) -> int:
    """The bit budget as a whole number, over all permutations of the items or over all graphs, loops allowed.

    The hardest graph of the family needs this D_K under every embedding, whatever method finds the weights. A single
    graph may need less.

    Args:
        items: m.
        relations: m', from 0 to m².
        d_model: Width of the embedding.
        bits: Bits in each weight.
        permutation: Whether the family is the permutations of the items.

    Returns:
        D_K, at least 1.

    Raises:
        InputError: The relations do not fit the items.

    >>> bit_key_budget(items=512, relations=512, d_model=16, bits=32, permutation=True)
    4
    """
    if not 0 <= relations <= items**2:
        raise InputError(f"{items} items have between 0 and {items**2} relations, not {relations}")
    family = ln_permutations(items) if permutation else ln_graphs(items=items, relations=relations, loops=True)
    return max(1, int(np.ceil(family_key_budget(family, d_model=d_model, bits=bits))))


def _product(n: Wholes, k: Wholes) -> Reals:
    total = np.zeros(n.shape)
    for i in range(DIRECT):
        chosen = i < k
        total += np.where(chosen, np.log(np.where(chosen, n - i, 1) / (i + 1.0)), 0.0)
    return total


def _stirling(n: Wholes, k: Wholes) -> Reals:
    n = np.maximum(n, 2 * k)  # valid also where the product is used instead
    rest = n - k
    main = xlogy(k, n / k) - rest * np.log1p(-(k / n))
    return main + 0.5 * np.log(n / k / rest / (2 * math.pi)) + _remainder(n) - _remainder(k) - _remainder(rest)


def _remainder(n: Wholes) -> Reals:
    """ln n! minus Stirling's approximation; after four terms the error is 10^−16 at n = 32."""
    x = 1.0 / n
    return x * (1 / 12 - x * x * (1 / 360 - x * x * (1 / 1260 - x * x / 1680)))
