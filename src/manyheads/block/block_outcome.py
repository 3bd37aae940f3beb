"""BlockOutcome: what came of a block's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float32
from numpy import ndarray

from manyheads.block.block_run import BlockRun
from manyheads.training.course import Stopped


@dataclass(frozen=True)
class BlockCheck:
    """One validation check: the accuracy, and the mean training loss since the last."""

    step: int
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Answers:
    """How a block answers a set of examples."""

    right: int
    null: int  # NULL, which is never right
    total: int

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.right / self.total

    @property
    def null_rate(self) -> float:
        """The share of answers NULL: near 1 where a block has collapsed to that baseline."""
        return self.null / self.total


@dataclass(frozen=True, eq=False)
class BlockOutcome:
    """A run's test accuracy where its validation accuracy was best, first of equals. What was not measured is None."""

    run: BlockRun
    stopped: Stopped
    steps: int
    best: BlockCheck | None
    test: Answers | None  # of the weights at the best check; None unless the run took all its steps
    weights: Mapping[str, Float32[ndarray, "*shape"]] | None  # those weights, by name
    curve: tuple[BlockCheck, ...]
    seconds: float  # of training, validation and test
