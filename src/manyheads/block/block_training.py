"""train_blocks: train blocks of one shape, several seeds in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from numpy import ndarray

from manyheads.block.block_data import table_of
from manyheads.block.block_run import NUMBERS_AT_ONCE, Answers, BlockCheck, BlockOutcome, BlockRun
from manyheads.errors import InputError
from manyheads.numbers import require_memory
from manyheads.tables import counted, in_heads
from manyheads.training.batched_runs import BatchedRunState, batch_stop_reason
from manyheads.training.data import Stream

STRIDE = 8
"""Steps between two checks of the time limit: under a second at the paper's size on two cores."""


@dataclass
class BlockRunState(BatchedRunState):
    """The state of one block in training: also its validation checks, the best check, and its time."""

    curve: list[BlockCheck] = field(default_factory=list)
    best: BlockCheck | None = None
    seconds: float = 0.0

    def add_check(self, answers: Answers) -> bool:
        """Add a validation check, and return whether it is the best so far."""
        self.curve.append(BlockCheck(self.steps, answers.accuracy, self.take_mean_loss()))
        if self.best is not None and answers.accuracy <= self.best.accuracy:
            return False
        self.best = self.curve[-1]
        return True


def batch_bytes(runs: Sequence[BlockRun]) -> int:
    """An estimate of the memory of a batch in bytes: tables, weights with their moments, examples, activations."""
    run = runs[0]  # they differ in their seeds and embeddings only
    rows, positions = run.items + 1, run.context + 2
    weights = 2 * run.d_model * (run.key_budget + run.d_model + run.mlp_width)
    evaluated = max(run.validation_examples, run.test_examples)
    # five arrays of int64 while the codes of the examples become pairs
    examples = 80 * run.context * max(STRIDE * run.batch, evaluated)
    # forward and backward: the inputs, the answers, the MLP, the queries and the mixed rows of all heads
    numbers = 4 * positions * (run.d_model + run.heads) + 3 * rows + 4 * run.mlp_width
    numbers += 3 * run.key_budget + 4 * run.heads * run.d_model
    at_once = max(run.batch, min(evaluated, NUMBERS_AT_ONCE // (run.numbers * len(runs))))
    return len(runs) * (12 * rows * run.d_model + 32 * weights + examples + 4 * at_once * numbers)


def train_blocks(
    runs: Sequence[BlockRun],
    *,
    table: Float[ndarray, "rows d_model"] | None = None,
    device: str = "cpu",
    time_limit: float | None = None,
    keep_going: Callable[[], bool] = lambda: True,
    progress: Callable[[Sequence[BlockCheck]], None] = lambda _: None,
) -> list[BlockOutcome]:
    """Train blocks together. Each run ends with the same result, to rounding, as if it were trained by itself.

    A run stops before its last step if its loss or its weights are not finite ("diverged"), at the time limit
    ("timeout"), or when `keep_going` returns False ("cancelled").

    Args:
        runs: Runs that differ in their seeds and embeddings only.
        table: The table, of shape (items + 1, width), for runs that name it by its fingerprint.
        device: A device as torch names it.
        time_limit: The longest time of the whole call in seconds.
        keep_going: Called every few steps; False cancels the training.
        progress: Called after every validation check with the latest check of each run that is still trained.

    Returns:
        One outcome for each run, in the order of `runs`.

    Raises:
        InputError: The runs do not fit together or not into the memory, the table is not the table of a run, or torch
            or the device is missing.
    """
    begun = time.perf_counter()
    if runs:
        what = f"the training of {counted(len(runs), 'block')} of {in_heads(runs[0].heads, runs[0].key_width)}"
        require_memory(batch_bytes(runs), f"{what} on {runs[0].items:,} items")
    tables = [table_of(run, table) for run in runs]
    try:
        from manyheads.block.block_batch import BlockBatch  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("a block needs torch: pip install 'manyheads[torch]'") from None
    batch = BlockBatch(runs, tables, device=device)
    limit, every = batch.run.steps, batch.run.validate_every
    states = [BlockRunState() for _ in runs]
    while batch.step < limit and (active := [n for n, state in enumerate(states) if state.stopped is None]):
        losses = batch.advance(min(STRIDE, every - batch.step % every, limit - batch.step))
        for n in active:
            states[n].advance(losses[:, n])
        if batch.step % every == 0 or batch.step == limit:
            answers = batch.evaluate(batch.weights, Stream.VALIDATION, batch.run.validation_examples)
            finite = batch.finite_runs()
            for n in active:
                if not finite[n]:
                    states[n].stopped = "diverged"
                elif states[n].stopped is None and states[n].add_check(answers[n]):
                    batch.store_best(n)
            progress([states[n].curve[-1] for n in active if states[n].stopped is None])
        seconds = time.perf_counter() - begun
        reason = batch_stop_reason(seconds, time_limit, keep_going) if batch.step < limit else None
        for n in active:
            states[n].seconds = seconds
            states[n].stopped = states[n].stopped or reason
    test_begun = time.perf_counter()
    complete = [state.stopped is None for state in states]
    tests = batch.evaluate(batch.best, Stream.TEST, batch.run.test_examples) if any(complete) else []
    test_seconds = time.perf_counter() - test_begun
    return [
        BlockOutcome(
            run=run,
            stopped=state.stopped or "limit",
            steps=state.steps,
            best=state.best,
            test=tests[n] if complete[n] else None,
            weights=batch.best_weights(n) if state.best is not None else None,
            curve=tuple(state.curve),
            seconds=state.seconds + (test_seconds if complete[n] else 0.0),
        )
        for n, (run, state) in enumerate(zip(runs, states, strict=True))
    ]
