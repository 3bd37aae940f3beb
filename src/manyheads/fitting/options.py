"""Options of a fit and of an attempt; the values that a fit and a search report: progress, trials, result."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from manyheads.certificate import Certificate
from manyheads.certificate.precisions import PRECISIONS, Precision
from manyheads.errors import InputError
from manyheads.executors import Workers
from manyheads.fitting.folding import Map
from manyheads.identity import normalise_numbers
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, SOFTMAX, Rule, rule_named
from manyheads.numbers import check_number
from manyheads.problem.problem import ContextLength
from manyheads.tables import Shown, Summary, counted, data_frame, in_heads, summary

RESTARTS = 12
FIT_RULES = (MAX, SOFTMAX)
MANY = 2_048  # items from which steps over a share of the sources take less time
LEAST_SHARE, NEAR_PAIRS = 1 / 64, 64  # more near pairs help little; fewer are too few at the smallest shapes
WARM = 0.1  # factor on the rate of a warm start
THREADED_ITEMS, THREADS = 1_024, 2  # from this number of items on, a step takes longer than the start of its threads

Phase = Literal["separate", "widen"]
FitEngine = Literal["native", "torch"]
Start = Literal["random", "narrowed", "fewer heads"]


@dataclass(frozen=True)
class Descent:
    """The constants of an attempt. The defaults were best over many shapes (docs/results/fit.md).

    Attributes:
        steps: The most steps of an attempt.
        rate: The learning rate at the start.
        hold: The rate stays for this part of the steps, then falls along a half cosine to 0.
        beta1: Adam's decay of the mean gradient.
        beta2: Adam's decay of the mean squared gradient.
        weight: The weight of a relation's cost against the cost of another pair.
        widen: Steps that widen the window, once a threshold separates.
        share: The part of the sources that a step looks at.
        near_pairs: Where `share` is below 1: of each source that a step does not look at, its relations and about this
            many of its other pairs count too, those with scores nearest to a cost at its last look. 0: such a source
            does not count.
        warm_up: The rate rises over this many first steps.
    """

    steps: int = 2_000
    rate: float = 0.25
    hold: float = 0.3
    beta1: float = 0.98
    beta2: float = 0.98
    weight: float = 3.0
    widen: int = 200
    share: float = 1.0
    near_pairs: int = 0
    warm_up: int = 0

    def __post_init__(self) -> None:
        normalise_numbers(self, steps="fit_steps")

    @property
    def counts_near_pairs(self) -> bool:
        """Whether a step counts near pairs of the sources that it does not look at."""
        return self.near_pairs > 0 and self.share < 1

    @property
    def judged_from(self) -> float:
        """From this step on, an attempt whose loss no longer falls ends.

        Steps with near pairs have a high rate, at which the loss goes up and down until the rate has fallen by half.
        """
        part = (1 + self.hold) / 2 if self.counts_near_pairs else self.hold
        return part * self.steps

    def rates(self, *, warm: bool = False) -> list[float]:
        """The learning rate of every step. A warm start nearly fits already, so its rates are smaller.

        Args:
            warm: Whether the first weights come from a certified layer.

        Returns:
            `steps` rates, each at least 0.
        """
        done = np.arange(self.steps) / self.steps
        falling = np.clip((done - self.hold) / (1 - self.hold), 0, 1)
        rising = np.minimum(1, (np.arange(self.steps) + 1) / (self.warm_up + 1))
        return list(self.rate * (WARM if warm else 1.0) * rising * (1 + np.cos(np.pi * falling)) / 2)


def suitable_descent(items: int, d_model: int) -> Descent:
    """The settings for a size: steps over all pairs, or, with many items, over a share of the sources and near pairs.

    The share is such that its survey costs about half as much as the projections of all items. The near pairs of the
    other sources make the gradient nearly that of all pairs. Adam's first steps have the full rate in every weight, so
    that they would bring most pairs above the threshold: the rate rises slowly.

    Args:
        items: m.
        d_model: d.

    Returns:
        The settings.
    """
    if items < MANY:
        return Descent()
    share = min(max(2 * d_model / items, LEAST_SHARE), 1.0)
    return Descent(steps=1_000, rate=0.2, share=share, near_pairs=NEAR_PAIRS, warm_up=60)


@dataclass(frozen=True)
class FitProgress:
    """The state of a fit at one survey of all pairs.

    Attributes:
        heads: h.
        key_width: d_k.
        attempt: The number of restarts before this attempt.
        phase: "separate": the pairs are brought to their sides of the threshold. "widen": the window is made wider.
        step: The step of the attempt.
        wrong: The number of pairs on the wrong side of the threshold, of all m².
        window: (low, high), the thresholds that separate; none does if low ≥ high.
        loss: The sum of the costs of all pairs.
        seconds: Wall time since the fit began.
    """

    heads: int
    key_width: int
    attempt: int
    phase: Phase
    step: int
    wrong: int
    window: tuple[float, float]
    loss: float
    seconds: float

    @property
    def margin(self) -> float:
        """Half the window, negative where it is empty, in the fit's own scale of weights."""
        low, high = self.window
        return (high - low) / 2 if math.isfinite(high - low) else math.inf

    def __str__(self) -> str:
        shape = f"{self.heads} × {self.key_width}, attempt {self.attempt + 1}, step {self.step:,}"
        return f"{shape}: {self.wrong:,} pairs wrong, margin {self.margin:.3g}, {self.seconds:.1f} s"


@dataclass(frozen=True)
class ShapeTrial:
    """One trial of a search: a shape, the seed of its start, and its result.

    Attributes:
        heads: h.
        key_width: d_k.
        key_heads: g; h unless heads share keys.
        seed: The seed of the trial.
        start: The first weights of its first attempt: random, or a larger certified layer with narrower or fewer heads.
        certified: Whether the certificate holds.
        wrong: The number of pairs that the layer gets wrong.
        normalised_margin: The certificate's normalised margin; NaN if there is no certificate.
        steps: The number of steps of the trial.
        seconds: Wall time from the start of the search until the result of the trial was used.
    """

    heads: int
    key_width: int
    key_heads: int
    seed: int
    start: Start
    certified: bool
    wrong: int
    normalised_margin: float
    steps: int
    seconds: float

    @property
    def key_budget(self) -> int:
        """D_K = key_heads · key_width."""
        return self.key_heads * self.key_width

    @property
    def both_budgets(self) -> int:
        """D_Q + D_K: the number of weights divided by d_model."""
        return (self.heads + self.key_heads) * self.key_width


@dataclass(frozen=True, eq=False, repr=False)
class FitSearchResult(Shown):
    """The result of a search.

    Attributes:
        layer: The best layer that certified, or None.
        certificate: Its certificate, or None.
        best: The trial that the layer comes from, or None.
        trials: Every trial, in the order in which they were chosen.
        seconds: The duration of the search.
    """

    layer: Layer | None
    certificate: Certificate | None
    best: ShapeTrial | None
    trials: tuple[ShapeTrial, ...]
    seconds: float

    def summary(self) -> Summary:
        """The number of trials, and the certificate of the best layer."""
        told = None if self.certificate is None else self.certificate.summary()
        rows = [("verdict", "nothing certified")] if told is None else [("verdict", told.title), *told.rows]
        trial = self.best
        best = "no layer" if trial is None else in_heads(trial.heads, trial.key_width, trial.key_heads)
        return summary(f"search: {best} after {counted(len(self.trials), 'trial')} in {self.seconds:.1f} s", rows)

    def to_frame(self) -> Any:
        """The trials as a pandas data frame.

        Raises:
            InputError: pandas is not installed.
        """
        return data_frame(asdict(trial) | {"key_budget": trial.key_budget} for trial in self.trials)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options that `fit`, `grow`, `smallest` and `best_split` share.

    Attributes:
        seed: Decides the random starts. The same seed gives the same layer, unless a time limit ends the fit.
        restarts: The most attempts of `fit` and `grow`, at least 1. A search tries until its time is up.
        trials: The most trials of a search, at least 1. It then ends at the same trial with all workers and on all
            machines, unless a time limit ends it before.
        time_limit: Seconds, above 0. Without one, `fit` and `grow` end by themselves; a search ends after `trials`, or
            after 60 seconds.
        rule: How the layer joins its heads: MAX or SOFTMAX. `grow` keeps the rule of its layer.
        context_length: For SOFTMAX: the number of items in a context, or the least and the greatest number.
        precision: The fit goes on until the certificate holds where PyTorch computes in this number type. "float64"
            asks only for a certificate.
        latent: The keys of all heads are made from a latent of this width, and the layer is the absorbed form
            (`layer.LatentKeys`): one key head of this width, queries of rank at most the key width. Only for `fit`.
        map: A linear map of the embedding that is folded into the weights (`folding.linear_map`); "auto": the map that
            suits the embedding (`folding.suitable_map`).
        descent: The constants of an attempt; by default `suitable_descent`.
        workers: A number of threads. A fit of one shape shares each step among them (by default 2 from 1,024 items on,
            else 1); a search tries as many shapes at once (by default the number of cores). A search also takes
            `threads(n)`, `processes(n)` or `dask(address)` of `manyheads.sweep`, or any executor.
        engine: "native", the C++ kernels, or "torch", the same steps by PyTorch (needs the torch extra).
        device: Where the engine "torch" computes, as PyTorch names it.
        progress: Called at every survey of all pairs; not by the trials of a search that run in other processes. An
            exception in it ends the fit and is raised to the caller.
        report: Called by a search for every trial, in the order of the trials.

    Raises:
        InputError: A number is out of its range, the rule is neither MAX nor SOFTMAX, the precision or the engine is
            unknown, or the native engine is asked for another device than the CPU.
    """

    seed: int = 2
    restarts: int = RESTARTS
    trials: int | None = None
    time_limit: float | None = None
    rule: Rule = MAX
    context_length: ContextLength = None
    precision: Precision = "float64"
    latent: int | None = None
    map: Map | Literal["auto"] = "auto"
    descent: Descent | None = None
    workers: Workers | Executor | int | None = None
    engine: FitEngine = "native"
    device: str = "cpu"
    progress: Callable[[FitProgress], None] | None = None
    report: Callable[[ShapeTrial], None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", rule_named(self.rule))
        if self.rule not in FIT_RULES:
            raise InputError(f"fit makes layers of the rule max or softmax, not '{self.rule}'")
        if self.precision not in PRECISIONS:
            raise InputError(f"unknown precision '{self.precision}': choose from {', '.join(PRECISIONS)}")
        if self.engine not in get_args(FitEngine):
            raise InputError(f"unknown engine '{self.engine}': choose from {', '.join(get_args(FitEngine))}")
        if self.engine == "native" and self.device != "cpu":
            raise InputError(f"the native engine runs on the cpu, not on '{self.device}': choose the engine torch")
        normalise_numbers(self)
        if self.workers is not None and not isinstance(self.workers, Workers | Executor):
            object.__setattr__(self, "workers", int(check_number("workers", self.workers)))

    def threads(self, items: int) -> int:
        """The number of threads that share each step of a fit of one shape.

        Args:
            items: m.

        Returns:
            The number of threads, at least 1.

        Raises:
            InputError: The workers are an executor.
        """
        if isinstance(self.workers, Workers | Executor):
            raise InputError("a fit of one shape runs in threads of this process: give a number of workers")
        return self.workers or (THREADS if items >= THREADED_ITEMS else 1)

    def provenance(self) -> dict[str, str | int]:
        """The origin of a layer of these options, for its record."""
        told: dict[str, str | int] = {"construction": "fit", "seed": self.seed, "rule": str(self.rule), "map": self.map}
        if self.engine != "native":
            told["engine"] = self.engine
        return told if self.latent is None else told | {"latent": self.latent}


DEFAULT_OPTIONS = FitOptions()
