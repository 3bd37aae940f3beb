"""Upper bounds on the key budget: budgets that a construction reaches (Sec. 4, 5, 8, App. B).

Where a proof says "for a sufficiently large constant C", C is an argument here. For construction I the exact widths are
in `manyheads.construct.one_hot_items`. For construction II the page on constructions has measured constants. ln is the
natural logarithm.

Arguments of the same name mean the same in every function: items m, relations m', d_model, max_degree Δ (the largest
in- or out-degree), matching_size B (relations or items that one head serves), key_width d_k, context_length ℓ, heads h,
and constant C or c. Each function returns a number or an array, and raises InputError for a size that is not positive.
"""

from __future__ import annotations

import numpy as np

from manyheads.bounds.arguments import Given, Reals, Truths, Wholes, positive
from manyheads.layer.rules import MAX, SOFTMAX, Rule


def rank_one_key_budget(relations: Given) -> Reals:
    """D_K = m': one head of width 1 for each relation (i, j), with the score (x_p·x_i)·(x_q·x_j), rule max.

    Proved for every graph, without a constant: on rows of length 1 the score of (i, j) is 1. Every other pair has a
    smaller score, unless two rows are equal or opposite. So a threshold between these scores exists.
    """
    return positive(relations, "relations") * 1.0


def matching_heads(*, relations: Given, max_degree: Given, matching_size: Given) -> Wholes:
    """Heads of construction IV: max(Δ, ⌈m'/B⌉) matchings of at most B relations always exist (de Werra, McDiarmid)."""
    return np.maximum(_ceiling(max_degree, "max_degree"), _blocks(relations, matching_size))


def lemma_heads(*, relations: Given, max_degree: Given, matching_size: Given) -> Wholes:
    """Heads by Lemma B.8, ⌈m'/B⌉ + Δ: the paper's count, at least that of `matching_heads`."""
    return _blocks(relations, matching_size) + _ceiling(max_degree, "max_degree")


def is_bounded_skew(*, relations: Given, max_degree: Given, d_model: Given) -> Truths:
    """Condition (33): Δ/d_avg ≤ m/d_model with d_avg = m'/m, which is Δ ≤ m'/d_model."""
    return positive(max_degree, "max_degree") * positive(d_model, "d_model") <= positive(relations, "relations")


def general_key_budget(
    *,
    items: Given,
    relations: Given,
    d_model: Given,
    max_degree: Given,
    constant: Given,
    matching_size: Given | None = None,
) -> Reals:
    """Theorem B.9: D_K = max(Δ, ⌈m'/B⌉)·⌈C·ln m⌉ with blocks of B = d_model, for any graph on Gaussian unit rows.

    For permutations this is Theorem 4.1 (Δ = 1). Valid for d_model ≥ c0·ln m, with probability 1 − m^−3 over the draw,
    for an unnamed C. For a given embedding, `construct.limit` decides whether any C is large enough.
    """
    blocks = d_model if matching_size is None else matching_size
    return matching_heads(relations=relations, max_degree=max_degree, matching_size=blocks) * _logarithmic_width(
        items, constant
    )


def bounded_skew_key_budget(*, items: Given, relations: Given, d_model: Given, constant: Given) -> Reals:
    """Corollary B.10: under (33), ⌈m'/d_model⌉ heads of ⌈C·ln m⌉ suffice: `matching_heads` is a maximum, not a sum."""
    return _blocks(relations, d_model) * _logarithmic_width(items, constant)


def incoherent_key_budget(*, items: Given, matching_size: Given, constant: Given) -> Reals:
    """Theorem B.5 (construction III): ⌈m/B⌉ heads of ⌈C·ln m⌉, if ε_d ≤ c1 and ρ, γ ≤ c/ln m at block size B."""
    return _blocks(items, matching_size) * _logarithmic_width(items, constant)


def growth_forms(*, items: int, relations: int, d_model: int, max_degree: int) -> dict[str, float]:
    """The paper's formulas for the growth of D_K, without constants, by their place in the paper.

    ln m and ln m' differ by a factor of at most 2 for m ≤ m' ≤ m², so all formulas are equal up to constants where (33)
    holds. Where Δ exceeds m'/d_model, the formulas with Δ are larger.
    """
    m, k = float(np.log(items)), float(np.log(max(relations, 2)))
    return {
        "abstract, (m'/d + Δ)·ln m'": (relations / d_model + max_degree) * k,
        "Theorem B.9, (m'/d + Δ)·ln m": (relations / d_model + max_degree) * m,
        "Corollary B.10 and v1, m'·ln m'/d": relations / d_model * k,
        "Sec. 9, m'·ln(m²/m')/d": relations / d_model * float(np.log(max(items**2 / max(relations, 1), 1.0))),
    }


def leakage_noise(*, matching_size: Given, d_model: Given, key_width: Given, items: Given) -> Reals:
    """Eq. 1 without its constant: N3 ≍ (B/d_model)·√(d_k·ln m), the noise in a head that serves B relations.

    Eq. 1 has only the fluctuation. N3 also has a mean, which does not become smaller with d_k.
    """
    share = positive(matching_size, "matching_size") / positive(d_model, "d_model")
    return share * np.sqrt(positive(key_width, "key_width") * np.log(positive(items, "items")))


def leakage_key_width(*, matching_size: Given, d_model: Given, items: Given, constant: Given = 1.0) -> Reals:
    """Eq. 2: d_k ≥ c·(B/d_model)²·ln m, from N3 ≤ c1·d_k; also the second half of Eq. 19."""
    share = positive(matching_size, "matching_size") / positive(d_model, "d_model")
    return positive(constant, "constant") * share**2 * np.log(positive(items, "items"))


def softmax_floor(context_length: Given, *, constant: Given = 1.0) -> Reals:
    """The first half of Eq. 19: d_k ≥ c·(ln ℓ)², the width for attention near 1 against ℓ − 1 other items."""
    return positive(constant, "constant") * np.square(np.log(positive(context_length, "context_length")))


def single_head_key_budget(*, items: Given, d_model: Given, context_length: Given | None = None) -> Reals:
    """One head for all (B = m): (m/d)²·ln m (Sec. 5), plus (ln ℓ)² under softmax (Eq. 20); without constants.

    For constructions by de-embedding and signatures; other designs with one head may need less.
    """
    leakage = leakage_key_width(matching_size=items, d_model=d_model, items=items)
    return leakage if context_length is None else leakage + softmax_floor(context_length)


def many_heads_key_budget(*, items: Given, d_model: Given, context_length: Given | None = None) -> Reals:
    """m/d heads of B = d_model each: (m/d)·ln m (Sec. 5), or (m/d)·(ln ℓ)² under softmax (Eq. 21); no constants."""
    heads = positive(items, "items") / positive(d_model, "d_model")
    width = np.log(positive(items, "items")) if context_length is None else softmax_floor(context_length)
    return heads * width


def head_advantage(*, items: Given, d_model: Given, rule: Rule = MAX) -> Reals:
    """Key budget of one head over that of many: m/d (Sec. 5), or (m/d)/ln m under softmax (Eq. 22)."""
    ratio = positive(items, "items") / positive(d_model, "d_model")
    return ratio / np.log(positive(items, "items")) if rule is SOFTMAX else ratio


def owner_share(*, context_length: Given, gap: Given) -> Reals:
    """Lemma 8.2: a logit that exceeds all others by a − b gets at least 1/(1 + (ℓ − 1)·e^−(a−b)) of the attention."""
    return 1 / (1 + (positive(context_length, "context_length") - 1) * np.exp(-np.asarray(gap, dtype=np.float64)))


def softmax_key_width(items: Given, *, gamma: Given) -> Reals:
    """Eq. 9–10: d_k = (2·(1 + γ)·ln m)² leaves at most m^−γ outside the target in its own head.

    It assumes the gap ½·√d_k of Eq. 8, which is the separation of Theorem 4.1 with unnamed constants.
    """
    return np.square(2 * (1 + positive(gamma, "gamma")) * np.log(positive(items, "items")))


def background_share(*, heads: Given, context_length: Given) -> Reals:
    """Eq. 14: the heads that do not own a source add (h − 1)/ℓ to its scores on average (Lemma 8.3 for each)."""
    return (positive(heads, "heads") - 1) / positive(context_length, "context_length")


def background_deviation(*, heads: Given, context_length: Given, items: Given, constant: Given = 1.0) -> Reals:
    """Eq. 13: c/ℓ·(√(h·ln m) + ln m), the deviation of the sum of Eq. 14 from its mean: for all pairs, w.h.p."""
    log_m = np.log(positive(items, "items"))
    return (
        positive(constant, "constant")
        / positive(context_length, "context_length")
        * (np.sqrt(positive(heads, "heads") * log_m) + log_m)
    )


def _blocks(relations: Given, matching_size: Given) -> Wholes:
    return -(-_ceiling(relations, "relations") // _ceiling(matching_size, "matching_size"))


def _logarithmic_width(items: Given, constant: Given) -> Reals:
    return np.ceil(positive(constant, "constant") * np.log(positive(items, "items")))


def _ceiling(values: Given, name: str) -> Wholes:
    return np.ceil(positive(values, name)).astype(np.int64)
