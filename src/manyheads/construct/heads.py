"""Heads of a construction: the conditions of the theorems, the signature of each target, the weights of the heads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, Rule
from manyheads.numbers import check_numbers, require_memory
from manyheads.problem.graph import Graph, Matching
from manyheads.problem.problem import Problem
from manyheads.tables import in_heads

# Theorems 4.1, 8.1 and B.9 ask for d_model ≥ c0·ln m with c0 "sufficiently large". The largest of the m²/2 overlaps of
# Gaussian unit rows is about 2·√(ln m / d_model). A false pair's score contains this overlap for every matching
# size (width_limit.py). With τ = ½·d_k it has to stay below ½, so c0 is 16.
C0 = 16.0


class ConditionWarning(UserWarning):
    """A theorem's condition is not met. The layer is built nevertheless; its certificate decides."""


def require_sizes(problem: Problem, *, key_width: int, matching_size: int, seed: int) -> None:
    """Refuse a number outside its range, and weights that would not fit into the memory."""
    check_numbers(key_width=key_width, matching_size=matching_size, generator_seed=seed)
    heads = -(-problem.relations // matching_size)
    needed = key_width * (24 * problem.items + 32 * heads * problem.d_model)  # signatures and weights
    require_memory(needed, f"a layer of about {in_heads(heads, key_width)} over {problem.items:,} items")


def require_permutation(graph: Graph) -> None:
    """Refuse a graph that is not a permutation."""
    if not graph.is_permutation:
        raise InputError(
            "this construction needs a permutation graph, one relation out of and one into every item; "
            "the general construction takes any graph"
        )


def warn_if_narrow(problem: Problem) -> None:
    """Warn if d_model < c0·ln m: Theorems 4.1, 8.1 and B.9 need at least this width."""
    needed = C0 * math.log(problem.items)
    if problem.d_model < needed:
        warnings.warn(
            f"d_model = {problem.d_model} is below {C0:g}·ln {problem.items} = {needed:.0f}, so the theorem's "
            "condition is not met: items this crowded are likely to be mistaken for one another at every key width",
            ConditionWarning,
            stacklevel=3,
        )


Head = tuple[Float64[ndarray, "d_model key_width"], Float64[ndarray, "d_model key_width"]]  # its W_Q and W_K


@dataclass(frozen=True)
class Rademacher:
    """Signatures of independent fair signs ±1.

    The product of a signature with itself is d_k; its product with another signature is 0 in the mean.
    """

    mean = 0.0
    square = 1.0  # E w²

    def draw(self, items: int, key_width: int, *, seed: int) -> Float64[ndarray, "items key_width"]:
        """W_sig, the signature of each item as a row.

        Args:
            items: m, the number of rows.
            key_width: d_k, the number of columns.
            seed: The seed of the random generator.

        Returns:
            Entries −1 and 1, of shape (items, key_width).
        """
        return np.random.default_rng(seed).integers(0, 2, size=(items, key_width)) * 2.0 - 1.0

    def threshold(self, key_width: int) -> float:
        """τ = d_k/2, half way between the mean score of a signature with itself and with another.

        Args:
            key_width: d_k.

        Returns:
            τ.
        """
        return key_width / 2


@dataclass(frozen=True)
class Bernoulli:
    """Signatures of independent entries that are 1 with probability p, else 0.

    Attributes:
        p: The probability, above 0 and below 1.

    Raises:
        InputError: p is not between 0 and 1.
    """

    p: float

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise InputError(f"the probability p of a Bernoulli signature lies between 0 and 1, not at {self.p}")

    @property
    def mean(self) -> float:
        """E w = p."""
        return self.p

    @property
    def square(self) -> float:
        """E w² = p."""
        return self.p

    def draw(self, items: int, key_width: int, *, seed: int) -> Float64[ndarray, "items key_width"]:
        """W_sig, the signature of each item as a row.

        Args:
            items: m, the number of rows.
            key_width: d_k, the number of columns.
            seed: The seed of the random generator.

        Returns:
            Entries 0 and 1, of shape (items, key_width).
        """
        return (np.random.default_rng(seed).random((items, key_width)) < self.p).astype(np.float64)

    def threshold(self, key_width: int) -> float:
        """τ = (p + p²)/2 · d_k, half way between the mean score of a signature with itself and with another.

        Args:
            key_width: d_k.

        Returns:
            τ.
        """
        return (self.p + self.p**2) / 2 * key_width


Signatures = Rademacher | Bernoulli
RADEMACHER = Rademacher()


def de_embed(
    embedding: Float[ndarray, "items d_model"],
    matching: Matching,
    signatures: Float64[ndarray, "items key_width"],
    *,
    mu: float = 1.0,
) -> Head:
    """One head's W_Q = X_inv·W'_Q and W_K = X_inv·W'_K, with the approximate inverse X_inv = Xᵀ/μ.

    The templates W' have a row for each item. Row i of W'_Q is the signature of i's target for i ∈ V_k, row j of W'_K
    that of j for j ∈ T_k. All other rows are zero, so only the matching's own rows are multiplied. That takes
    |V_k|·d_model·d_k multiplications a head, m·d_model·d_k in all, and no array of size m × m.

    Args:
        embedding: X, the rows of the items.
        matching: The head's sources V_k and their targets T_k.
        signatures: The signature of each item.
        mu: μ, the squared length that the rows have in the mean.

    Returns:
        W_Q and W_K in double precision.
    """
    sources, targets = matching
    words = signatures[targets]
    return embedding[sources].astype(np.float64).T @ words / mu, embedding[targets].astype(np.float64).T @ words / mu


def assemble(heads: Sequence[Head], *, threshold: float, rule: Rule = MAX) -> Layer:
    """Join heads into one layer.

    The weights become single precision, as files store them: a certificate judges the weights that are used.

    Args:
        heads: Pairs (W_Q, W_K) of shape (d_model, key_width), at least one.
        threshold: τ, the layer's threshold.
        rule: The rule that joins the heads.

    Returns:
        The layer.
    """
    shape = (len(heads), *heads[0][0].shape)
    query, key = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for k, (head_query, head_key) in enumerate(heads):
        query[k], key[k] = head_query, head_key
    return Layer(query, key, threshold, rule)
