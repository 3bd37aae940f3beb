"""`measure` against the full grid: the same D_K*, for how much of its work?

    python benchmarks/measure_grid.py STORE [CSV]

Ten problems, each computed both ways: every key width of every head count up to twice the predicted key budget, and by
`measure`. Prints the table, and writes it where a CSV is named. Everything trained is kept in STORE: run again, go on.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from manyheads.bounds import freedom_key_width
from manyheads.capacity import measure, measure_protocol, points, threshold
from manyheads.machine import machine
from manyheads.sweep import Record, Store, sweep, threads
from manyheads.training import Run, Task

HEADS, SEEDS = (1, 2, 4, 8, 16), range(5)
PROBLEMS = [
    Task(graph, f"gaussian:{d_model}")
    for graph, d_model in (
        ("permutation:32", 8), ("permutation:32", 16), ("permutation:48", 12), ("permutation:48", 16),
        ("permutation:64", 16), ("permutation:64", 32), ("permutation:96", 24), ("permutation:96", 32),
        ("permutation:128", 32), ("regular:48:2", 24),
    )
]  # fmt: skip


def main(path: Path, table: Path | None) -> None:
    with Store.write(path) as store, threads() as workers:
        rows = []
        for task in PROBLEMS:
            reach = grid_reach(task)
            begun = time.monotonic()
            records = sweep(list(grid(task, reach)), store, workers=workers)
            rows.append(both_ways(task, reach, records))
            said = ", ".join(f"{name} {value}" for name, value in rows[-1].items())
            print(f"{said} ({time.monotonic() - begun:.0f} s)", flush=True)
    same = sum(row["grid_key_budget"] == row["measured_key_budget"] for row in rows)
    used, computed, least = (sum(row[name] for row in rows) for name in ("measured_runs", "grid_runs", "least_runs"))
    print(f"the same D_K* on {same} of {len(rows)}; of the grids' runs {used / computed:.1%},")
    print(f"of the runs of grids that end at the very D_K* {used / least:.1%}")
    print(*machine().values(), sep=", ")
    if table is not None:
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def grid_reach(task: Task) -> int:
    """Twice the smallest key budget that the degrees-of-freedom law predicts."""
    widths = {
        heads: freedom_key_width(items=task.items, relations=task.relations, d_model=task.d_model, heads=heads)
        for heads in HEADS
    }
    return 2 * min(heads * width for heads, width in widths.items() if width is not None)


def grid(task: Task, reach: int) -> dict[Run, tuple[int, int, int]]:
    """A run for every width of every head count up to this key budget, with its heads, key width and seed."""
    protocol = measure_protocol(task)
    return {
        Run(task, heads=heads, key_width=width, seed=seed, protocol=protocol): (heads, width, seed)
        for heads in HEADS
        for width in range(1, reach // heads + 1)
        for seed in SEEDS
    }


def both_ways(task: Task, reach: int, records: list[Record]) -> dict[str, Any]:
    """One row: what the grid finds, what `measure` finds, and the runs each takes."""
    by_run = {record.id: record for record in records}
    shape = {run.id: at for run, at in grid(task, reach).items()}
    scores: list[tuple[int, int, int, float]] = []
    for key, record in by_run.items():
        score = record.score("micro_f1")
        assert score is not None
        scores.append((*shape[key], score))
    found = threshold(points(scores))
    with tempfile.TemporaryDirectory() as directory, Store.write(Path(directory) / "s.db") as scratch:
        scratch.add(records)  # what the grid has trained need not be trained again
        measured = measure(task, store=scratch, heads=HEADS, seeds=SEEDS)
    # the least that any grid takes to find this D_K*: every width of every head count up to there
    least = sum((found.key_budget or reach) // heads for heads in HEADS) * len(SEEDS)
    return {
        **{name: task.fields[name] for name in ("items", "d_model", "graph", "degree")},
        "grid_key_budget": found.key_budget,
        "grid_heads": found.heads,
        "measured_key_budget": measured.key_budget,
        "measured_heads": measured.heads,
        "grid_runs": len(records),
        "least_runs": least,
        "measured_runs": measured.runs,
        "share": round(measured.runs / len(records), 3),
        "share_of_least": round(measured.runs / least, 3),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
