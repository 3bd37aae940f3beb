"""Descent: one attempt to separate all pairs, by full gradients of a squared hinge, and then to widen the window.

Every step looks at all m² pairs exactly (native/fitting/survey.hpp). A pair without a relation costs what each head
scores it above τ − 1, a relation what its best head lacks to τ + 1, both squared; τ is learned with the weights. Once
any threshold separates, further steps at a falling rate widen the window; the weights with the largest margin for their
size are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads._native import Finding, Fitting32
from manyheads.construct.fit.standing import Phase, Standing, Watch
from manyheads.graph import Graph

# query and key, each (heads, d_model, key_width), and the threshold
Weights = tuple[Float64[ndarray, "_ _ _"], Float64[ndarray, "_ _ _"], float]


@dataclass(frozen=True)
class Descent:
    """How an attempt goes; the defaults proved best over many shapes (docs/fit.md)."""

    steps: int = 2_000
    rate: float = 0.25
    hold: float = 0.3  # the rate falls after this part of the steps, along a half cosine, to nothing
    beta1: float = 0.98
    beta2: float = 0.98
    weight: float = 3.0  # of a relation against another pair
    widen: int = 200  # steps for the margin, once a threshold separates
    share: float = 1.0  # of the sources that a step looks at
    threads: int = 1

    def rates(self, *, warm: bool = False) -> list[float]:
        """The rate of every step; a start that nearly fits already is not thrown far."""
        done = np.arange(self.steps) / self.steps
        falling = np.clip((done - self.hold) / (1 - self.hold), 0, 1)
        return list(self.rate * (WARM if warm else 1.0) * (1 + np.cos(np.pi * falling)) / 2)


def suitable_descent(items: int, d_model: int) -> Descent:
    """Looks at all pairs, or at shares of the sources where that takes less work to the same end (LOG.md).

    Shares help where items are many and crowded, so that a look costs far more than projecting the rows. They are
    noisy, and want a longer memory and a lower rate: what a source has learned must last until it is looked at again.
    """
    if items < MANY or items < CROWDED * d_model:
        return Descent()
    share = max(SOURCES / items, LEAST_SHARE)
    return Descent(rate=min(0.05, 0.4 * share), beta1=0.99, beta2=0.99, share=share)


MANY, CROWDED = 2_048, 16  # items, and items for each dimension, from which shares help
SOURCES, LEAST_SHARE = 512, 1 / 16  # that a look sees; with less, projecting all keys for it takes most of the time
WARM = 0.1  # of the rate, for a warm start
BURSTS = 20  # an attempt is looked at so many times
BETWEEN_LOOKS = 6  # shares of the sources seen, times their number, so that looks stay a seventh of the work
STUCK = 0.002  # a loss that falls by less than this part from one look to the next, at a falling rate, is going nowhere


@dataclass(frozen=True, eq=False)
class Attempt:
    """What came of one attempt: the weights, whether a threshold separates, and how far it was from that."""

    weights: Weights
    window: tuple[float, float]
    separated: bool
    wrong: int
    loss: float
    steps: int


class Engine:
    """The native engine on one problem and one shape, its looks reported as standings."""

    SLACK = 0.95  # of the ratio that softmax is trained for is enough, here as in native/fitting/fitting.hpp

    def __init__(
        self,
        graph: Graph,
        rows: Float32[ndarray, "items d_model"],
        *,
        heads: int,
        key_width: int,
        how: Descent,
        ratio: float = 0.0,
        attempt: int = 0,
        watch: Watch | None = None,
        begun: float | None = None,
        deadline: float = math.inf,
    ) -> None:
        self.how, self.ratio, self.attempt = how, ratio, attempt
        self.shape = heads, key_width
        self.watch = watch
        self.begun = time.monotonic() if begun is None else begun
        self.deadline = deadline
        self._fitting = Fitting32(graph.row_starts, graph.targets, rows, heads, key_width, how.threads)

    def run(self, weights: Weights, *, warm: bool = False) -> Attempt:
        """Separate, then widen; `warm` where the weights nearly fit already."""
        self._fitting.set_weights(*weights)
        steps, finding = 0, None
        for done, found in self._bursts(self.how.rates(warm=warm), "separate", until_open=True):
            stuck = finding is not None and done > self.how.hold * self.how.steps and _stuck(finding, found)
            steps, finding = done, found
            if self._separated(found) or stuck or not math.isfinite(found.loss):
                break
        assert finding is not None, "there is at least one step"
        reached = self._attempt(finding, steps)
        return self._widen(reached) if reached.separated and self.how.widen and finding.loss > 0 else reached

    def _widen(self, reached: Attempt) -> Attempt:
        """Further steps: the window closes now and then on the way, so the best standing is kept."""
        best = reached
        rate = self.how.rate / 4
        rates = list(rate * np.linspace(1, 0, self.how.widen, endpoint=False))
        for done, found in self._bursts(rates, "widen", until_open=False):
            now = self._attempt(found, reached.steps + done)
            if now.separated and _normalised(now) > _normalised(best):
                best = now
            if found.loss == 0:
                break
        return best

    def _bursts(self, rates: list[float], phase: Phase, *, until_open: bool) -> Iterator[tuple[int, Finding]]:
        """Bursts of steps, each ending with an exact look at all pairs."""
        how, done = self.how, 0
        length = max(1, len(rates) // BURSTS)
        if how.share < 1:  # a look costs as many steps as there are shares
            length = max(length, round(BETWEEN_LOOKS / how.share))
        while done < len(rates):
            left = max(0.0, self.deadline - time.monotonic())  # where none is left, a burst still looks once
            burst = self._fitting.burst(
                rates[done : done + length], how.beta1, how.beta2, how.weight, self.ratio, how.share, left, until_open
            )
            done += burst.steps
            # a burst ends with a step, after which nobody has looked, unless it ended early
            finding = self._look() if burst.steps == length or how.share < 1 else burst.finding
            self._tell(finding, phase, done)
            yield done, finding
            if (burst.steps < length and until_open and how.share == 1) or time.monotonic() >= self.deadline:
                return

    def _look(self) -> Finding:
        threshold = self._fitting.weights()[2]
        if self.ratio:
            return self._fitting.look(-1.0, 1.0, self.ratio, (1 + self.ratio) / 2, self.how.weight)
        return self._fitting.look(-math.inf, threshold - 1, threshold + 1, threshold, self.how.weight)

    def _separated(self, finding: Finding) -> bool:
        if self.ratio:
            return finding.high > self.SLACK * self.ratio * max(1.0, finding.low, -finding.lowest)
        return finding.low < finding.high

    def _attempt(self, finding: Finding, steps: int) -> Attempt:
        return Attempt(
            weights=self._fitting.weights(),
            window=(finding.low, finding.high),
            separated=self._separated(finding),
            wrong=finding.missed + finding.false_pairs,
            loss=finding.loss,
            steps=steps,
        )

    def _tell(self, finding: Finding, phase: Phase, step: int) -> None:
        if self.watch is None:
            return
        self.watch(
            Standing(
                *self.shape, self.attempt, phase, step, finding.missed + finding.false_pairs,
                (finding.low, finding.high), finding.loss, time.monotonic() - self.begun,
            )
        )  # fmt: skip


def _stuck(before: Finding, now: Finding) -> bool:
    return now.loss > (1 - STUCK) * before.loss


def _normalised(attempt: Attempt) -> float:
    """The window for the size of the weights, which is all that the growth of the weights leaves."""
    low, high = attempt.window
    query, key, _ = attempt.weights
    return (high - low) / float(np.linalg.norm(query) * np.linalg.norm(key))
