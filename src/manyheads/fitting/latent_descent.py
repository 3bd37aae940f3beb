"""Latent descent: the steps of an attempt where all keys are made from a latent (`layer.LatentKeys`).

The native code computes the scores of all pairs, and the gradient by queries and keys. Here the gradient by the keys is
carried on to W_D and W_U, and Adam takes its steps on W_Q, W_U and W_D.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads._native import Finding, Fitting32
from manyheads.layer.latent import latent_factors

EPSILON = 1e-12  # Adam's ε, as in native/fitting/fitting.hpp
SLACK = 0.95  # under softmax this part of the ratio is enough, as in native/fitting/fitting.hpp


@dataclass(frozen=True)
class LatentBurst:
    """The result of a burst: the number of steps, and the survey before the last (or after it, if it ended early)."""

    steps: int
    finding: Finding


class LatentFitting:
    """Queries, and keys of rank at most `latent`, fitted to a graph by full gradients; the methods of `Fitting32`."""

    def __init__(self, fitting: Fitting32, latent: int) -> None:
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
        self._taken = 0
        self._push()

    def weights(
        self,
    ) -> tuple[Float64[ndarray, "heads d_model key_width"], Float64[ndarray, "heads d_model key_width"], float]:
        """The queries, the keys that every head makes from the latent, and the threshold."""
        query, down, up, threshold = self._values
        return query.copy(), down @ up, float(threshold)

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> Finding:
        """Survey all pairs."""
        return self._fitting.look(floor, ceiling, summit, threshold, weight)

    def burst(
        self,
        rates: Sequence[float],
        beta1: float,
        beta2: float,
        weight: float,
        ratio: float,
        share: float,
        seconds: float,
        until_open: bool,
    ) -> LatentBurst:
        """Take steps at these rates, as `Fitting32.burst`; every step surveys all pairs, whatever the share."""
        begun, steps = time.monotonic(), 0
        for rate in rates:
            threshold = float(self._values[3])
            levels = (
                (-1.0, 1.0, ratio, (1 + ratio) / 2) if ratio else (-math.inf, threshold - 1, threshold + 1, threshold)
            )
            finding = self.look(*levels, weight)
            if not math.isfinite(finding.loss) or finding.loss == 0 or time.monotonic() - begun > seconds:
                break
            if until_open and self._separated(finding, ratio):
                break
            self._step(finding, rate, beta1, beta2, learn_threshold=not ratio)
            steps += 1
        return LatentBurst(steps, finding)

    @staticmethod
    def _separated(finding: Finding, ratio: float) -> bool:
        if ratio:
            return finding.high > SLACK * ratio * max(1.0, finding.low, -finding.lowest)
        return finding.low < finding.high

    def _step(self, finding: Finding, rate: float, beta1: float, beta2: float, *, learn_threshold: bool) -> None:
        _, down, up, _ = self._values
        by_query, by_key = self._fitting.gradient()
        by_threshold = finding.by_ceiling + finding.by_summit if learn_threshold else 0.0
        # keys = W_D·W_U^k of head k, so ∂W_D = Σ_k ∂K_k·W_U^kᵀ and ∂W_U^k = W_Dᵀ·∂K_k
        by_down, by_up = (by_key @ up.swapaxes(1, 2)).sum(axis=0), down.T @ by_key
        self._taken += 1
        mean = (1 - beta1) / (1 - beta1**self._taken)
        root = math.sqrt((1 - beta2) / (1 - beta2**self._taken))
        gradients = (by_query, by_down, by_up, np.array(by_threshold))
        for value, first, second, gradient in zip(self._values, self._first, self._second, gradients, strict=True):
            first *= beta1
            first += gradient
            second *= beta2
            second += gradient**2
            value -= rate * mean / root * first / (np.sqrt(second) + EPSILON / root)
        self._push()

    def _push(self) -> None:
        query, down, up, threshold = self._values
        self._fitting.set_weights(query, np.ascontiguousarray(down @ up), float(threshold))
