"""Descent: one attempt to separate all pairs by full gradients of a squared hinge, and then to widen the window.

Every step looks at all m² pairs exactly (native/fitting/survey.hpp). A pair without a relation costs the square of
each head's score above τ − 1. A relation costs the square of its best head's score below τ + 1. τ is learned with the
weights. Once a threshold separates, further steps at a falling rate widen the window; the weights with the widest
window for their size are kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads._native import Fitting32
from manyheads.errors import InputError
from manyheads.fitting.latent_descent import LatentFitting
from manyheads.fitting.options import Descent, FitEngine, FitProgress, Phase
from manyheads.fitting.stepwise import PairFinding, PairFitting
from manyheads.numbers import require_memory
from manyheads.problem.graph import Graph
from manyheads.tables import in_heads

# query (heads, d_model, key_width), key (key_heads, d_model, key_width), and the threshold
Weights = tuple[Float64[ndarray, "_ _ _"], Float64[ndarray, "_ _ _"], float]


BURSTS = 20  # surveys of all pairs in one attempt
BETWEEN_LOOKS = 6  # a survey costs as much as 1/share steps; after every 6/share steps, it takes 1/7 of the work
BETWEEN_LOOKS_NEAR = 2  # with near pairs a step costs about three times as much as the survey of its share
STUCK = 0.002  # an attempt ends if its loss falls by less than this part between two surveys, at a falling rate


@dataclass(frozen=True, eq=False)
class DescentResult:
    """The result of one attempt.

    Attributes:
        weights: The query and key weights and the threshold.
        window: The thresholds that separate; none where low ≥ high.
        separated: Whether a threshold separates; for softmax, whether the logits stay within their band.
        wrong: Pairs on the wrong side of the threshold.
        loss: The sum of all costs.
        steps: Steps of the attempt so far.
    """

    weights: Weights
    window: tuple[float, float]
    separated: bool
    wrong: int
    loss: float
    steps: int


class Engine:
    """The native engine, or the engine in torch, on one problem and one shape."""

    SLACK = 0.95  # under softmax this part of the ratio is enough; native/fitting/fitting.hpp has the same number

    def __init__(
        self,
        graph: Graph,
        rows: Float32[ndarray, "items d_model"],
        *,
        heads: int,
        key_width: int,
        key_heads: int | None = None,
        latent: int | None = None,
        descent: Descent,
        threads: int = 1,
        ratio: float = 0.0,
        attempt: int = 0,
        progress: Callable[[FitProgress], None] | None = None,
        begun: float | None = None,
        deadline: float = math.inf,
        engine: FitEngine = "native",
        device: str = "cpu",
        pulse: Callable[[], None] | None = None,
    ) -> None:
        self.pulse = pulse  # called several times a second; an exception in it ends the attempt
        self.descent, self.ratio, self.attempt = descent, ratio, attempt
        self.shape = heads, key_width
        self.progress = progress
        self.begun = time.monotonic() if begun is None else begun
        self.deadline = deadline
        padded = heads * -(-key_width // 16) * 16  # the engine's rows are whole vectors
        needed = 4 * graph.items * (padded * (5 + threads) + 2 * heads * key_width + 2 * rows.shape[1])
        needed += 64 * heads * key_width * rows.shape[1]
        near_pairs = descent.near_pairs if descent.counts_near_pairs else 0
        needed += 64 * graph.items * near_pairs  # 16 of 4 bytes at most
        require_memory(needed, f"a fit of {in_heads(heads, key_width)} over {graph.items:,} items")
        fitting: PairFitting
        if engine == "torch":
            fitting = torch_fitting(graph, rows, heads=heads, key_width=key_width, key_heads=key_heads, device=device)
        else:
            fitting = Fitting32(graph.row_starts, graph.targets, rows, heads, key_width, threads, key_heads, near_pairs)
        self._fitting: PairFitting | LatentFitting = fitting if latent is None else LatentFitting(fitting, latent)

    def run(self, weights: Weights, *, warm: bool = False) -> DescentResult:
        """Separate, then widen.

        Args:
            weights: The weights to start from.
            warm: Whether they nearly fit already, so that smaller rates suffice.
        """
        self._fitting.set_weights(*weights)
        if self.descent.counts_near_pairs:
            self._look()  # keeps the near pairs of every source: without them only its relations would count
        steps, finding = 0, None
        for done, found in self._bursts(self.descent.rates(warm=warm), "separate", until_open=True):
            stuck = finding is not None and done > self.descent.judged_from and _stuck(finding, found)
            steps, finding = done, found
            if self._separated(found) or stuck or not math.isfinite(found.loss):
                break
        assert finding is not None, "there is at least one step"
        reached = self._result(finding, steps)
        return self._widen(reached) if reached.separated and self.descent.widen and finding.loss > 0 else reached

    def _widen(self, reached: DescentResult) -> DescentResult:
        """Further steps. The window may narrow on the way, so the best weights are kept."""
        best = reached
        rates = list(self.descent.rate / 4 * np.linspace(1, 0, self.descent.widen, endpoint=False))
        for done, found in self._bursts(rates, "widen", until_open=False):
            now = self._result(found, reached.steps + done)
            if now.separated and _normalised(now) > _normalised(best):
                best = now
            if found.loss == 0:
                break
        return best

    def _bursts(self, rates: list[float], phase: Phase, *, until_open: bool) -> Iterator[tuple[int, PairFinding]]:
        """Bursts of steps. Each burst ends with an exact survey of all pairs."""
        descent, done = self.descent, 0
        length = max(1, len(rates) // BURSTS)
        if descent.share < 1:  # a survey costs as much as 1/share steps
            apart = BETWEEN_LOOKS_NEAR if descent.counts_near_pairs else BETWEEN_LOOKS
            length = max(length, round(apart / descent.share))
        while done < len(rates):
            left = max(0.0, self.deadline - time.monotonic())  # a burst without time left still makes one survey
            part = rates[done : done + length]
            try:
                burst = self._fitting.burst(
                    part, descent.beta1, descent.beta2, descent.weight, self.ratio, descent.share, left,
                    until_open, self.pulse,
                )  # fmt: skip
            except RuntimeError as error:  # the system starts no further thread
                raise InputError(str(error)) from None
            done += burst.steps
            # a burst looks before each step, so its last finding is of the weights before the last step, unless it
            # ended early
            finding = self._look() if burst.steps == length or descent.share < 1 else burst.finding
            self._tell(finding, phase, done)
            yield done, finding
            if (burst.steps < length and until_open and descent.share == 1) or time.monotonic() >= self.deadline:
                return

    def _look(self) -> PairFinding:
        threshold = self._fitting.weights()[2]
        if self.ratio:
            return self._fitting.look(-1.0, 1.0, self.ratio, (1 + self.ratio) / 2, self.descent.weight)
        return self._fitting.look(-math.inf, threshold - 1, threshold + 1, threshold, self.descent.weight)

    def _separated(self, finding: PairFinding) -> bool:
        if self.ratio:
            return finding.high > self.SLACK * self.ratio * max(1.0, finding.low, -finding.lowest)
        return finding.low < finding.high

    def _result(self, finding: PairFinding, steps: int) -> DescentResult:
        return DescentResult(
            weights=self._fitting.weights(),
            window=(finding.low, finding.high),
            separated=self._separated(finding),
            wrong=finding.missed + finding.false_pairs,
            loss=finding.loss,
            steps=steps,
        )

    def _tell(self, finding: PairFinding, phase: Phase, step: int) -> None:
        if self.progress is None:
            return
        self.progress(
            FitProgress(
                *self.shape, self.attempt, phase, step, finding.missed + finding.false_pairs,
                (finding.low, finding.high), finding.loss, time.monotonic() - self.begun,
            )
        )  # fmt: skip


def torch_fitting(
    graph: Graph,
    rows: Float32[ndarray, "items d_model"],
    *,
    heads: int,
    key_width: int,
    key_heads: int | None,
    device: str,
) -> PairFitting:
    """The engine in torch, which is imported here.

    Raises:
        InputError: torch is not installed, or has no such device here.
    """
    try:
        from manyheads.fitting.torch_descent import TorchFitting  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("the engine torch needs torch: install manyheads[torch]") from None
    return TorchFitting(graph, rows, heads=heads, key_width=key_width, key_heads=key_heads, device=device)


def _stuck(before: PairFinding, now: PairFinding) -> bool:
    return now.loss > (1 - STUCK) * before.loss


def _normalised(result: DescentResult) -> float:
    """The width of the window divided by the size of the weights. Larger weights alone do not improve this number."""
    low, high = result.window
    query, key, _ = result.weights
    return (high - low) / float(np.linalg.norm(query) * np.linalg.norm(key))


SCALE = 0.2  # √ of the scores' standard deviation; small, so that chance assigns no relation to a head
THRESHOLD = 1.5
SHRUNK = 0.3  # factor on the weights of a failed attempt, where every step looks at all pairs
GENTLER = 0.5  # factor on the rate and on the steps after a failed attempt, where near pairs count


def random_start(d_model: int, *, heads: int, key_width: int, seed: int, key_heads: int | None = None) -> Weights:
    """Normal weights, for scores of standard deviation SCALE² on rows of length one."""
    require_memory(48 * heads * d_model * key_width, f"weights of {in_heads(heads, key_width)}")
    rng = np.random.default_rng(seed)
    query, key = (
        rng.standard_normal((number, d_model, key_width)) * (SCALE * key_width**-0.25)
        for number in (heads, key_heads or heads)
    )
    return query, key, THRESHOLD


def shrunk_start(weights: Weights) -> Weights:
    """The weights of a failed attempt, multiplied by SHRUNK.

    All pairs cost again, but the heads keep a preference for the relations that they held. With many heads this often
    succeeds where a random start hardly ever does (docs/results/fit.md).
    """
    query, key, threshold = weights
    return query * SHRUNK, key * SHRUNK, threshold * SHRUNK**2


def after_failure(result: DescentResult, descent: Descent) -> tuple[Weights, Descent]:
    """The next attempt after one that failed.

    With near pairs, relations that some head nearly holds are left: the next attempt goes on from the same weights, at
    half the rate. Otherwise it starts from shrunk weights.

    Args:
        result: The failed attempt.
        descent: The settings of the first attempt.

    Returns:
        The first weights of the next attempt, and its settings.
    """
    if not descent.counts_near_pairs:
        return shrunk_start(result.weights), descent
    return result.weights, replace(descent, rate=GENTLER * descent.rate, steps=round(GENTLER * descent.steps))


def widening_start(result: DescentResult) -> Weights:
    """Weights that separate, scaled so that the nearest pairs cost again: further steps then widen their window."""
    query, key, threshold = result.weights
    low, high = result.window
    half = (high - low) / 2
    scale = math.sqrt(0.5 / half) if 0 < half < math.inf else 1.0
    return query * scale, key * scale, threshold * scale**2


def narrowed_start(weights: Weights, *, key_width: int) -> Weights:
    """Narrower heads: the forms W_Q·W_Kᵀ of each key head reduced to their strongest common singular directions."""
    query, key, threshold = weights
    heads, d_model, _ = query.shape
    stacked = query.reshape(len(key), -1, query.shape[2])  # the queries that read a key head, one below the other
    left, strengths, right = np.linalg.svd(stacked @ key.swapaxes(1, 2), full_matrices=False)
    roots = np.sqrt(strengths[:, None, :key_width])
    narrow = (left[:, :, :key_width] * roots).reshape(heads, d_model, key_width)
    return narrow, right[:, :key_width].swapaxes(1, 2) * roots, threshold


def fewer_heads_start(weights: Weights) -> Weights:
    """Of each key head, one head less: the head whose form W_Q·W_Kᵀ has the smallest norm is removed.

    A key head that only one head reads is not needed without it. So without shared keys, the weakest head of all is
    removed with its keys.
    """
    query, key, threshold = weights
    sharing = len(query) // len(key)
    copies = key.repeat(sharing, axis=0)
    forms = np.einsum("hdc,hdb,hec,heb->h", query, query, copies, copies)  # ‖W_Q·W_Kᵀ‖² of each head
    if sharing == 1:
        rest = np.delete(np.arange(len(query)), int(np.argmin(forms)))
        return query[rest], key[rest], threshold
    weakest = forms.reshape(-1, sharing).argmin(axis=1) + sharing * np.arange(len(key))
    return np.delete(query, weakest, axis=0), key, threshold
