"""BlockSetting: the size of Figure 7, its embeddings by name, and the cost of its runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.block.block_data import frozen_table
from manyheads.block.block_run import BlockRun, Precision, Reduction
from manyheads.errors import InputError
from manyheads.files.token_tables import KNOWN, read_ranking, read_token_table
from manyheads.problem.embedding import given_name

BLOCK_HEADS = (1, 2, 4, 8)  # the paper's, at every size
TIMED_SECONDS = 0.5  # of steps, for each head count
EVALUATION = 1.05  # validation and test add about a twentieth to the training
PROGRAM_BYTES = 500 << 20  # Python, torch and its libraries
EVALUATION_BYTES = 3 * 4 * (1 << 24)  # inputs, their normalised form and the logits of an evaluation


@dataclass(frozen=True)
class BlockTable:
    """An embedding of Figure 7: its name for people, and its name and reduction in a run."""

    name: str
    embedding: str
    reduction: Reduction = "none"


@dataclass(frozen=True)
class BlockSetting:
    """The fields that all runs of the figure share."""

    items: int
    d_model: int
    budgets: tuple[int, ...]  # D_K
    seeds: tuple[int, ...]
    steps: int
    batch: int
    learning_rate: float
    precision: Precision
    tables: tuple[BlockTable, ...]
    context: int = 16

    def run(self, table: BlockTable, heads: int, budget: int, seed: int) -> BlockRun:
        """The run with this embedding, head count, key budget and seed."""
        return BlockRun(
            items=self.items,
            d_model=self.d_model,
            heads=heads,
            key_width=budget // heads,
            seed=seed,
            embedding=table.embedding,
            reduction=table.reduction,
            context=self.context,
            batch=self.batch,
            learning_rate=self.learning_rate,
            steps=self.steps,
            precision=self.precision,
        )


GAUSSIAN = BlockTable("Gaussian", "gaussian")
# The most frequent tokens of WikiText-103's validation and test text; NULL is the end of a message.
SMOLLM2 = BlockTable("SmolLM2-135M-Instruct", "given:a286211d22049ae2", "pca")

# Chosen by tools/pages/block_scouting, with one head and another seed (docs/results/block-scouting.md).
LAPTOP = BlockSetting(
    items=2048,
    d_model=256,
    budgets=(32, 64, 128, 256),
    seeds=(0, 1, 2),
    steps=10_000,
    batch=128,
    learning_rate=1e-3,
    precision="float32",
    tables=(SMOLLM2, GAUSSIAN),
)
# Sec. 7.3. The paper does not state batch and rate; its mixed precision only changes the speed.
PAPER = BlockSetting(
    items=6144,
    d_model=768,
    budgets=(64, 128, 256, 512),
    seeds=tuple(range(7)),
    steps=100_000,
    batch=128,
    learning_rate=1e-3,
    precision="bfloat16",
    tables=(),  # GPT-2's table, added when its file is read
)
SETTINGS = {"laptop": LAPTOP, "paper": PAPER}
DEFAULT_TABLES = {"laptop": ("smollm2", "gaussian"), "paper": ("gpt2",)}  # words for `named_table`


def named_table(words: str, setting: BlockSetting) -> tuple[BlockTable, Float32[ndarray, "rows width"] | None]:
    """An embedding of Figure 7 by its words.

    Args:
        words: "gaussian", a known model, or a known model and its file: "gpt2:model.safetensors".
        setting: gives the number of items and d_model; a wider table is reduced by PCA.

    Returns:
        The table, and its rows; None for the rows of a random table.

    Raises:
        InputError: no such table, its file cannot be read, or its rows are too short.
    """
    if words == "gaussian":
        return GAUSSIAN, None
    if words.partition(":")[0] not in KNOWN:
        raise InputError(
            f"Figure 7 has no table '{words}': choose from gaussian, {', '.join(KNOWN)}, or one of these with its file "
            "after a colon; `manyheads block` takes any other"
        )
    table = read_token_table(words)
    assert table.ranking is not None
    assert table.end is not None
    width = table.rows.shape[1]
    if width < setting.d_model:
        raise InputError(f"{table.name}'s rows have {width} numbers, and this size of Figure 7 needs {setting.d_model}")
    rows = frozen_table(table.rows, read_ranking(table.ranking), items=setting.items, null=table.end)
    return BlockTable(table.name, given_name(rows), "none" if width == setting.d_model else "pca"), np.asarray(rows)


@dataclass(frozen=True)
class BlockCost:
    """An estimate of the time of all runs, in seconds, and of the memory at one time, in bytes."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        hours = self.seconds / 3600
        spoken = f"{hours:,.1f} hours" if hours >= 1 else f"{self.seconds / 60:.0f} minutes"
        return f"about {spoken} and {self.bytes / 2**30:.1f} GiB"


def block_cost(runs: Sequence[BlockRun], *, device: str, workers: int) -> BlockCost:
    """The cost of runs of one size, from a few timed steps of each head count; needs torch.

    Args:
        runs: blocks.
        device: as PyTorch names it.
        workers: runs at the same time.
    """
    if not runs:
        return BlockCost(0.0, 0)
    widest = {heads: max(_with(runs, heads), key=lambda run: run.key_width) for heads in {run.heads for run in runs}}
    step = {heads: _step_seconds(run, device) for heads, run in widest.items()}
    seconds = EVALUATION * sum(run.steps * step[run.heads] for run in runs) / workers
    return BlockCost(seconds, PROGRAM_BYTES + workers * max(block_bytes(run) for run in runs))


def block_bytes(run: BlockRun) -> int:
    """The most memory that the training of a block holds, in bytes; a number takes four.

    Counted are: weights, gradients, the two moments of AdamW and the best weights; the table; and for each example the
    inputs, their normalised form and gathered rows, each head's probe, mixture and their gradients, and the logits
    three times.
    """
    d, h, positions, rows = run.d_model, run.heads, run.context + 2, run.items + 1
    weights = 2 * d * run.key_budget + 2 * d * d + 2 * d * run.mlp_width + run.mlp_width + 5 * d
    example = 3 * positions * d + 4 * h * d + 4 * h * positions + 3 * rows
    return 4 * (5 * weights + 2 * rows * d + run.batch * example) + EVALUATION_BYTES


def _with(runs: Sequence[BlockRun], heads: int) -> list[BlockRun]:
    return [run for run in runs if run.heads == heads]


def _step_seconds(run: BlockRun, device: str) -> float:
    """The time of one step on one thread. It does not depend on the numbers of the table, so these are random."""
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
