"""Construction III: any embedding whose rows leak little into each other (Algorithm 4, Theorem B.5)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.certificate import Certificate, certify
from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.conditions import ConditionWarning, require_permutation, require_sizes
from manyheads.construct.signatures import RADEMACHER, Bernoulli, Signatures
from manyheads.construct.split import split_sources
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.incoherence import IncoherenceProfile, realised_incoherence
from manyheads.problem.problem import Problem

LARGEST_P = 1 / 20  # Theorem B.5 is stated for Bernoulli signatures up to here


@dataclass(frozen=True)
class Constants:
    """The c1, c2, c3 of Theorem B.5, ε_d ≤ c1, ρ ≤ c2/ln m and γ ≤ c3/ln m, which the paper leaves open.

    These keep the true score, (1 − ε_d)²·d_k, above ¾·d_k, and the mean of N3, γ·d_k, below ¼·d_k from m = 55 on.
    """

    c1: float = 1 / 8
    c2: float = 1.0
    c3: float = 1.0

    def admit(self, profile: IncoherenceProfile) -> bool:
        """Whether the profile's numbers meet the theorem's condition (a sampled γ is a lower bound only)."""
        log = math.log(profile.items)
        return profile.epsilon <= self.c1 and profile.rho * log <= self.c2 and profile.gamma * log <= self.c3


DEFAULT_CONSTANTS = Constants()


@dataclass(frozen=True)
class BlockChoice:
    """A block size, the profile realised on its blocks, and what speaks for it."""

    block_size: int
    profile: IncoherenceProfile
    theorem_applies: bool  # whether the profile meets the theorem's condition
    certificate: Certificate | None = None  # of the layer built with it, where that is how it was found


def incoherent(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    block_size: int | None = None,
    signatures: Signatures = RADEMACHER,
    constants: Constants = DEFAULT_CONSTANTS,
) -> Layer:
    """Algorithm 4: blocks as large as the embedding's incoherence allows, de-embedded by X_inv = Xᵀ/μ.

    Without a block size it takes the one of `block_by_profile`, and warns where the theorem's condition is not met.
    """
    require_sizes(key_width=key_width, block_size=1 if block_size is None else block_size)
    require_permutation(problem.graph)
    if isinstance(signatures, Bernoulli) and signatures.p > LARGEST_P:
        _warn(f"Theorem B.5 takes Bernoulli signatures with p ≤ 1/20, not {signatures.p:g}")
    if block_size is None:
        choice = block_by_profile(problem, constants=constants)
        block_size = choice.block_size
        if not choice.theorem_applies:
            _warn("even blocks of one relation leak more than Theorem B.5 allows, so it does not apply")
    words = signatures.draw(problem.items, key_width, seed=seed)
    blocks = split_sources(problem.graph, size=block_size)
    mu = middle_length(problem.rows)
    heads = [de_embed(problem.rows, block, words, mu=mu) for block in blocks]
    return assemble(heads, threshold=signatures.threshold(key_width))


def block_by_profile(problem: Problem, *, constants: Constants = DEFAULT_CONSTANTS) -> BlockChoice:
    """The largest blocks whose realised profile meets the theorem's condition; single relations where none does.

    The profile realised on the blocks, because the suprema of Definition B.4 over all sets are far above it.
    """
    require_permutation(problem.graph)

    def profile(size: int) -> IncoherenceProfile:
        return realised_incoherence(problem.rows, split_sources(problem.graph, size=size))

    size = _largest_block(problem.items, lambda size: constants.admit(profile(size)))
    chosen = profile(size)
    return BlockChoice(size, chosen, chosen.exact and constants.admit(chosen))


def block_by_certificate(
    problem: Problem,
    *,
    key_width: int,
    seed: int,
    signatures: Signatures = RADEMACHER,
    constants: Constants = DEFAULT_CONSTANTS,
) -> BlockChoice:
    """The largest blocks whose layer certifies, whatever their profile; `theorem_applies` says whether it is covered.

    The certificate is that of the layer which `incoherent` builds with this block size and the same arguments; it does
    not hold where not even single relations do.
    """

    def certificate(size: int) -> Certificate:
        layer = incoherent(problem, key_width=key_width, seed=seed, block_size=size, signatures=signatures)
        return certify(layer, problem)

    size = _largest_block(problem.items, lambda size: certificate(size).holds)
    profile = realised_incoherence(problem.rows, split_sources(problem.graph, size=size))
    return BlockChoice(size, profile, profile.exact and constants.admit(profile), certificate(size))


def middle_length(embedding: Float[ndarray, "items d_model"]) -> float:
    """μ, half way between the smallest and the largest ‖x_i‖²: no other makes ε_d as small."""
    lengths = np.einsum("id,id->i", embedding, embedding, dtype=np.float64)
    if not lengths.any():
        raise InputError("every row of the embedding is zero")
    return float(lengths.max() + lengths.min()) / 2


def _largest_block(items: int, admits: Callable[[int], bool]) -> int:
    """The largest admitted block size, by doubling and bisecting the number of heads; 1 where none is admitted."""

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
