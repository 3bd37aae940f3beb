"""Construction III: permutations under any embedding whose rows overlap little (Algorithm 4, Theorem B.5)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.certificate import Certificate, certify
from manyheads.construct.heads import (
    RADEMACHER,
    Bernoulli,
    ConditionWarning,
    Signatures,
    assemble,
    de_embed,
    require_permutation,
    require_sizes,
)
from manyheads.construct.matchings import split_sources
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.incoherence import IncoherenceProfile, realised_profile
from manyheads.problem.problem import Problem

LARGEST_P = 1 / 20  # Theorem B.5 is stated for Bernoulli signatures up to this p


@dataclass(frozen=True)
class Constants:
    """The constants of Theorem B.5's condition: ε_d ≤ c1, ρ ≤ c2/ln m and γ ≤ c3/ln m. The paper leaves them open.

    The defaults keep the true score, (1 − ε_d)²·d_k, above ¾·d_k. They keep the mean of N3, γ·d_k, below ¼·d_k from
    m = 55 on.

    Attributes:
        c1: The largest ε_d.
        c2: The largest ρ·ln m.
        c3: The largest γ·ln m.
    """

    c1: float = 1 / 8
    c2: float = 1.0
    c3: float = 1.0

    def admit(self, profile: IncoherenceProfile) -> bool:
        """Whether the profile's numbers meet the condition. A sampled γ is only a lower bound.

        Args:
            profile: The profile of a set of matchings.

        Returns:
            True if all three conditions hold.
        """
        log = math.log(profile.items)
        return profile.epsilon <= self.c1 and profile.rho * log <= self.c2 and profile.gamma * log <= self.c3


DEFAULT_CONSTANTS = Constants()


@dataclass(frozen=True)
class MatchingChoice:
    """A matching size, with the profile of its matchings and the reason for it.

    Attributes:
        matching_size: The number of relations of a matching.
        profile: The profile of the matchings.
        theorem_applies: Whether the profile meets the theorem's condition.
        certificate: The certificate of the layer if `matchings_by_certificate` chose the size, else None.
    """

    matching_size: int
    profile: IncoherenceProfile
    theorem_applies: bool
    certificate: Certificate | None = None


def incoherent(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    matching_size: int | None = None,
    signatures: Signatures = RADEMACHER,
    constants: Constants = DEFAULT_CONSTANTS,
) -> Layer:
    """Algorithm 4: matchings as large as the embedding's incoherence allows, de-embedded by X_inv = Xᵀ/μ.

    Args:
        problem: A permutation, and rows that are not all zero.
        key_width: d_k, the width of a head, at least 1.
        seed: Decides the signatures.
        matching_size: The most relations of a head, at least 1; by default the choice of `matchings_by_profile`, with a
            warning if the theorem's condition is not met.
        signatures: RADEMACHER or Bernoulli(p). Theorem B.5 takes p ≤ 1/20; a larger p gives a warning.
        constants: The condition of the theorem, for the choice of the matching size.

    Returns:
        A layer with the threshold of the signatures.

    Raises:
        InputError: The graph is no permutation, every row is zero, or a size is below 1.
    """
    require_sizes(problem, key_width=key_width, matching_size=1 if matching_size is None else matching_size, seed=seed)
    require_permutation(problem.graph)
    if isinstance(signatures, Bernoulli) and signatures.p > LARGEST_P:
        _warn(f"Theorem B.5 takes Bernoulli signatures with p ≤ 1/20, not {signatures.p:g}")
    if matching_size is None:
        choice = matchings_by_profile(problem, constants=constants)
        matching_size = choice.matching_size
        if not choice.theorem_applies:
            _warn("Theorem B.5 does not apply: even matchings of one relation overlap more than it allows")
    words = signatures.draw(problem.items, key_width, seed=seed)
    matchings = split_sources(problem.graph, size=matching_size)
    mu = middle_length(problem.rows)
    heads = [de_embed(problem.rows, matching, words, mu=mu) for matching in matchings]
    return assemble(heads, threshold=signatures.threshold(key_width))


def matchings_by_profile(problem: Problem, *, constants: Constants = DEFAULT_CONSTANTS) -> MatchingChoice:
    """The largest matchings whose realised profile meets the theorem's condition; size 1 if none does.

    The profile is that of the matchings themselves. The suprema of Definition B.4 over all sets are far above it.

    Args:
        problem: A permutation over an embedding.
        constants: The constants of the condition.

    Returns:
        The matching size with its profile.

    Raises:
        InputError: The graph is no permutation, or every row is zero.
    """
    require_permutation(problem.graph)

    def profile(size: int) -> IncoherenceProfile:
        return realised_profile(problem.rows, split_sources(problem.graph, size=size))

    size = _largest_size(problem.items, lambda size: constants.admit(profile(size)))
    chosen = profile(size)
    return MatchingChoice(size, chosen, chosen.exact and constants.admit(chosen))


def matchings_by_certificate(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    signatures: Signatures = RADEMACHER,
    constants: Constants = DEFAULT_CONSTANTS,
) -> MatchingChoice:
    """The largest matchings whose layer certifies, for any profile. `theorem_applies` tells whether Theorem B.5 covers
    them.

    The certificate is that of the layer which `incoherent` builds with this matching size and the same arguments. It
    does not hold if not even matchings of one relation certify.

    Args:
        problem: A permutation over an embedding.
        key_width: d_k, the width of a head.
        seed: The seed of the signatures.
        signatures: The distribution of the signatures.
        constants: The constants of Theorem B.5's condition.

    Returns:
        The matching size with its profile and certificate.

    Raises:
        InputError: As `incoherent`.
    """

    def certificate(size: int) -> Certificate:
        layer = incoherent(problem, key_width=key_width, seed=seed, matching_size=size, signatures=signatures)
        return certify(layer, problem)

    size = _largest_size(problem.items, lambda size: certificate(size).holds)
    profile = realised_profile(problem.rows, split_sources(problem.graph, size=size))
    return MatchingChoice(size, profile, profile.exact and constants.admit(profile), certificate(size))


def middle_length(embedding: Float[ndarray, "items d_model"]) -> float:
    """μ, half way between the smallest and the largest ‖x_i‖²: no other μ makes ε_d as small.

    Raises:
        InputError: Every row is zero.
    """
    lengths = np.einsum("id,id->i", embedding, embedding, dtype=np.float64)
    if not lengths.any():
        raise InputError("every row of the embedding is zero")
    return float(lengths.max() + lengths.min()) / 2


def _largest_size(items: int, admits: Callable[[int], bool]) -> int:
    """The largest admitted matching size, by doubling and bisecting the number of heads; 1 where none is admitted."""

    def size(heads: int) -> int:
        return math.ceil(items / heads)

    low, high = 0, 1
    while not admits(size(high)):
        if high >= items:
            return 1
        low, high = high, min(2 * high, items)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if admits(size(middle)) else (middle, high)
    return size(high)


def _warn(message: str) -> None:
    warnings.warn(message, ConditionWarning, stacklevel=3)
