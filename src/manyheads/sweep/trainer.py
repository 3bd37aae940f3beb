"""Trainer: how runs of one kind are trained. A sweep knows no more of its runs than their id and meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float
from numpy import ndarray

from manyheads.problem.graph import Graph
from manyheads.sweep.store.record import Ended
from manyheads.training import Run, fingerprint, train
from manyheads.training.native import kernel_refusal
from manyheads.training.run import GIVEN


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


@dataclass(frozen=True, eq=False)
class LayerTrainer:
    """Trains `training.Run`s; graph and embedding are for runs that name a given one by its fingerprint."""

    engine: Literal["native", "reference"] = "native"
    graph: Graph | None = None
    embedding: Float[ndarray, "items d_model"] | None = None

    @property
    def kind(self) -> str:
        """One attention layer."""
        return "layer"

    def refusal(self, run: Run) -> str | None:
        """A given graph or embedding must be the one the run names, and the reference engine needs torch."""
        if self.engine == "reference" and find_spec("torch") is None:
            return "the engine reference needs torch: install manyheads[torch]"
        if self.engine == "native" and (refusal := kernel_refusal(run)) is not None:
            return refusal
        for what, wanted, here in (
            ("graph", run.graph, self._graph_name),
            ("embedding", run.embedding, self._embedding_name),
        ):
            if here != (wanted if wanted.startswith(GIVEN) else None):
                return f"it trains on the {what} {wanted}, and handed in is {here or 'none'}"
        if self.graph is not None and self.graph.items != run.items:
            return f"the graph has {self.graph.items} items, the run {run.items}"
        if self.embedding is not None and self.embedding.shape != (run.items, run.d_model):
            return f"the embedding has the shape {self.embedding.shape}, the run needs ({run.items}, {run.d_model})"
        return None

    def train(self, run: Run, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Ended:
        """Train one run."""
        outcome = train(
            run,
            graph=self.graph,
            embedding=self.embedding,
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

    @cached_property
    def _graph_name(self) -> str | None:
        return None if self.graph is None else fingerprint(self.graph)

    @cached_property
    def _embedding_name(self) -> str | None:
        return None if self.embedding is None else fingerprint(self.embedding)
