"""RetrievalTrainer: networks on retrieval tasks through the same sweep and store as every other run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from importlib.util import find_spec

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_examples import RetrievalExamples, examples_refusal
from manyheads.retrieval.retrieval_run import RetrievalOutcome, RetrievalRun
from manyheads.retrieval.retrieval_training import train_retrievals
from manyheads.sweep.store.record import Ended


@dataclass(frozen=True, eq=False)
class RetrievalTrainer:
    """Trains `retrieval.RetrievalRun`s, those that fit together in one call; examples are for runs that name them."""

    examples: RetrievalExamples | None = None
    device: str = "cpu"
    threads: int = 1  # of a batch on the CPU: a sweep fills the cores with batches
    tokens: int = 32_768  # of a batch, over all runs in one call: what is longer leaves the cache

    @property
    def kind(self) -> str:
        """A network on a retrieval task."""
        return "retrieval"

    @property
    def engine(self) -> str:
        """The folded network; another kind of device rounds otherwise."""
        return f"folded-{self.device.partition(':')[0]}"

    def refusal(self, run: RetrievalRun) -> str | None:
        """Torch, its device and what the task needs must be here, and the examples those that the run names."""
        if find_spec("torch") is None:
            return "a retrieval network needs torch: install manyheads[torch]"
        if run.task == "digits" and find_spec("sklearn") is None:
            return "the digits are scikit-learn's: install manyheads[digits]"
        from manyheads.training.devices import device_named

        try:
            device_named(self.device)
        except InputError as error:
            return str(error)
        return examples_refusal(run, self.examples)

    def fits(self, runs: Sequence[RetrievalRun], run: RetrievalRun) -> bool:
        """Whether one more run may be trained in one call with these.

        Beside wider heads a run is filled up to their width. That costs nothing in a folded layer, the last; in any
        other it does, so that deeper networks go together only where their heads are the same.
        """
        alike = run.layers == 1 or (run.heads, run.width) == (runs[0].heads, runs[0].width)
        small = (len(runs) + 1) * run.length * run.batch <= self.tokens
        return run.shared_fields == runs[0].shared_fields and alike and small

    def train(self, run: RetrievalRun, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Train one run."""
        return self.train_together([run], time_limit=time_limit, keep_going=keep_going)[0]

    def train_together(
        self, runs: Sequence[RetrievalRun], *, time_limit: float | None, keep_going: Callable[[], bool]
    ) -> list[Ended]:
        """Train runs that fit."""
        import torch

        # not set back afterwards: runs beside these would change their threads, and with them their rounding
        torch.set_num_threads(self.threads)
        outcomes = train_retrievals(
            runs, examples=self.examples, device=self.device, time_limit=time_limit, keep_going=keep_going
        )
        return [_ended(outcome) for outcome in outcomes]


def _ended(outcome: RetrievalOutcome) -> Ended:
    scores = {"nmse": outcome.nmse, "training_nmse": outcome.training_nmse}
    curve = [astuple(check) for check in outcome.curve]
    return Ended(outcome.stopped, scores, outcome.steps, outcome.seconds, curve)
