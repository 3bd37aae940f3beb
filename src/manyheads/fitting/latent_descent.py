"""Latent descent: the steps of an attempt where all keys are made from a latent (`layer.LatentKeys`).

The engine computes the scores of all pairs, and the gradient by queries and keys. Here the gradient by the keys is
carried on to W_D and W_U, and Adam takes its steps on W_Q, W_U and W_D.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.fitting.stepwise import AdamStep, Levels, PairFinding, PairFitting, StepwiseFitting
from manyheads.layer.latent import latent_factors


class LatentFitting(StepwiseFitting):
    """Queries, and keys of rank at most `latent`, fitted to a graph by full gradients; the methods of `Fitting32`."""

    whole = True

    def __init__(self, fitting: PairFitting, latent: int) -> None:
        self._fitting, self._latent = fitting, latent

    def set_weights(
        self,
        query: Float64[ndarray, "heads d_model key_width"],
        key: Float64[ndarray, "heads d_model key_width"],
        threshold: float,
    ) -> None:
        """Set the weights, the keys reduced to the rank of the latent, and the optimiser's moments to zero."""
        down, up = latent_factors(key, self._latent)
        self._values: list[Float64[ndarray, ...]] = [query.copy(), down, up, np.array(threshold)]
        self._first = [np.zeros_like(value) for value in self._values]
        self._second = [np.zeros_like(value) for value in self._values]
        self.taken = 0
        self._push()

    def weights(
        self,
    ) -> tuple[Float64[ndarray, "heads d_model key_width"], Float64[ndarray, "heads d_model key_width"], float]:
        """The queries, the keys that every head makes from the latent, and the threshold."""
        query, down, up, threshold = self._values
        return query.copy(), down @ up, float(threshold)

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> PairFinding:
        """Survey all pairs."""
        return self._fitting.look(floor, ceiling, summit, threshold, weight)

    @property
    def threshold(self) -> float:
        """The threshold."""
        return float(self._values[3])

    def survey(self, levels: Levels, weight: float, share: float) -> PairFinding:
        """Survey all pairs, whatever the share."""
        return self.look(*levels, weight)

    def step(self, adam: AdamStep, by_threshold: float) -> None:
        """One step of Adam on W_Q, W_U, W_D and the threshold."""
        _, down, up, _ = self._values
        by_query, by_key = self._fitting.gradient()
        # keys = W_D·W_U^k of head k, so ∂W_D = Σ_k ∂K_k·W_U^kᵀ and ∂W_U^k = W_Dᵀ·∂K_k
        by_down, by_up = (by_key @ up.swapaxes(1, 2)).sum(axis=0), down.T @ by_key
        gradients = (by_query, by_down, by_up, np.array(by_threshold))
        for value, first, second, gradient in zip(self._values, self._first, self._second, gradients, strict=True):
            first *= adam.beta1
            first += gradient
            second *= adam.beta2
            second += gradient**2
            value -= adam.rate * first / (np.sqrt(second) + adam.epsilon)
        self._push()

    def _push(self) -> None:
        query, down, up, threshold = self._values
        self._fitting.set_weights(query, np.ascontiguousarray(down @ up), float(threshold))
