"""Stepwise fitting: bursts of steps as native/fitting/fitting.hpp takes them, for engines that are written in Python.

`LatentFitting` and the engine in torch say how a survey and a step are made; the order of the checks is here.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float64
from numpy import ndarray

EPSILON = 1e-12  # Adam's ε, as in native/fitting/fitting.hpp
SLACK = 0.95  # under softmax this part of the ratio is enough, as in native/fitting/fitting.hpp

# queries, keys and the threshold
FittedWeights = tuple[
    Float64[ndarray, "heads d_model key_width"], Float64[ndarray, "key_heads d_model key_width"], float
]
Levels = tuple[float, float, float, float]  # floor, ceiling, summit, threshold


@runtime_checkable
class PairFinding(Protocol):
    """The result of a survey of all pairs: `Finding` of the native code."""

    @property
    def loss(self) -> float:
        """The sum of all costs."""

    @property
    def by_ceiling(self) -> float:
        """The derivative of the loss by the ceiling."""

    @property
    def by_summit(self) -> float:
        """The derivative of the loss by the summit."""

    @property
    def lowest(self) -> float:
        """The lowest score of any head, at most the floor."""

    @property
    def low(self) -> float:
        """The highest score of a pair without a relation, at least the ceiling."""

    @property
    def high(self) -> float:
        """The lowest score of a relation."""

    @property
    def missed(self) -> int:
        """Relations at or below the threshold."""

    @property
    def false_pairs(self) -> int:
        """Other pairs above the threshold."""


@runtime_checkable
class PairBurst(Protocol):
    """The result of a burst: `Burst` of the native code."""

    @property
    def steps(self) -> int:
        """The number of steps."""

    @property
    def finding(self) -> PairFinding:
        """The survey before the last step, or after it, if the burst ended early."""


@runtime_checkable
class PairFitting(Protocol):
    """Weights fitted to a graph by full gradients over all pairs: the methods of `Fitting32`."""

    def set_weights(
        self,
        query: Float64[ndarray, "heads d_model key_width"],
        key: Float64[ndarray, "key_heads d_model key_width"],
        threshold: float,
    ) -> None:
        """Set the weights, and the optimiser's moments to zero."""

    def weights(self) -> FittedWeights:
        """Return (query, key, threshold)."""

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> PairFinding:
        """Survey all pairs, and compute the gradient by the weights."""

    def gradient(
        self,
    ) -> tuple[Float64[ndarray, "heads d_model key_width"], Float64[ndarray, "key_heads d_model key_width"]]:
        """Return the gradient of the last survey, (by query, by key)."""

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
        pulse: Callable[[], None] | None = None,
    ) -> PairBurst:
        """Take steps at these rates."""


@dataclass(frozen=True)
class StepwiseBurst:
    """The result of a burst: the number of steps, and the survey before the last (or after it, if it ended early)."""

    steps: int
    finding: PairFinding


@dataclass(frozen=True)
class AdamStep:
    """Adam's constants for one step, the bias corrections included.

    Attributes:
        rate: The factor on mean/(√square + epsilon), of moments without the factors 1 − β.
        epsilon: Adam's ε in the scale of these moments.
        beta1: The decay of the mean gradient.
        beta2: The decay of the mean squared gradient.
    """

    rate: float
    epsilon: float
    beta1: float
    beta2: float


class StepwiseFitting(ABC):
    """A fitting whose steps are taken one by one in Python."""

    taken = 0  # the number of steps since the moments were zero
    whole = False  # whether every survey is of all pairs, whatever the share

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
        pulse: Callable[[], None] | None = None,
    ) -> StepwiseBurst:
        """Take steps at these rates, as `Fitting32.burst`. Before every step, `pulse` is called.

        Args:
            rates: The learning rate of each step, at least one.
            beta1: Adam's decay of the mean gradient.
            beta2: Adam's decay of the mean squared gradient.
            weight: The weight of a relation's cost.
            ratio: 0 for the rule max; else the summit of softmax, where the threshold is not learned.
            share: The part of the sources that a step surveys.
            seconds: The time limit.
            until_open: Whether the burst ends as soon as all pairs are separated, where surveys are of all pairs.
            pulse: An exception in it ends the burst.
        """
        begun, steps = time.monotonic(), 0
        for rate in rates:
            threshold = self.threshold
            levels = (
                (-1.0, 1.0, ratio, (1 + ratio) / 2) if ratio else (-math.inf, threshold - 1, threshold + 1, threshold)
            )
            finding = self.survey(levels, weight, share)
            if not math.isfinite(finding.loss) or finding.loss == 0:
                break
            exact = share == 1 or self.whole
            if (until_open and exact and is_separated(finding, ratio)) or time.monotonic() - begun > seconds:
                break
            if pulse is not None:
                pulse()
            self.taken += 1
            mean = (1 - beta1) / (1 - beta1**self.taken)
            root = math.sqrt((1 - beta2) / (1 - beta2**self.taken))
            by_threshold = 0.0 if ratio else finding.by_ceiling + finding.by_summit
            self.step(AdamStep(rate * mean / root, EPSILON / root, beta1, beta2), by_threshold)
            steps += 1
        return StepwiseBurst(steps, finding)

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The threshold."""

    @abstractmethod
    def survey(self, levels: Levels, weight: float, share: float) -> PairFinding:
        """Survey the pairs of a share of the sources, and compute the gradient by the weights."""

    @abstractmethod
    def step(self, adam: AdamStep, by_threshold: float) -> None:
        """Change weights and threshold by the gradient of the last survey."""


def is_separated(finding: PairFinding, ratio: float) -> bool:
    """Whether a threshold separates; for softmax (ratio > 0), whether relations rise above the band of others."""
    if ratio:
        return finding.high > SLACK * ratio * max(1.0, finding.low, -finding.lowest)
    return finding.low < finding.high
