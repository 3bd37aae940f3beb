"""Trial: a run that trains no layer but builds, searches or times one; stored and looked up as every other run is."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import ClassVar

from manyheads.block.block_run import BlockRun
from manyheads.errors import InputError
from manyheads.identity import Identified
from manyheads.problem.embedding_generators import one_hot
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.sweep import BlockTrainer, Ended, LayerTrainer, RetrievalTrainer, Trainer
from manyheads.sweep.store.record import Storable
from manyheads.training import Run, Task

Scores = Mapping[str, float | int | None]
LAYERS, RETRIEVALS = LayerTrainer(), RetrievalTrainer()
Blocks = Mapping[str, BlockTrainer]  # who trains blocks on an embedding, by how runs name it


@dataclass(frozen=True)
class Trial(Identified):
    """A frozen dataclass whose fields decide the trial, and which knows how it is made."""

    KIND: ClassVar[str]  # a word for the store
    PROTOCOL: ClassVar[int] = 1  # raised whenever the same fields come to mean another measurement
    ALONE: ClassVar[bool] = False  # whether nothing else may run meanwhile, as a clock needs it

    @property
    def fields(self) -> dict[str, object]:
        """Every field, and what kind of trial it is."""
        return asdict(self) | {"kind": self.KIND, "protocol": self.PROTOCOL}

    @abstractmethod
    def make(self) -> Scores:
        """What came of it."""

    @abstractmethod
    def seconds(self, flops: float) -> float:
        """About how long it takes where numpy multiplies matrices at so many operations a second."""

    def refusal(self) -> str | None:
        """Why this machine cannot make it; None where it can."""
        return None


@dataclass(frozen=True)
class Maker:
    """The trainer of trials of one kind."""

    kind: str
    engine: str = "python"

    def refusal(self, run: Trial) -> str | None:
        """Why this machine cannot make it."""
        return run.refusal()

    def train(self, run: Trial, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Make the trial; it ends by itself, in seconds, so that it is neither limited nor interrupted."""
        begun = time.perf_counter()
        scores = run.make()
        return Ended("converged", scores, steps=0, seconds=time.perf_counter() - begun, curve=())


def trainer_of(run: Storable, blocks: Blocks) -> Trainer:
    """Who makes a run of the paper."""
    if isinstance(run, Trial):
        return Maker(run.KIND)
    if isinstance(run, RetrievalRun):
        return RETRIEVALS
    if isinstance(run, BlockRun):
        return blocks[run.embedding]
    assert isinstance(run, Run)
    return LAYERS


def is_possible(run: Storable, blocks: Blocks) -> bool:
    """Whether this machine can make the run; what it cannot make stays missing, and is counted as such."""
    if isinstance(run, RetrievalRun):
        return RETRIEVALS.refusal(run) is None
    if isinstance(run, BlockRun):
        return run.embedding in blocks
    return not isinstance(run, Trial) or run.refusal() is None


def in_turns(runs: Sequence[Storable], blocks: Blocks) -> list[tuple[Trainer, bool, list[Storable]]]:
    """The runs by who makes them, and whether one at a time; those that want the machine to themselves come first."""
    grouped: dict[tuple[Trainer, bool], list[Storable]] = {}
    for run in runs:
        trainer = trainer_of(run, blocks)
        alone = trainer.device != "cpu" if isinstance(trainer, BlockTrainer) else isinstance(run, Trial) and run.ALONE
        grouped.setdefault((trainer, alone), []).append(run)
    return sorted(
        ((trainer, alone, group) for (trainer, alone), group in grouped.items()), key=lambda turn: not turn[1]
    )


@cache
def one_hot_task(items: int) -> Task:
    """Permutations of one-hot items, given as an array: the rows made so far have its fingerprint in their runs."""
    return Task(f"permutation:{items}", one_hot(items))


def require(scores: Scores, name: str) -> float:
    """A score that a trial of this kind always has."""
    value = scores.get(name)
    if value is None:
        raise InputError(f"a row lacks the score '{name}'")
    return float(value)
