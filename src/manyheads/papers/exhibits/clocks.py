"""Clocks: the time of the query–key channel for every split of a key budget, and the time to build a construction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from manyheads.construct import compressive, split_sources
from manyheads.papers.trial import Scores, Trial
from manyheads.problem.embedding_kinds import gaussian
from manyheads.problem.graph_generators import permutation_graph
from manyheads.problem.problem import Problem
from manyheads.training import Run, Task
from manyheads.training.data import initial_weights, training_data
from manyheads.training.engines import native_kernel

if TYPE_CHECKING:
    import torch

Repeated = Callable[[int], object]  # does the same work the given number of times

SLICE = 0.02  # seconds between two readings of the clock


@dataclass(frozen=True)
class SplitClock(Trial):
    """The time of one context for every split of one key budget into heads, in microseconds on one core.

    The work "scores" is what App. C counts: the projections and every head's scores. "training" is a whole step: also
    the max over the heads, the loss and its gradients. The head counts take turns, so that a slow moment of the machine
    affects all of them, and the quickest round counts.
    """

    KIND: ClassVar[str] = "clock"
    EXCLUSIVE: ClassVar[bool] = True

    channel: Literal["torch", "kernel"]  # the implementation
    work: Literal["scores", "training"]
    d_model: int
    key_budget: int
    context: int
    splits: tuple[int, ...]  # head counts
    rounds: int

    def make(self) -> Scores:
        """One score for each head count; its name is the head count."""
        return quickest({str(heads): self._repeated(heads) for heads in self.splits}, rounds=self.rounds, unit=1e-6)

    def seconds(self, flops: float) -> float:
        """A slice for each head count and round, and two more to warm up."""
        return len(self.splits) * (self.rounds + 2) * SLICE

    @property
    def needs_torch(self) -> bool:
        """Whether torch is timed, not the kernel."""
        return self.channel == "torch"

    def refusal(self) -> str | None:
        """Torch may not be installed, and the kernel has no step that computes scores only."""
        if self.needs_torch and find_spec("torch") is None:
            return "torch is not installed: pip install 'manyheads[torch]'"
        if self.channel == "kernel" and self.work == "scores":
            return "the kernel is timed by whole training steps only"
        return None

    def run(self, heads: int) -> Run:
        """The run of the paper's protocol with this split."""
        items = max(512, 2 * self.context)
        task = Task(f"permutation:{items}", f"gaussian:{self.d_model}", context=self.context)
        return Run(task, heads=heads, key_width=self.key_budget // heads, seed=0)

    def _repeated(self, heads: int) -> Repeated:
        if self.channel == "torch":
            return _torch_scores(self.run(heads)) if self.work == "scores" else _torch_step(self.run(heads))
        return native_kernel(self.run(heads), training_data(self.run(heads))).advance


@dataclass(frozen=True)
class BuildClock(Trial):
    """The time to build construction II with blocks of d_model and d_k = ⌈C·ln m⌉, in seconds."""

    KIND: ClassVar[str] = "clock"
    EXCLUSIVE: ClassVar[bool] = True

    items: int
    d_model: int
    constant: float
    rounds: int

    @property
    def key_width(self) -> int:
        """d_k = ⌈C·ln m⌉."""
        return int(np.ceil(self.constant * np.log(self.items)))

    def make(self) -> Scores:
        """The quickest round, and the number of multiply-adds of its matrix products."""
        graph, embedding = permutation_graph(self.items, seed=0), gaussian(self.items, self.d_model, seed=0)

        def build(times: int) -> None:
            for _ in range(times):
                compressive(Problem(graph, embedding), key_width=self.key_width, seed=0)

        blocks = split_sources(graph, size=self.d_model)
        # the rows of each block times their signatures, once for the queries and once for the keys
        counted = sum(2 * len(sources) * self.d_model * self.key_width for sources, _ in blocks)
        return {
            **quickest({"build_seconds": build}, rounds=self.rounds),
            "multiply_adds": counted,
            "heads": len(blocks),
        }

    def seconds(self, flops: float) -> float:
        """Rounds of at least a slice; writing the weights takes about as long as computing them."""
        once = 2 * 2 * 2 * self.items * self.d_model * self.key_width / flops
        return (self.rounds + 2) * max(SLICE, once)


def quickest(works: Mapping[str, Repeated], *, rounds: int, unit: float = 1.0) -> dict[str, float]:
    """The least time of each work, over rounds in which the works take turns.

    Args:
        works: by name.
        rounds: how often each work is timed.
        unit: of the result, in seconds.
    """
    times = {name: _times(work) for name, work in works.items()}
    best = dict.fromkeys(works, np.inf)
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], _timed(work, times[name]) / times[name] / unit)
    return best


def _times(work: Repeated) -> int:
    """The number of repetitions that fill a slice; the first repetition is slow and does not count."""
    work(1)
    times = 1
    while (taken := _timed(work, times)) < SLICE / 2:
        times = max(2 * times, min(32 * times, round(times * SLICE / max(taken, 1e-9))))
    return times


def _timed(work: Repeated, times: int) -> float:
    begun = time.perf_counter()
    work(times)
    return time.perf_counter() - begun


def _torch_scores(run: Run) -> Repeated:
    """The channel of App. C: two projections with the weights of all heads, then a product for each head."""
    import torch

    rows, query, key = _tensors(run)

    @torch.no_grad()
    def repeated(times: int) -> None:
        for _ in range(times):
            _channel(rows, query, key, run.heads)

    return _on_one_thread(repeated)


def _torch_step(run: Run) -> Repeated:
    """The channel, the max over the heads, a loss and its gradients."""
    rows, query, key = _tensors(run)
    query.requires_grad_()
    key.requires_grad_()

    def repeated(times: int) -> None:
        for _ in range(times):
            query.grad = key.grad = None
            joined = _channel(rows, query, key, run.heads).max(dim=0).values
            joined.sigmoid().square().sum().backward()

    return _on_one_thread(repeated)


def _tensors(run: Run) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The rows of one context, and the weights of all heads in one matrix each."""
    import torch

    rows = gaussian(run.items, run.d_model, seed=0)[: run.task.context]
    weights = (np.concatenate(list(heads), axis=1).astype(np.float32) for heads in initial_weights(run))
    query, key = (torch.from_numpy(side) for side in weights)
    return torch.from_numpy(rows), query, key


def _channel(rows: torch.Tensor, query: torch.Tensor, key: torch.Tensor, heads: int) -> torch.Tensor:
    """Every head's scores, (heads, context, context)."""
    queries, keys = ((rows @ side).view(len(rows), heads, -1).transpose(0, 1) for side in (query, key))
    return queries @ keys.transpose(1, 2)


def _on_one_thread(work: Repeated) -> Repeated:
    """The kernel uses one core, so torch is limited to one thread too."""
    import torch

    def repeated(times: int) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            work(times)
        finally:
            torch.set_num_threads(before)

    return repeated
