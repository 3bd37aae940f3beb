"""Lower bounds on the key budget (Sec. 9): below such a budget no weights work. They follow from the number of graphs.

A layer has 2·d_model·D_K weights and a threshold. The bounds count the labellings of the ordered pairs that these
numbers can produce, and the graphs that need different labellings. They hold for every rule and for contexts of 2 items
or more. The bound without bits or margin holds for the rules max and sum. They are statements about a family of graphs:
at least one graph of the family needs the bound. Others may not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from manyheads.bounds.arguments import Given, Reals, positive, whole
from manyheads.bounds.graph_counts import LN2, ln_graphs, ln_permutations
from manyheads.errors import InputError


def family_key_budget(ln_family: Given, *, d_model: Given, bits: Given) -> Reals:
    """The bit budget: D_K ≥ (log2|𝒢|/b − 1)/(2·d_model), with b bits in every weight and in the threshold (Sec. 9).

    Exact: b·(2·d_model·D_K + 1) bits produce at most 2^(b·(2·d_model·D_K + 1)) labellings, and every graph of the
    family 𝒢 needs its own labelling.

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
    """The bound for the rule softmax: ln|𝒢| ≤ 2·d·D_K·ln(1 + 3·R_U·R_V/(2γ)) + ln(1 + 3h/(2γ)), on contexts of 2.

    The scale of the weights changes the softmax, so the bound depends on their norms. Rows have length 1.

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


def log2_labellings(
    *, items: Given, d_model: Given, heads: Given, key_width: Given, key_heads: Given | None = None
) -> Reals:
    """log2 of at most how many graphs the layers of one shape hold over one embedding: p·log2(8e·h·m²/p), at most m².

    Real weights of any size, any threshold and any margin, for the rules max and sum. Warren's theorem: N polynomials
    of degree at most 2 in p variables, N ≥ p, have at most (8e·N/p)^p sign patterns. The scores minus the threshold
    are N = h·m² such polynomials. A change of basis inside each key head leaves g·(d·d_k − d_k²) of its weights, so
    p = h·d·d_k + g·(d·d_k − d_k²) + 1 with g key heads (docs/reference/laws.md, section 1). For keys from a latent, see
    `log2_patterns`.

    Args:
        items: m, at least 1.
        d_model: Width of the embedding.
        heads: h, at least 1.
        key_width: d_k; a width above d_model adds nothing.
        key_heads: g, the number of key heads; None stands for `heads`.

    Returns:
        The logarithm; below m² where some graph over the items cannot be held.

    Raises:
        InputError: A size is not a positive whole number.
    """
    sizes = {"items": items, "d_model": d_model, "heads": heads, "key_width": key_width}
    m, d, h, width = (positive(whole(value, name), name) for name, value in sizes.items())
    width, groups = np.minimum(width, d), h if key_heads is None else positive(key_heads, "key_heads")
    variables = h * d * width + groups * (d * width - width * width) + 1
    return log2_patterns(items=m, heads=h, variables=variables, degree=2)


def log2_patterns(*, items: Given, heads: Given, variables: Given, degree: int) -> Reals:
    """Warren's bound p·log2(4e·k·h·m²/p), at most m², where the scores of heads are polynomials of the weights.

    Args:
        items: m.
        heads: h.
        variables: p, the weights that matter, and the threshold.
        degree: k, the degree of the polynomials: 2 for W_Q·W_Kᵀ, 3 where keys are made from a latent, and 4 where
            queries are too.

    Returns:
        The logarithm; m² where there are more variables than polynomials.
    """
    m, p = np.asarray(items, dtype=np.float64), np.asarray(variables, dtype=np.float64)
    polynomials = np.asarray(heads, dtype=np.float64) * m * m
    patterns = p * np.log2(4 * math.e * degree * polynomials / p)
    return np.minimum(m * m, np.where(p <= polynomials, patterns, m * m))


def log2_share(
    ln_family: Given, *, items: Given, d_model: Given, heads: Given, key_width: Given, key_heads: Given | None = None
) -> Reals:
    """log2 of at most the share of a family of graphs that layers of one shape hold over one embedding, at most 0.

    No assumption on the weights. Below 0 the shape cannot hold every graph of the family, and a graph that is drawn
    uniformly from the family is held by some layer of the shape with at most this probability.

    Args:
        ln_family: ln|𝒢|, in nats (`ln_graphs`, `ln_permutations`).
        items, d_model, heads, key_width, key_heads: As for `log2_labellings`.

    Returns:
        The logarithm, at most 0.

    Raises:
        InputError: A size is not a positive whole number.
    """
    held = log2_labellings(items=items, d_model=d_model, heads=heads, key_width=key_width, key_heads=key_heads)
    return np.minimum(0.0, held - np.asarray(ln_family) / LN2)


def unconditional(
    *, items: Given, relations: Given, d_model: Given, heads: Given, key_width: Given, key_heads: Given | None = None
) -> Reals:
    """`log2_share` over all loop-free graphs with m' relations.

    Args:
        items, d_model, heads, key_width, key_heads: As for `log2_labellings`.
        relations: m', from 0 to m·(m − 1).

    Returns:
        The logarithm, at most 0. Below 0 the shape cannot hold every such graph, whatever its weights.

    Raises:
        InputError: A size is not a positive whole number, or the relations do not fit the items.

    >>> float(unconditional(items=512, relations=512, d_model=16, heads=4, key_width=1)) < -1000  # at most 2^−1000
    True
    """
    family = ln_graphs(items=items, relations=relations)
    return log2_share(family, items=items, d_model=d_model, heads=heads, key_width=key_width, key_heads=key_heads)


def unconditional_key_budget(ln_family: float, *, items: int, d_model: int) -> int:
    """The smallest D_K at which layers may hold every graph of a family, whatever the weights, heads and key widths.

    Of all splits of a key budget, heads of width 1 have the most polynomials and the most variables.

    Args:
        ln_family, items, d_model: As for `log2_share`.

    Returns:
        D_K, at least 1. With less, at least one graph of the family is impossible.

    Raises:
        InputError: A size is not a positive whole number.

    >>> unconditional_key_budget(float(ln_permutations(512)), items=512, d_model=16)
    8
    """
    low, high = 0, items * items  # at m² heads the bound allows every graph
    while high - low > 1:
        middle = (low + high) // 2
        share = log2_share(ln_family, items=items, d_model=d_model, heads=middle, key_width=1)
        low, high = (low, middle) if share >= 0 else (middle, high)
    return high


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

    The hardest graph of the family needs this D_K under every embedding, for every method that finds weights. A single
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
