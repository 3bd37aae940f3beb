"""Outcome: the result of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jaxtyping import Float64
from numpy import dtype, isfinite, ndarray

from manyheads.certificate import certify
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem
from manyheads.tables import Shown, Summary, data_frame, in_heads, summary
from manyheads.training.run import Run

Stopped = Literal["converged", "limit", "diverged", "cancelled", "timeout"]


@dataclass(frozen=True)
class Check:
    """One validation check.

    Attributes:
        step: The number of training steps before the check.
        score: The micro-F1 on the validation contexts; for the value channel, the mean squared error.
        loss: The mean training loss since the previous check.
    """

    step: int
    score: float
    loss: float


OnCheck = Callable[[Run, Check], bool | None]
"""Called at every validation check. False cancels the run. An exception ends the run and is raised to the caller."""


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


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Shown):
    """A run's scores, curve and layer. A score that was not measured is None.

    Attributes:
        run: The run.
        stopped: "converged", "limit", "diverged", "cancelled" or "timeout".
        steps: Optimiser steps.
        micro_f1: F1 on the test set; None for the value channel, and unless the run ended by itself.
        mse: Mean squared error on the test set; for the value channel only.
        zero_mse: Mean squared error of the answer zero on the test set; for the value channel only.
        curve: The validation checks.
        exact_errors: Number of wrongly decided pairs among all m²; None if the rule decides no single pair.
        margin: The certificate's margin, negative if there are errors.
        layer: The trained layer; None if the run diverged.
        seconds: Wall time of training, validation and test.
        engine: The engine that trained it.
    """

    run: Run
    stopped: Stopped
    steps: int
    micro_f1: float | None
    mse: float | None
    zero_mse: float | None
    curve: tuple[Check, ...]
    exact_errors: int | None
    margin: float | None
    layer: Layer | None
    seconds: float
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

    def summary(self) -> Summary:
        """The shape, the end of the run and its scores; a score that was not measured has no row."""
        run, scores = self.run, {name: value for name, value in self.scores.items() if value is not None}
        rows: list[tuple[str, object]] = [
            ("task", f"{run.items} items, d_model {run.d_model}, rule {run.rule}, seed {run.seed}"),
            ("steps", f"{self.steps:,} in {self.seconds:.3g} s"),
            *((name, f"{value:.4g}") for name, value in scores.items()),
            ("run", run.id),
        ]
        return summary(f"training of {in_heads(run.heads, run.key_width, run.key_heads)}: {self.stopped}", rows)

    def to_frame(self) -> Any:
        """The validation checks as a pandas data frame with the columns step, score and loss.

        Raises:
            InputError: pandas is not installed.
        """
        return data_frame(asdict(check) for check in self.curve)

    @property
    def steps_per_second(self) -> float:
        """Training steps per second of wall time, evaluation included."""
        return self.steps / self.seconds


def finish(
    run: Run,
    problem: Problem,
    *,
    query: Float64[ndarray, "heads d_model key_width"],
    key: Float64[ndarray, "key_heads d_model key_width"],
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
