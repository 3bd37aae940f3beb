"""Train the narrowest heads of every way to share keys, by the paper's protocol; each row is stored once it is found.

A row is a measurement as `manyheads measure --heads h --key-heads g --seeds 5` makes it: the narrowest heads whose mean
test F1 over the seeds reaches 0.99. Runs are kept in a store, so a measurement that was stopped continues.
Run `python -m tools.pages.shared_keys.training`.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.capacity import Capacity, Point, measure
from manyheads.sweep import Store, threads
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.rows import DATA, Row, matching, read_rows, rounded

NAME = "shared-keys-trained"
SEEDS = 5
# by items, d_model and degree (1: permutations); 16 heads of full width do not learn 4-regular graphs at (128, 16)
HEADS = {
    (64, 16, 1): (2, 4, 8, 16),
    (64, 16, 4): (2, 4, 8, 16, 32),
    (128, 16, 1): (2, 4, 8, 16),
    (128, 16, 4): (2, 4, 8, 16, 32),
    (256, 32, 1): (2, 4, 8, 16),
    (256, 32, 4): (2, 4, 8, 16),
}


@dataclass(frozen=True)
class TrainedSharing:
    """One row: a size, a kind of graph and a way to share keys."""

    items: int
    d_model: int
    degree: int
    heads: int
    key_heads: int

    @property
    def task(self) -> Task:
        """The family of problems."""
        graph = f"permutation:{self.items}" if self.degree == 1 else f"regular:{self.items}:{self.degree}"
        return Task(graph, f"gaussian:{self.d_model}")


def missing() -> Iterator[TrainedSharing]:
    """The measurements without a row: size by size, for each number of heads from own keys to one key head."""
    for (items, d_model, degree), counts in HEADS.items():
        for heads in counts:
            for key_heads in sorted({heads, heads // 2, max(1, heads // 4), 1}, reverse=True):
                wanted = TrainedSharing(items, d_model, degree, heads, key_heads)
                if not matching(read_rows(NAME), **vars(wanted)):
                    yield wanted


def trained_row(wanted: TrainedSharing, capacity: Capacity, seconds: float) -> Row:
    """The row of a measurement; a width that no training reached is missing.

    `low_width` and `high_width` are the ends of the range of the key width. `widest` is the widest head that was tried,
    and `widest_f1` its mean test F1 over the seeds that were tried: where no width works, they say how far the search
    went. A point that cannot reach the goal is left after two seeds.
    """
    full = [point for point in capacity.curve if point.scores]
    widest = max(full, key=lambda point: point.key_width)
    found = [point for point in full if point.key_width == capacity.threshold.key_width]
    at: Point | None = found[0] if found else None
    ends = (capacity.threshold.low, capacity.threshold.high)
    low, high = (None if end is None else end // wanted.key_heads for end in ends)
    return vars(wanted) | {
        "seeds": SEEDS,
        "steps": capacity.protocol.steps,
        "goal": capacity.goal.micro_f1,
        "key_width": capacity.threshold.key_width,
        "low_width": low,
        "high_width": high,
        "mean_f1": None if at is None else at.mean,
        "widest": widest.key_width,
        "widest_f1": widest.mean,
        "runs": capacity.runs,
        "seconds": seconds,
    }


def measure_trained(settings: Settings) -> None:
    """Measure every size, kind of graph and way to share keys that has no row."""
    path = DATA / f"{NAME}.csv"
    with Store.write(settings.store or Path(f"{NAME}.db")) as store, threads(settings.workers) as workers:
        for wanted in missing():
            begun = time.monotonic()
            capacity = measure(
                wanted.task, heads=wanted.heads, key_heads=wanted.key_heads, seeds=SEEDS, store=store, workers=workers
            )
            row = trained_row(wanted, capacity, time.monotonic() - begun)
            is_new = not path.exists()
            with path.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerow(rounded(row))
            print(row, flush=True)


if __name__ == "__main__":
    measure_trained(Settings())
