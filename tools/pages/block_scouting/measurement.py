"""Train one head of the Transformer block at several sizes, rates and steps, to choose the size of Figure 7.

Only one head is trained, with a seed that the figure does not use: the choice cannot depend on the effect of several
heads. Runs are kept in a store, so that an interrupted measurement continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from manyheads.block import BlockRun
from manyheads.papers.exhibits.block_setting import LAPTOP, BlockTable, named_table
from manyheads.sweep import BlockTrainer, Record, Store, Workers, sweep, threads
from tools.pages.block_scouting.text import best_rate
from tools.pages.catalogue import Settings
from tools.pages.rows import Row, machine_rows, write_rows

NAME = "block-scouting"
PARTS = ()
SEED = 100  # the figure's seeds begin at 0
EMBEDDINGS = ("smollm2", "gaussian")
RATES = (5e-4, 1e-3, 2e-3, 4e-3)


@dataclass(frozen=True)
class Size:
    """A size of the task, the steps of a run there, and the key budgets at which one head is trained."""

    items: int
    d_model: int
    steps: int
    budgets: tuple[int, ...]

    def run(self, table: BlockTable, budget: int, rate: float) -> BlockRun:
        """One head, everything else as in the figure."""
        size = replace(LAPTOP, items=self.items, d_model=self.d_model, steps=self.steps, learning_rate=rate)
        return size.run(table, 1, budget, SEED)


# A step takes 7, 20, 40 and 12 ms on one thread: about 2,600 seconds of one core in all. (512, 64) is left out: in a
# trial its accuracy stayed at 0.3 to 0.5 with every number of heads.
RATE_TRIAL = Size(1024, 128, 4_000, (64,))
SIZES = (
    Size(2048, 256, 10_000, (64, 128, 256)),
    Size(1024, 128, 16_000, (32, 64, 128, 256)),
    Size(2048, 576, 2_500, (64,)),
    Size(1024, 256, 5_000, (64,)),
)


def measure(settings: Settings) -> None:
    """Train the runs that the store lacks; rows are stored after each size."""
    path = settings.store or Path("block-scouting.db")
    with Store.write(path) as store, threads(settings.workers) as workers:
        rows = _trained("rate", RATE_TRIAL, RATES, store, workers)
        rate = best_rate(rows)
        for size in SIZES:
            rows += _trained("size", size, [rate], store, workers)
            write_rows(NAME, rows)
    write_rows(f"{NAME}-machine", machine_rows())


def _trained(part: str, size: Size, rates: Sequence[float], store: Store, workers: Workers) -> list[Row]:
    """Rows of one head at every key budget and rate, on both embeddings."""
    rows: list[Row] = []
    for words in EMBEDDINGS:
        table, given = named_table(words, replace(LAPTOP, items=size.items, d_model=size.d_model))
        runs = [size.run(table, budget, rate) for budget in size.budgets for rate in rates]
        records = sweep(runs, store, trainer=BlockTrainer(table=given), workers=workers)
        rows += [{"part": part} | _row(table, record) for record in records]
        print(*rows[-len(records) :], sep="\n", flush=True)
    return rows


def _row(table: BlockTable, record: Record) -> Row:
    """What is kept of a run."""
    run, curve = record.run, json.loads(record.curve)
    quarters = {25 * n: curve[n * len(curve) // 4 - 1][1] for n in (1, 2, 3, 4)} if curve else {}
    fields = ("reduction", "items", "d_model", "context", "batch", "learning_rate", "steps", "heads", "seed")
    heads, key_width = run["heads"], run["key_width"]
    assert isinstance(heads, int)
    assert isinstance(key_width, int)
    return {
        "embedding": table.name,
        **{name: run[name] for name in fields},
        "key_budget": heads * key_width,
        "accuracy": record.score("accuracy"),
        "null_rate": record.score("null_rate"),
        **{f"validation_{share}": quarters.get(share) for share in (25, 50, 75, 100)},
        "seconds": record.seconds,
    }
