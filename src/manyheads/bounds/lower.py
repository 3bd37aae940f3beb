"""Lower bounds on the key budget (Sec. 9): what no layer can do, whatever its weights.

All count the labellings a layer of 2·d_model·D_K weights and a threshold can give to the ordered pairs. They hold for
every rule and for contexts of 2 items, so for all longer ones. They are about families of graphs: some graph of the
family needs so much, not each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from manyheads.bounds.arguments import Given, Reals, positive
from manyheads.bounds.counting import ln_graphs, ln_permutations
from manyheads.errors import InputError

LN2 = float(np.log(2.0))


def family_key_budget(ln_family: Given, *, d_model: Given, bits: Given) -> Reals:
    """The bit budget: D_K ≥ (log2|𝒢|/b − 1)/(2·d_model), with b bits in every weight and in the threshold (Sec. 9).

    In key dimensions. `ln_family` is ln|𝒢| (`ln_graphs`, `ln_permutations`). Exact: 2^(b·(2·d·D_K + 1)) labellings at
    most, and every graph of the family needs its own.
    """
    weights = np.asarray(ln_family) / (LN2 * positive(bits, "bits"))
    return np.maximum(0.0, (weights - 1) / (2 * positive(d_model, "d_model")))


def margin_key_budget(
    ln_family: Given, *, d_model: Given, margin: Given, argument: Literal["packing", "covering"] = "packing"
) -> Reals:
    """Theorem 9.2 with its constant: D_K ≥ (ln|𝒢|/ln(1 + c/γ) − 1)/(2·d_model) for real weights of any precision.

    γ is the normalised margin, margin/(‖W_Q‖_F·‖W_K‖_F·max‖x‖²), as `certify` reports it. Different graphs need
    parameters at least 2γ apart (Lemma 9.3), so c = 3 by packing them into the unit ball; the paper's covering
    argument gives c = 8, a weaker bound. γ is a number of the layer, not a constant: it falls with m in the paper's
    own constructions, and no permutation layer on Gaussian rows can exceed about 1/(2·d_model).
    """
    share = np.log1p({"packing": 3.0, "covering": 8.0}[argument] / positive(margin, "margin"))
    return np.maximum(0.0, (np.asarray(ln_family) / share - 1) / (2 * positive(d_model, "d_model")))


def softmax_margin_key_budget(
    ln_family: Given, *, d_model: Given, heads: Given, margin: Given, query_norm: Given, key_norm: Given
) -> Reals:
    """The same for the rule softmax: ln|𝒢| ≤ 2·d·D_K·ln(1 + 3·R_U·R_V/(2γ)) + ln(1 + 3h/(2γ)), on contexts of 2.

    Softmax is not scale-free, so the norms ‖W_Q‖_F ≤ R_U and ‖W_K‖_F ≤ R_V enter; γ is the margin of the scores
    themselves and max‖x‖ = 1.
    """
    gamma = positive(margin, "margin")
    scale = positive(query_norm, "query_norm") * positive(key_norm, "key_norm")
    threshold = np.log1p(3 * positive(heads, "heads") / (2 * gamma))
    a_weight = np.log1p(3 * scale / (2 * gamma))
    return np.maximum(0.0, (np.asarray(ln_family) - threshold) / (2 * positive(d_model, "d_model") * a_weight))


def permutation_margin(d_model: Given) -> Reals:
    """About the largest normalised margin of a permutation layer on Gaussian unit rows, 1/(2·d_model).

    An estimate, not a bound: the m targets' scores are at least 2γ above the rest, and ‖A‖_F ≤ 1 has no more to give.
    """
    return 1 / (2 * positive(d_model, "d_model"))


@dataclass(frozen=True)
class Regime:
    """One of the three regimes of Sec. 9, and how D_K must grow in it."""

    name: str
    form: str
    growth: float  # the form's value: D_K = Ω(growth)
    exponent: float | None = None  # ε of m' = m^(2 − ε), where that is the regime


def regime(*, items: int, relations: int, d_model: int, dense_above: float = 0.125) -> Regime:
    """Which regime of Sec. 9 a problem is in: exactly m edges, dense m' = Θ(m²), or sparse m' = O(m^(2−ε)).

    The regimes are statements about growth. One problem alone belongs to none, so `dense_above` says from which share
    of all pairs on it is called dense.

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
    """The bit budget over all loop-free graphs with m' relations: some such graph needs this much."""
    return family_key_budget(ln_graphs(items=items, relations=relations), d_model=d_model, bits=bits)


def bit_key_budget(*, items: int, relations: int, d_model: int, bits: int, permutation: bool = False) -> int:
    """The bit budget as a whole number: over all permutations of the items, or all graphs with loops allowed.

    The least D_K for the hardest graph of its kind under any embedding, whatever finds the weights; one graph alone may
    need less.

    >>> bit_key_budget(items=512, relations=512, d_model=16, bits=32, permutation=True)
    4
    """
    if not 0 <= relations <= items**2:
        raise InputError(f"{items} items have between 0 and {items**2} relations, not {relations}")
    family = ln_permutations(items) if permutation else ln_graphs(items=items, relations=relations, loops=True)
    return max(1, int(np.ceil(family_key_budget(family, d_model=d_model, bits=bits))))
