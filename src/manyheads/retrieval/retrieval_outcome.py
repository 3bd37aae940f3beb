"""RetrievalOutcome: what came of a run on a retrieval task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float32
from numpy import ndarray

from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.training.course import Stopped


@dataclass(frozen=True)
class RetrievalCheck:
    """One look at the validation set: its NMSE, and the mean training loss since the last, in the same unit."""

    step: int
    nmse: float
    loss: float


@dataclass(frozen=True, eq=False)
class RetrievalOutcome:
    """NMSE = MSE/Var(y) after the last step. What was not measured is None."""

    run: RetrievalRun
    stopped: Stopped
    steps: int
    nmse: float | None  # on the validation set; None unless the run took all its steps
    training_nmse: float | None
    weights: Mapping[str, Float32[ndarray, "*shape"]] | None  # after the last step, for targets in standard units
    curve: tuple[RetrievalCheck, ...]
    seconds: float  # of the whole batch divided by its runs
