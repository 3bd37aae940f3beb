"""Trainer: how runs of one kind are trained. A sweep knows no more of its runs than their id and fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol, runtime_checkable

from manyheads.sweep.store.record import Ended
from manyheads.training import Run, train
from manyheads.training.engines import kernel_refusal


@runtime_checkable
class Trainer(Protocol):
    """Frozen and picklable, because it travels to processes and clusters with the runs."""

    @property
    def kind(self) -> str:
        """What is trained, a word for the store."""

    @property
    def engine(self) -> str:
        """What trains it; the same run on another engine is another result."""

    def refusal(self, run: Any) -> str | None:
        """Why this run is impossible, asked before anything starts; None where it is not."""

    def train(self, run: Any, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Train the run to its end, its time limit, or until it shall not keep going."""


@runtime_checkable
class GroupTrainer(Trainer, Protocol):
    """A trainer that takes several runs in one call, because that is faster; each comes out as if alone."""

    def fits(self, runs: Sequence[Any], run: Any) -> bool:
        """Whether one more run may be trained in one call with these."""

    def train_together(
        self, runs: Sequence[Any], *, time_limit: float | None, keep_going: Callable[[], bool]
    ) -> list[Ended]:
        """Train runs that fit, the outcomes in their order."""


@dataclass(frozen=True)
class LayerTrainer:
    """Trains runs of one attention layer."""

    engine: Literal["native", "reference"] = "native"

    @property
    def kind(self) -> str:
        """One attention layer."""
        return "layer"

    def refusal(self, run: Run) -> str | None:
        """The reference engine needs torch, and the native engine trains its own rules only."""
        if self.engine == "reference" and find_spec("torch") is None:
            return "the engine reference needs torch: install manyheads[torch]"
        return kernel_refusal(run) if self.engine == "native" else None

    def train(self, run: Run, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Train one run."""
        outcome = train(
            run,
            engine=self.engine,
            time_limit=time_limit,
            progress=lambda _, __: keep_going(),
        )
        scores = {
            "micro_f1": outcome.micro_f1,
            "mse": outcome.mse,
            "zero_mse": outcome.zero_mse,
            "exact_errors": outcome.exact_errors,
            "margin": outcome.margin,
        }
        curve = [astuple(check) for check in outcome.curve]
        return Ended(outcome.stopped, scores, outcome.steps, outcome.seconds, curve)
