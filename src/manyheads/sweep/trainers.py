"""Trainers: each trains runs of one kind. A sweep itself knows only the id and the fields of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float
from numpy import ndarray

from manyheads.block.block_data import table_refusal
from manyheads.block.block_run import BlockRun
from manyheads.block.block_training import train_blocks
from manyheads.errors import InputError
from manyheads.retrieval.retrieval_examples import RetrievalExamples, examples_refusal
from manyheads.retrieval.retrieval_run import RetrievalOutcome, RetrievalRun
from manyheads.retrieval.retrieval_training import train_retrievals
from manyheads.sweep.store.record import Record
from manyheads.training.engines import kernel_refusal, train
from manyheads.training.run import Run


@runtime_checkable
class Trainer(Protocol):
    """Trains runs of one kind. It is frozen and picklable: it is sent to processes and clusters with the runs."""

    @property
    def kind(self) -> str:
        """The kind of run, a word for the store."""

    @property
    def engine(self) -> str:
        """The engine; the same run on another engine is another record."""

    def refusal(self, run: Any) -> str | None:
        """The reason why a run is impossible; the sweep asks before it starts.

        Args:
            run: The run.

        Returns:
            The reason in one sentence; None if the run is possible.
        """

    def train(self, run: Any, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Train one run.

        Args:
            run: The run.
            time_limit: The longest time in seconds; None: no limit.
            keep_going: Called now and then; if it returns False, training stops.

        Returns:
            The record of the run.
        """


@runtime_checkable
class GroupTrainer(Trainer, Protocol):
    """A trainer that takes several runs in one call, because that is faster; no run changes another's result."""

    def fits(self, runs: Sequence[Any], run: Any) -> bool:
        """Whether one more run may be trained in one call with these runs.

        Args:
            runs: The runs of a call, at least one.
            run: One more run.

        Returns:
            True if all can be trained in one call.
        """

    def train_group(
        self, runs: Sequence[Any], *, time_limit: float | None, keep_going: Callable[[], bool]
    ) -> list[Record]:
        """Train several runs in one call.

        Args:
            runs: Runs that fit together.
            time_limit: The longest time in seconds; None: no limit.
            keep_going: Called now and then; if it returns False, training stops.

        Returns:
            A record for each run, in the order of the runs.
        """


@dataclass(frozen=True)
class LayerTrainer:
    """Trains runs of one attention layer.

    Attributes:
        engine: "native", the fused kernel, or "reference", plain PyTorch.
    """

    engine: Literal["native", "reference"] = "native"

    @property
    def kind(self) -> str:
        """One attention layer."""
        return "layer"

    def refusal(self, run: Run) -> str | None:
        """The reference engine needs torch, and the native engine trains its own rules only."""
        if self.engine == "reference" and find_spec("torch") is None:
            return "the engine reference needs torch: pip install 'manyheads[torch]'"
        return kernel_refusal(run) if self.engine == "native" else None

    def train(self, run: Run, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Train one run."""
        outcome = train(run, engine=self.engine, time_limit=time_limit, progress=lambda _, __: keep_going())
        return Record.of(
            run,
            self.kind,
            self.engine,
            status=outcome.stopped,
            scores=outcome.scores,
            steps=outcome.steps,
            seconds=outcome.seconds,
            curve=[astuple(check) for check in outcome.curve],
        )


@dataclass(frozen=True, eq=False)
class BlockTrainer:
    """Trains Transformer blocks.

    Attributes:
        table: The embedding of runs that name one by its fingerprint.
        device: Where torch computes.
        threads: Threads of a run on the CPU; a sweep fills the cores with runs.
    """

    table: Float[ndarray, "rows d_model"] | None = None
    device: str = "cpu"
    threads: int = 1

    @property
    def kind(self) -> str:
        """A whole block."""
        return "block"

    @property
    def engine(self) -> str:
        """The folded block with its device: another kind of device rounds differently."""
        return _folded(self.device)

    def refusal(self, run: BlockRun) -> str | None:
        """Torch and its device must be present, and the table must be the one that the run names."""
        if find_spec("torch") is None:
            return "a block needs torch: pip install 'manyheads[torch]'"
        return _device_refusal(self.device) or table_refusal(run, self.table)

    def train(self, run: BlockRun, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Train one run."""
        _set_threads(self.threads)
        (outcome,) = train_blocks(
            [run], table=self.table, device=self.device, time_limit=time_limit, keep_going=keep_going
        )
        test, best = outcome.test, outcome.best
        return Record.of(
            run,
            self.kind,
            self.engine,
            status=outcome.stopped,
            scores={
                "accuracy": test.accuracy if test else None,
                "null_rate": test.null_rate if test else None,
                "best_validation": best.accuracy if best else None,
                "best_step": best.step if best else None,
            },
            steps=outcome.steps,
            seconds=outcome.seconds,
            curve=[astuple(check) for check in outcome.curve],
        )


@dataclass(frozen=True, eq=False)
class RetrievalTrainer:
    """Trains networks on retrieval tasks, several in one call.

    Attributes:
        examples: The examples of runs that name some by their fingerprint.
        device: Where torch computes.
        threads: Threads of a group of runs on the CPU; a sweep fills the cores with groups.
        tokens: The most tokens of a batch over all runs of a group: a longer batch leaves the cache.
    """

    examples: RetrievalExamples | None = None
    device: str = "cpu"
    threads: int = 1
    tokens: int = 32_768

    @property
    def kind(self) -> str:
        """A network on a retrieval task."""
        return "retrieval"

    @property
    def engine(self) -> str:
        """The folded network with its device: another kind of device rounds differently."""
        return _folded(self.device)

    def refusal(self, run: RetrievalRun) -> str | None:
        """Torch, its device and scikit-learn must be present, and the examples must be those that the run names."""
        if find_spec("torch") is None:
            return "a retrieval network needs torch: pip install 'manyheads[torch]'"
        if run.task == "digits" and find_spec("sklearn") is None:
            return "the digits are scikit-learn's: pip install 'manyheads[digits]'"
        return _device_refusal(self.device) or examples_refusal(run, self.examples)

    def fits(self, runs: Sequence[RetrievalRun], run: RetrievalRun) -> bool:
        """Whether one more run may be trained in one call with these.

        The heads of a run are padded to the width of the widest run. Padding costs nothing in a folded layer, the
        last one. It costs time in any other layer: deeper networks are grouped only if their heads are the same.
        """
        alike = run.layers == 1 or (run.heads, run.width) == (runs[0].heads, runs[0].width)
        small = (len(runs) + 1) * run.length * run.batch <= self.tokens
        return run.shared_fields == runs[0].shared_fields and alike and small

    def train(self, run: RetrievalRun, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Train one run."""
        return self.train_group([run], time_limit=time_limit, keep_going=keep_going)[0]

    def train_group(
        self, runs: Sequence[RetrievalRun], *, time_limit: float | None, keep_going: Callable[[], bool]
    ) -> list[Record]:
        """Train runs that fit."""
        _set_threads(self.threads)
        outcomes = train_retrievals(
            runs, examples=self.examples, device=self.device, time_limit=time_limit, keep_going=keep_going
        )
        return [self._record(run, outcome) for run, outcome in zip(runs, outcomes, strict=True)]

    def _record(self, run: RetrievalRun, outcome: RetrievalOutcome) -> Record:
        return Record.of(
            run,
            self.kind,
            self.engine,
            status=outcome.stopped,
            scores={"nmse": outcome.nmse, "training_nmse": outcome.training_nmse},
            steps=outcome.steps,
            seconds=outcome.seconds,
            curve=[astuple(check) for check in outcome.curve],
        )


def _folded(device: str) -> str:
    return f"folded-{device.partition(':')[0]}"


def _device_refusal(device: str) -> str | None:
    from manyheads.training.batched_runs import device_named

    try:
        device_named(device)
    except InputError as error:
        return str(error)
    return None


def _set_threads(threads: int) -> None:
    """The number is not reset: that would change the threads, and so the rounding, of other runs in progress."""
    import torch

    torch.set_num_threads(threads)
