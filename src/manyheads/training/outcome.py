"""Outcome: the result of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float64
from numpy import dtype, isfinite, ndarray

from manyheads.certificate import certify
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem
from manyheads.training.run import Run

Stopped = Literal["converged", "limit", "diverged", "cancelled", "timeout"]


@dataclass(frozen=True)
class Check:
    """One validation check: micro-F1 (value channel: mean squared error) and the mean training loss since the last."""

    step: int
    score: float
    loss: float


OnCheck = Callable[[Run, Check], bool | None]
"""Called at every validation check; False cancels the run, an exception ends it and passes through."""


@dataclass(frozen=True)
class Tally:
    """The counts of an evaluation: ordered pairs of positions, or squared distances at the valid positions."""

    hits: int
    false_alarms: int
    misses: int
    distance: float
    distance_of_zero: float
    positions: int

    @property
    def micro_f1(self) -> float:
        """2·hits / (2·hits + false alarms + misses); 0 without hits."""
        return 2 * self.hits / (2 * self.hits + self.false_alarms + self.misses) if self.hits else 0.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """A run's scores, curve and layer. A score that was not measured is None."""

    run: Run
    stopped: Stopped
    steps: int
    micro_f1: float | None  # on the test set; None with a value channel, and unless the run ended by itself
    mse: float | None  # on the test set, with a value channel only
    zero_mse: float | None  # the squared error of predicting zero on the test set
    curve: tuple[Check, ...]
    exact_errors: int | None  # wrongly decided pairs among all m²; None if the rule decides no single pair
    margin: float | None  # the certificate's, negative where there are errors
    layer: Layer | None  # None if the run diverged
    seconds: float  # of training, validation and test
    engine: str

    @property
    def scores(self) -> dict[str, float | int | None]:
        """The scores by the names that the store has."""
        return {
            "micro_f1": self.micro_f1,
            "mse": self.mse,
            "zero_mse": self.zero_mse,
            "exact_errors": self.exact_errors,
            "margin": self.margin,
        }

    @property
    def steps_per_second(self) -> float:
        """Training steps per second of wall time, evaluation included."""
        return self.steps / self.seconds


def finish(
    run: Run,
    problem: Problem,
    *,
    query: Float64[ndarray, "heads d_model key_width"],
    key: Float64[ndarray, "heads d_model key_width"],
    threshold: float,
    stopped: Stopped,
    steps: int,
    curve: tuple[Check, ...],
    test: Tally | None,
    seconds: float,
    engine: str,
) -> Outcome:
    """Certify the trained weights and make the outcome; `test` is None unless the run reached its end."""
    precise = dtype(run.protocol.precision)
    sound = bool(isfinite(query).all() and isfinite(key).all() and isfinite(threshold)) and stopped != "diverged"
    layer = Layer(query.astype(precise), key.astype(precise), threshold, run.rule) if sound else None
    pairwise = run.rule.context_blind and run.rule.has_rounding_bound and run.task.objective == "edges"
    certificate = certify(layer, problem) if layer is not None and pairwise else None
    edges = test is not None and run.task.objective == "edges"
    values = test if run.task.objective == "values" and test is not None and test.positions else None
    return Outcome(
        run=run,
        stopped=stopped,
        steps=steps,
        micro_f1=test.micro_f1 if test is not None and edges else None,
        mse=values.distance / values.positions if values else None,
        zero_mse=values.distance_of_zero / values.positions if values else None,
        curve=curve,
        exact_errors=certificate.missed + certificate.false_pairs if certificate else None,
        margin=certificate.margin if certificate else None,
        layer=layer,
        seconds=seconds,
        engine=engine,
    )
