"""BlockSetting: the size at which Figure 7 is run, and on which embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.block.block_run import BlockRun, Precision, Reduction

HEADS = (1, 2, 4, 8)  # the paper's, at every size


@dataclass(frozen=True)
class Table:
    """An embedding by its name, and how a run names it."""

    name: str
    embedding: str
    reduction: Reduction = "none"


@dataclass(frozen=True)
class BlockSetting:
    """Everything that all runs of the figure share."""

    items: int
    d_model: int
    budgets: tuple[int, ...]  # D_K
    seeds: tuple[int, ...]
    steps: int
    batch: int
    learning_rate: float
    precision: Precision
    tables: tuple[Table, ...]
    context: int = 16

    def run(self, table: Table, heads: int, budget: int, seed: int) -> BlockRun:
        """One run of it."""
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


GAUSSIAN = Table("Gaussian", "gaussian")
# The most frequent tokens of WikiText-103's validation and test text, NULL the end of a message.
SMOLLM2 = Table("SmolLM2-135M-Instruct", "given:a286211d22049ae2", "pca")

# Chosen by tools/pages/block_scouting, from one head and another seed (docs/results/block-scouting.md).
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
# Sec. 7.3; its batch and rate are not stated, and its mixed precision is a matter of throughput.
PAPER = BlockSetting(
    items=6144,
    d_model=768,
    budgets=(64, 128, 256, 512),
    seeds=tuple(range(7)),
    steps=100_000,
    batch=128,
    learning_rate=1e-3,
    precision="bfloat16",
    tables=(),  # GPT-2's, once it is there
)
SETTINGS = {"laptop": LAPTOP, "paper": PAPER}
