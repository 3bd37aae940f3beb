"""train_runs: runs of one shape trained side by side in PyTorch, on any device.

No run reads another run's rows: each run of a batch gives the result that it would give in a batch of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.training.data import Stream, TrainingData
from manyheads.training.outcome import Check, OnCheck, Outcome, Stopped, Tally, finish
from manyheads.training.reference.layer_batch import LayerBatch
from manyheads.training.run import Run

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
    """Whether the last checks were all above the mark; with messages, whether none of them was a new best."""
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
    """Train runs of one shape side by side; each is checked, stopped and tested as if it were alone."""
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
