"""train_retrievals: train networks of several seeds and head counts in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from manyheads.errors import InputError
from manyheads.numbers import require_memory
from manyheads.retrieval.retrieval_examples import EXAMPLES_AT_ONCE, RetrievalExamples, examples_of
from manyheads.retrieval.retrieval_run import RetrievalCheck, RetrievalOutcome, RetrievalRun
from manyheads.tables import counted, in_heads
from manyheads.training.batched_runs import BatchedRunState, batch_stop_reason

STRIDE = 20
"""Steps between two checks of the time limit."""


@dataclass
class RetrievalRunState(BatchedRunState):
    """The state of one network in training: also its validation checks."""

    curve: list[RetrievalCheck] = field(default_factory=list)

    def add_check(self, nmse: float) -> None:
        """Add a validation check."""
        self.curve.append(RetrievalCheck(self.steps, nmse, self.take_mean_loss()))


def batch_bytes(runs: Sequence[RetrievalRun]) -> int:
    """An estimate of the memory of a batch in bytes: examples, weights with their moments, activations."""
    total = 0
    for run in {(run.problem, run.task): run for run in runs}.values():
        tokens = run.length * run.input_width * (run.training_examples + run.validation_examples)
        total += (8 + 8 + 4 + 4) * tokens  # drawn and moved in float64; the float32 examples and their tensor
    heads, width = max(run.heads for run in runs), max(run.width for run in runs)  # stacking pads the others
    embedding = max(run.embedding for run in runs)
    for run in runs:
        layers, mlp = run.layers, run.mlp_width
        weights = layers * embedding * (4 * heads * width + 2 * mlp) + 2 * mlp * embedding
        # the values of each head through its output, and the MLP through both: forward and backward
        folded = 3 * heads * embedding * (embedding + mlp)
        at_once = max(run.batch, min(EXAMPLES_AT_ONCE, run.training_examples))
        # tokens of the layers before the last: queries, keys, values and outputs of all heads, and the MLP
        before = (layers - 1) * (8 * heads * width + 3 * mlp)
        activations = at_once * (run.length * (run.input_width + 2 * mlp + 2 * heads + before) + 3 * heads * mlp)
        total += 28 * weights + 4 * (folded + activations) + 8 * run.training_examples
    return total


def train_retrievals(
    runs: Sequence[RetrievalRun],
    *,
    examples: RetrievalExamples | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> list[RetrievalOutcome]:
    """Train networks together. Each run ends with the same result, to rounding, as if it were trained by itself.

    A run stops before its last step if its loss or its weights are not finite ("diverged"), at the time limit
    ("timeout"), or when `keep_going` returns False ("cancelled").

    Args:
        runs: Runs that differ in their seeds, heads and head widths only.
        examples: The examples for runs that name them by their fingerprint.
        device: A device as torch names it.
        time_limit: The longest time of the whole call in seconds.
        keep_going: Called every few steps; False cancels the training.

    Returns:
        One outcome for each run, in the order of `runs`.

    Raises:
        InputError: The runs do not fit together or not into the memory, the examples are not those of a run, all
            targets are the same, or torch, scikit-learn (for digits) or the device is missing.
    """
    begun = time.perf_counter()
    if runs:
        what = f"the training of {counted(len(runs), 'network')} of {in_heads(runs[0].heads, runs[0].width)}"
        require_memory(batch_bytes(runs), f"{what} on sequences of {runs[0].length:,} tokens")
    problems: dict[tuple[int, str], RetrievalExamples] = {}
    for run in runs:
        if (run.problem, run.task) not in problems:
            problems[run.problem, run.task] = examples_of(run, examples)
    try:
        from manyheads.retrieval.retrieval_batch import RetrievalBatch  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("a retrieval network needs torch: pip install 'manyheads[torch]'") from None
    batch = RetrievalBatch(runs, [problems[run.problem, run.task] for run in runs], device=device)
    limit, every, count = batch.run.steps, batch.run.validate_every, batch.run.training_examples
    validation, training = slice(count, count + batch.run.validation_examples), slice(count)
    states = [RetrievalRunState() for _ in runs]
    while batch.step < limit and (active := [state for state in states if state.stopped is None]):
        losses = batch.advance(min(STRIDE, every - batch.step % every, limit - batch.step))
        for state, own in zip(states, losses.T, strict=True):
            if state.stopped is None:
                state.advance(own)
        if batch.step % every == 0 or batch.step == limit:
            for state, nmse, finite in zip(states, batch.nmse(validation), batch.finite_runs(), strict=True):
                if state.stopped is None and not finite:
                    state.stopped = "diverged"
                elif state.stopped is None:
                    state.add_check(float(nmse))
        seconds = time.perf_counter() - begun
        reason = batch_stop_reason(seconds, time_limit, keep_going) if batch.step < limit else None
        for state in active:
            state.stopped = state.stopped or reason
    training_nmse = batch.nmse(training)
    seconds = (time.perf_counter() - begun) / len(runs)
    return [
        RetrievalOutcome(
            run=run,
            stopped=state.stopped or "limit",
            steps=state.steps,
            nmse=state.curve[-1].nmse if state.stopped is None else None,
            training_nmse=float(training_nmse[n]) if state.stopped is None else None,
            weights=batch.weights_of(n) if state.stopped is None else None,
            curve=tuple(state.curve),
            seconds=seconds,
        )
        for n, (run, state) in enumerate(zip(runs, states, strict=True))
    ]
