"""Signatures: the random word each target carries, which its source's query repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError


@dataclass(frozen=True)
class Rademacher:
    """Independent fair signs ±1: a word agrees with itself d_k times over, with another word not at all on average."""

    mean = 0.0
    square = 1.0  # E w²

    def draw(self, items: int, key_width: int, *, seed: int) -> Float64[ndarray, "items key_width"]:
        """W_sig, one row for each item."""
        return np.random.default_rng(seed).integers(0, 2, size=(items, key_width)) * 2.0 - 1.0

    def threshold(self, key_width: int) -> float:
        """τ = d_k/2, half way between the mean score of a word with itself and with another."""
        return key_width / 2


@dataclass(frozen=True)
class Bernoulli:
    """Independent entries that are 1 with probability p, else 0."""

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
        """W_sig, one row for each item."""
        return (np.random.default_rng(seed).random((items, key_width)) < self.p).astype(np.float64)

    def threshold(self, key_width: int) -> float:
        """τ = (p + p²)/2 · d_k, half way between the mean score of a word with itself and with another."""
        return (self.p + self.p**2) / 2 * key_width


Signatures = Rademacher | Bernoulli
RADEMACHER = Rademacher()
