"""Construction I: one-hot items, one head, and a random signature for each target (Algorithm 3, Theorem B.1).

The key widths at which it provably holds with probability 1 − m^−3 are formulas of m and p.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from manyheads.construct.heads import Bernoulli, Signatures, assemble, de_embed, require_permutation, require_sizes
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.numbers import check_number
from manyheads.problem.problem import Problem

QUARTER = Bernoulli(0.25)  # the paper's example of a p


def one_hot(problem: Problem, *, seed: int, key_width: int | None = None, signatures: Signatures = QUARTER) -> Layer:
    """Algorithm 3: in one head, the key of j is the signature of j, and the query of i is the signature of π(i).

    Args:
        problem: A permutation over an embedding that is the identity.
        seed: Decides the signatures.
        key_width: d_k, at least 1; by default `binomial_width`, which suffices with probability 1 − m^−3.
        signatures: RADEMACHER, or Bernoulli(p) with p ≤ 1/2 where no key width is given.

    Returns:
        A layer of one head.

    Raises:
        InputError: The graph is no permutation, the embedding is not the identity, or the key width is below 1.
    """
    key_width = binomial_width(problem.items, signatures) if key_width is None else key_width
    require_sizes(problem, key_width=key_width, matching_size=problem.items, seed=seed)
    require_permutation(problem.graph)
    if not _is_identity(problem.rows):
        raise InputError(
            "construction I needs one-hot items, an embedding that is the identity; II and III take others"
        )
    words = signatures.draw(problem.items, key_width, seed=seed)
    head = de_embed(problem.rows, (problem.graph.sources, problem.graph.targets), words)
    return assemble([head], threshold=signatures.threshold(key_width))


def _is_identity(embedding: Float[ndarray, "items d_model"]) -> bool:
    items, d_model = embedding.shape
    return items == d_model and bool((embedding.diagonal() == 1).all() and np.count_nonzero(embedding) == items)


def chernoff_exponents(p: float) -> tuple[float, float]:
    """c1 and c2 of Theorem B.1: a true pair fails with probability ≤ exp(−c1·d_k), a false pair ≤ exp(−c2·d_k)."""
    return p * (1 - p) ** 2 / 8, p * (1 - p) ** 2 / (2 * (1 + 3 * p))


def paper_width(items: int, *, p: float) -> int:
    """The paper's d_k = C·ln m with C = max(3/c1, 2/c2).

    The paper claims that it holds with probability 1 − m^−3; its proof gives 1 − 2·m^−2 for p ≤ ½.
    """
    c1, c2 = chernoff_exponents(p)
    return max(1, math.ceil(max(3 / c1, 2 / c2) * math.log(items)))


def chernoff_width(items: int, *, p: float) -> int:
    """The corrected closed form d_k = ⌈(4·ln m + ln 2)/c1⌉, for p ≤ ½.

    Both Chernoff terms are then at most m^−3/2. The false pairs' term needs (5·ln m + ln 2)/c2, which is less: c2 is
    at least (8/5)·c1 for p ≤ ½.

    Raises:
        InputError: p is not above 0 and at most 1/2.

    >>> chernoff_width(1024, p=0.25)
    1617
    """
    if not 0 < p <= 0.5:
        raise InputError(f"the closed form of construction I's key width holds for 0 < p ≤ 1/2, not for {p}")
    width = (4 * math.log(items) + math.log(2)) / max(chernoff_exponents(p)[0], 1e-300)
    return int(check_number("key_width", math.ceil(width), said=f"the key width for p = {p:g}"))


def rademacher_width(items: int) -> int:
    """d_k = ⌈8·(5·ln m − ln 2)⌉: C(m, 2)·exp(−d_k/8) ≤ m^−3 by Hoeffding, at τ = d_k/2."""
    return max(1, math.ceil(8 * (5 * math.log(items) - math.log(2))))


def failure_bound(items: int, key_widths: Int[ndarray, " n"], signatures: Signatures) -> Float64[ndarray, " n"]:
    """A union bound, by exact binomial tails, on the probability that construction I fails at each key width.

    The union is over the m signatures and their C(m, 2) pairs: the score of (i, j) is that of the signatures of π(i)
    and j.
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
    """The least d_k from which on the failure bound is at most m^−3.

    It is below the closed forms and just as rigorous. A few smaller widths pass as well, where τ crosses a whole number
    (953 at m = 1024, p = ¼).

    Raises:
        InputError: The signatures are Bernoulli(p) with p > 1/2.

    >>> binomial_width(1024, Bernoulli(0.25))
    968
    """
    # every width from the closed form on passes
    closed = chernoff_width(items, p=signatures.p) if isinstance(signatures, Bernoulli) else rademacher_width(items)
    failing = np.flatnonzero(failure_bound(items, np.arange(1, closed), signatures) > float(items) ** -3)
    return int(failing[-1]) + 2 if failing.size else 1
