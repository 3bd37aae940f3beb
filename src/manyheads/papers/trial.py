"""Trial: a run that trains nothing but builds, searches or times a layer; and the trainer of every kind of run."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from typing import ClassVar, Literal

from manyheads.block.block_run import BlockRun
from manyheads.identity import IdentifiedRun
from manyheads.problem.embedding_kinds import one_hot
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.sweep import BlockTrainer, LayerTrainer, Record, RetrievalTrainer, Trainer
from manyheads.sweep.store.record import Storable
from manyheads.training import Run, Task

Scores = Mapping[str, float | int | None]
LAYERS, RETRIEVALS = LayerTrainer(), RetrievalTrainer()
BlockTrainers = Mapping[str, BlockTrainer]  # by the name of the embedding in the run
Work = Literal["layer", "block", "retrieval", "trial"]  # the kinds of runs
TORCH_WORK: frozenset[Work] = frozenset({"block", "retrieval"})  # the kinds that torch trains


@dataclass(frozen=True)
class Trial(IdentifiedRun):
    """A run that is no training: a frozen dataclass that `make` turns into scores, stored like every other run."""

    KIND: ClassVar[str]  # a word for the store
    PROTOCOL: ClassVar[int] = 1  # increased whenever the same fields describe another measurement
    EXCLUSIVE: ClassVar[bool] = False  # whether nothing else may run at the same time: true for a clock

    @property
    def fields(self) -> dict[str, object]:
        """Every field, the kind of the trial and the version of its protocol."""
        return asdict(self) | {"kind": self.KIND, "protocol": self.PROTOCOL}

    @abstractmethod
    def make(self) -> Scores:
        """Do the work and return its scores by name."""

    @abstractmethod
    def seconds(self, flops: float) -> float:
        """An estimate of the time that it takes, in seconds.

        Args:
            flops: operations a second that numpy reaches in a matrix product.
        """

    def refusal(self) -> str | None:
        """Why this machine cannot make the trial; None if it can."""
        return None

    @property
    def needs_torch(self) -> bool:
        """Whether torch does the work."""
        return False


@dataclass(frozen=True)
class TrialTrainer:
    """The trainer of trials of one kind."""

    kind: str
    engine: str = "python"

    def refusal(self, run: Trial) -> str | None:
        """Why this machine cannot make the trial; None if it can."""
        return run.refusal()

    def train(self, run: Trial, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Make the trial. It takes seconds, so it has no time limit and cannot be interrupted."""
        begun = time.perf_counter()
        scores = run.make()
        seconds = time.perf_counter() - begun
        return Record.of(run, self.kind, self.engine, status="converged", scores=scores, steps=0, seconds=seconds)


def trainer_of(run: Storable, blocks: BlockTrainers) -> Trainer:
    """The trainer of a run.

    Args:
        run: of any kind.
        blocks: the trainers of blocks, by embedding.

    Raises:
        KeyError: no trainer for the embedding of a block.
    """
    if isinstance(run, Trial):
        return TrialTrainer(run.KIND)
    if isinstance(run, RetrievalRun):
        return RETRIEVALS
    if isinstance(run, BlockRun):
        return blocks[run.embedding]
    assert isinstance(run, Run)
    return LAYERS


def lacks_torch(run: Storable) -> bool:
    """Whether the run needs torch and torch is not installed."""
    needs = run.needs_torch if isinstance(run, Trial) else isinstance(run, (BlockRun, RetrievalRun))
    return needs and find_spec("torch") is None


def is_possible(run: Storable, blocks: BlockTrainers) -> bool:
    """Whether this machine can make the run. A run that it cannot make stays missing."""
    if isinstance(run, RetrievalRun):
        return RETRIEVALS.refusal(run) is None
    if isinstance(run, BlockRun):
        return run.embedding in blocks
    return not isinstance(run, Trial) or run.refusal() is None


def in_turns(runs: Sequence[Storable], blocks: BlockTrainers) -> list[tuple[Trainer, bool, list[Storable]]]:
    """The runs grouped by trainer: (trainer, whether they run one at a time, runs).

    Groups that run one at a time come first: clocks, and blocks on a GPU.
    """
    grouped: dict[tuple[Trainer, bool], list[Storable]] = {}
    for run in runs:
        trainer = trainer_of(run, blocks)
        exclusive = (
            trainer.device != "cpu" if isinstance(trainer, BlockTrainer) else isinstance(run, Trial) and run.EXCLUSIVE
        )
        grouped.setdefault((trainer, exclusive), []).append(run)
    return sorted(
        ((trainer, exclusive, group) for (trainer, exclusive), group in grouped.items()), key=lambda turn: not turn[1]
    )


@cache
def one_hot_task(items: int) -> Task:
    """Permutations of one-hot items, given as an array: the committed rows have its fingerprint in their runs."""
    return Task(f"permutation:{items}", one_hot(items))
