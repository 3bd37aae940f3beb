"""LayerBatch: runs of one shape in training, side by side, and their AdamW."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy import ndarray
from torch import Tensor

from manyheads.errors import InputError
from manyheads.training.batched_runs import device_named
from manyheads.training.data import Stream, TrainingData, initial_weights
from manyheads.training.outcome import Check, OnCheck, Outcome, Stopped, Tally, finish
from manyheads.training.protocol import Protocol
from manyheads.training.reference.losses import LearnedWeights, LossTerms
from manyheads.training.run import Run

NUMBERS_AT_ONCE = 1 << 24
"""The most numbers of an evaluation at a time; it limits the contexts of one call."""


class LayerBatch:
    """Runs of one shape from their first weights on, trained step by step. An inactive run does not change."""

    def __init__(self, runs: Sequence[Run], data: Sequence[TrainingData], *, device: str = "cpu") -> None:
        if len(runs) != len(data):
            raise InputError(f"{len(runs)} runs do not pair up with {len(data)} problems")
        if not runs or any(_shape(run) != _shape(runs[0]) for run in runs):
            raise InputError("runs trained in one batch may differ in their seeds, graphs and embeddings only")
        self.run, self.data, self.device = runs[0], data, device_named(device)
        self.dtype = getattr(torch, self.run.protocol.precision)
        messages = [one.messages for one in data if one.messages is not None]
        self.terms = LossTerms(
            rule=self.run.rule,
            sharpness=self.run.protocol.sharpness,
            positive_weight=self.run.fields["positive_weight"],
            embedding=self._tensor([one.rows for one in data], self.dtype),
            related=self._tensor([one.graph.adjacency() for one in data], torch.bool),
            messages=self._tensor(messages, self.dtype) if messages else None,
        )
        query, key = zip(*[initial_weights(run) for run in runs], strict=True)
        threshold = [np.array(run.protocol.initial_threshold) for run in runs]
        self.weights = LearnedWeights(*[self._tensor(parts, self.dtype) for parts in (query, key, threshold)])
        learned = self.weights[:2] if messages else self.weights  # the loss of messages has no threshold
        self.adamw = AdamW(self.run.protocol, [parameter.requires_grad_() for parameter in learned])
        self.active = torch.ones(len(runs), dtype=torch.bool, device=self.device)
        self.steps = torch.zeros(len(runs), dtype=torch.int64, device=self.device)
        self.step = 0

    def advance(self, count: int) -> Float64[ndarray, "count runs"]:
        """Take `count` steps and return their losses, NaN where a context has no valid position.

        A run whose loss is not finite becomes inactive, and its weights stay as they were.
        """
        contexts = self._contexts(Stream.TRAIN, self.step, count)
        losses = self.weights.threshold.new_empty((count, len(self.data)))
        for n in range(count):
            loss, teaches = self.terms.losses(self.weights, contexts[:, n])
            gradients = torch.autograd.grad(loss.sum(), self.adamw.parameters)
            self.steps += self.active
            self.active &= loss.isfinite()
            self.adamw.update(gradients, self.active & teaches)
            losses[n] = torch.where(teaches, loss.detach(), torch.nan)
        self.step += count
        return losses.cpu().numpy().astype(np.float64)

    def evaluate(self, stream: Stream, count: int) -> list[Tally]:
        """Each run's tally over the first contexts of a stream."""
        run = self.run
        numbers = (
            run.task.context * (run.task.context * run.heads + run.d_model + 2 * run.query_budget) * len(self.data)
        )
        at_once = max(1, NUMBERS_AT_ONCE // numbers)
        parts = [
            self.terms.tallies(self.weights, self._contexts(stream, start, min(at_once, count - start)))
            for start in range(0, count, at_once)
        ]
        return [Tally(*map(sum, zip(*map(astuple, own), strict=True))) for own in zip(*parts, strict=True)]

    def sound(self) -> Bool[ndarray, " runs"]:
        """Which runs are active with finite weights."""
        finite = [part.detach().reshape(len(part), -1).isfinite().all(dim=1) for part in self.weights]
        return torch.stack([self.active, *finite]).all(dim=0).cpu().numpy()

    def keep(self, going: Sequence[bool]) -> None:
        """Keep only these runs active."""
        self.active = torch.tensor(going, device=self.device)

    def _contexts(self, stream: Stream, start: int, count: int) -> Int[Tensor, "runs count context"]:
        return self._tensor([one.contexts(stream, start, count) for one in self.data], torch.int64)

    def _tensor(self, parts: Sequence[ndarray], dtype: torch.dtype) -> Tensor:
        return torch.tensor(np.stack(parts)).to(self.device, dtype)


def _shape(run: Run) -> dict[str, int | float | str]:
    """The fields that all runs of a batch have in common."""
    own = ("seed", "problem_seed", "graph", "embedding")
    return {name: value for name, value in run.fields.items() if name not in own}


@dataclass(eq=False)
class AdamW:
    """AdamW as torch.optim has it, but with a count of updates for each run: runs skip and stop on their own."""

    protocol: Protocol
    parameters: Sequence[Tensor]  # the first axis of each is the run

    def __post_init__(self) -> None:
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.updates = self.parameters[0].new_zeros(len(self.parameters[0]))

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], moving: Bool[Tensor, " runs"]) -> None:
        """One update of the runs that move; the others keep their weights and moments."""
        protocol = self.protocol
        self.updates += moving
        rates = protocol.learning_rate / _short_of_one(protocol.beta1, self.updates)
        roots = _short_of_one(protocol.beta2, self.updates).sqrt()
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            moves, rate, root = (each.view(-1, *[1] * (p.ndim - 1)) for each in (moving, rates, roots))
            m.copy_(torch.where(moves, protocol.beta1 * m + (1 - protocol.beta1) * g, m))
            v.copy_(torch.where(moves, protocol.beta2 * v + (1 - protocol.beta2) * g * g, v))
            decayed = p * (1 - protocol.learning_rate * protocol.weight_decay)
            p.copy_(torch.where(moves, decayed - rate * m / (v.sqrt() / root + protocol.epsilon), p))


def _short_of_one(beta: float, updates: Tensor) -> Tensor:
    """1 − β^t without the loss of digits that the difference has in float32 (not every device has float64)."""
    return -torch.expm1(updates * torch.tensor(beta, dtype=torch.float64).log().item())


STRIDE = 50  # steps between two readings of the clock


@dataclass
class LayerRunState:
    """The state of one run of a batch: its validation checks, and the reason why it stopped."""

    run: Run
    curve: list[Check] = field(default_factory=list)
    stopped: Stopped | None = None
    seconds: float = 0.0

    def check(self, step: int, tally: Tally, losses: Float64[ndarray, " steps"], progress: OnCheck | None) -> None:
        """Note a validation check, and stop as App. A.1 says (with messages, as Sec. 7.2 does)."""
        taught = losses[~np.isnan(losses)]
        loss = float(taught.mean()) if taught.size else math.nan
        mse = tally.distance / tally.positions if tally.positions else math.nan
        self.curve.append(Check(step, tally.micro_f1 if self.run.task.objective == "edges" else mse, loss))
        if progress is not None and progress(self.run, self.curve[-1]) is False:
            self.stopped = "cancelled"
        elif converged(self.run, [check.score for check in self.curve]):
            self.stopped = "converged"


def converged(run: Run, scores: Sequence[float]) -> bool:
    """Whether the last checks were all above `stop_above`; with messages, whether none of them was a new best."""
    patience = run.protocol.patience
    if run.task.objective == "edges":
        return len(scores) >= patience and min(scores[-patience:]) > run.protocol.stop_above
    return len(scores) - 1 - int(np.argmin(scores)) >= patience


def train_runs(
    runs: Sequence[Run],
    data: Sequence[TrainingData],
    *,
    device: str = "cpu",
    progress: OnCheck | None = None,
    time_limit: float | None = None,
) -> list[Outcome]:
    """Train runs of one shape in one batch. Each run is checked, stopped and tested by itself."""
    begun = time.perf_counter()
    batch = LayerBatch(runs, data, device=device)
    states = [LayerRunState(run) for run in runs]
    limit, every = batch.run.protocol.steps, batch.run.protocol.validate_every
    recent: list[Float64[ndarray, "steps runs"]] = []  # losses since the last check
    while batch.step < limit and batch.active.any():
        recent.append(batch.advance(min(STRIDE, every - batch.step % every, limit - batch.step)))
        checked = batch.step % every == 0
        tallies = batch.evaluate(Stream.VALIDATION, batch.run.protocol.validation_contexts) if checked else []
        seconds, sound = time.perf_counter() - begun, batch.sound()
        for n, state in enumerate(states):
            if state.stopped is not None:
                continue
            state.seconds = seconds
            if not sound[n]:
                state.stopped = "diverged"
            elif time_limit is not None and seconds > time_limit:
                state.stopped = "timeout"
            elif checked:
                state.check(batch.step, tallies[n], np.concatenate(recent)[:, n], progress)
        batch.keep([state.stopped is None for state in states])
        recent = [] if checked else recent
    trained = time.perf_counter()
    tests = batch.evaluate(Stream.TEST, batch.run.protocol.test_contexts)
    tested = time.perf_counter() - trained
    query, key, threshold = (part.detach().cpu().numpy().astype(np.float64) for part in batch.weights)
    return [
        finish(
            state.run,
            data[n].problem,
            query=query[n],
            key=key[n],
            threshold=float(threshold[n]),
            stopped=state.stopped or "limit",
            steps=int(batch.steps[n]),
            curve=tuple(state.curve),
            test=tests[n] if state.stopped in (None, "converged") else None,
            seconds=state.seconds + tested,
            engine="reference",
        )
        for n, state in enumerate(states)
    ]
