"""Scout the size, rate and steps of Figure 7 on two cores, and write docs/block-scouting.md.

python docs/make_block_scouting.py                     run what the store lacks (resumable), then write
python docs/make_block_scouting.py --workers 1         the same on one core
python docs/make_block_scouting.py --stored            run nothing: write from docs/data/block-scouting.csv

Only one head is ever trained here, and with another seed than the figure's: the choice cannot look at the effect.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from block_scouting_page import best_rate, write_page
from rows import Row, machine_rows, read_rows, write_rows

from manyheads.block import BlockRun
from manyheads.papers.exhibits.block_setting import LAPTOP, BlockTable
from manyheads.papers.exhibits.block_setting import named_table
from manyheads.sweep import BlockTrainer, Record, Store, Workers, sweep, threads

NAME = "block-scouting"
SEED = 100  # the figure's seeds begin at 0
EMBEDDINGS = ("smollm2", "gaussian")
RATES = (5e-4, 1e-3, 2e-3, 4e-3)


@dataclass(frozen=True)
class Size:
    """A size of the task, the steps that seem affordable there, and the key budgets at which one head is tried."""

    items: int
    d_model: int
    steps: int
    budgets: tuple[int, ...]

    def run(self, table: BlockTable, budget: int, rate: float) -> BlockRun:
        """One head, everything else as in the figure."""
        size = replace(LAPTOP, items=self.items, d_model=self.d_model, steps=self.steps, learning_rate=rate)
        return size.run(table, 1, budget, SEED)


# By the cost of a step on one thread (7, 20, 40 and 12 ms), about 2,600 seconds of a core in all. (512, 64) is left
# out: a trial had it stall at 0.3 to 0.5 whatever the heads.
RATE_TRIAL = Size(1024, 128, 4_000, (64,))
SIZES = (
    Size(2048, 256, 10_000, (64, 128, 256)),
    Size(1024, 128, 16_000, (32, 64, 128, 256)),
    Size(2048, 576, 2_500, (64,)),
    Size(1024, 256, 5_000, (64,)),
)


@dataclass(frozen=True)
class Scouting:
    """What to do with the scouting."""

    store: Path = Path("block-scouting.db")
    """Where results are kept and looked up."""
    workers: int = 2
    """How many runs are trained at once, one thread each."""
    stored: bool = False
    """Run nothing."""

    def go(self) -> None:
        """Run what is missing, then write."""
        rows = read_rows(NAME)
        if not self.stored:
            with Store.write(self.store) as store, threads(self.workers) as workers:
                rows = _scouted("rate", RATE_TRIAL, RATES, store, workers)
                rate = best_rate(rows)
                for size in SIZES:
                    rows += _scouted("size", size, [rate], store, workers)
                    write_rows(NAME, rows)
            write_rows(f"{NAME}-machine", machine_rows())
        write_page(Path(__file__).with_name(f"{NAME}.md"), rows)


def _scouted(part: str, size: Size, rates: Sequence[float], store: Store, workers: Workers) -> list[Row]:
    """One head at every key budget and rate, on both embeddings."""
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
    run, curve = json.loads(record.run), json.loads(record.curve)
    quarters = {25 * n: curve[n * len(curve) // 4 - 1][1] for n in (1, 2, 3, 4)} if curve else {}
    fields = ("reduction", "items", "d_model", "context", "batch", "learning_rate", "steps", "heads", "seed")
    return {
        "embedding": table.name,
        **{name: run[name] for name in fields},
        "key_budget": run["heads"] * run["key_width"],
        "accuracy": record.score("accuracy"),
        "null_rate": record.score("null_rate"),
        **{f"validation_{share}": quarters.get(share) for share in (25, 50, 75, 100)},
        "seconds": record.seconds,
    }


if __name__ == "__main__":
    tyro.cli(Scouting, description=__doc__).go()
