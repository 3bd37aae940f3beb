"""What the blocks of Figure 7 will take on a device: time from a few steps of each kind, memory by counting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from manyheads.block.block_run import BlockRun

TIMED_SECONDS = 0.5  # of steps, for each head count
EVALUATION = 1.05  # validation checks and the test cost about a twentieth of the training
PROGRAM_BYTES = 500 << 20  # Python, torch and its libraries
AT_ONCE_BYTES = 3 * 4 * (1 << 24)  # an evaluation: inputs, their normalised form and logits


@dataclass(frozen=True)
class BlockCost:
    """About how long runs take in all, and how much memory at once."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        hours = self.seconds / 3600
        spoken = f"{hours:,.1f} hours" if hours >= 1 else f"{self.seconds / 60:.0f} minutes"
        return f"about {spoken} and {self.bytes / 2**30:.1f} GiB"


def block_cost(runs: Sequence[BlockRun], *, device: str, workers: int) -> BlockCost:
    """The cost of runs of one size, so many at a time; needs torch."""
    if not runs:
        return BlockCost(0.0, 0)
    step = {heads: _step_seconds(max(_with(runs, heads), key=_width), device) for heads in {run.heads for run in runs}}
    seconds = EVALUATION * sum(run.steps * step[run.heads] for run in runs) / workers
    return BlockCost(seconds, PROGRAM_BYTES + workers * max(block_bytes(run) for run in runs))


def block_bytes(run: BlockRun) -> int:
    """What training holds at most, in tensors of four bytes a number.

    Weights, gradients, AdamW's two moments and the best weights; the table; and of each example its inputs, their
    normalised form and its gather, what each head probes and mixes with and their gradients, logits three times.
    """
    d, h, positions, rows = run.d_model, run.heads, run.context + 2, run.items + 1
    weights = 2 * d * run.key_budget + 2 * d * d + 2 * d * run.mlp_width + run.mlp_width + 5 * d
    example = 3 * positions * d + 4 * h * d + 4 * h * positions + 3 * rows
    return 4 * (5 * weights + 2 * rows * d + run.batch * example) + AT_ONCE_BYTES


def _with(runs: Sequence[BlockRun], heads: int) -> list[BlockRun]:
    return [run for run in runs if run.heads == heads]


def _width(run: BlockRun) -> int:
    return run.key_width


def _step_seconds(run: BlockRun, device: str) -> float:
    """Of one step on one thread, whose cost does not depend on the table's numbers."""
    import torch

    from manyheads.block.block_batch import BlockBatch
    from manyheads.block.block_data import table_of

    torch.set_num_threads(1)
    drawn = replace(run, embedding="gaussian", reduction="none")
    batch = BlockBatch([drawn], [table_of(drawn)], device=device)
    batch.advance(1)
    begun, steps = time.perf_counter(), 0
    while (taken := time.perf_counter() - begun) < TIMED_SECONDS:
        batch.advance(1)
        steps += 1
    return taken / steps
