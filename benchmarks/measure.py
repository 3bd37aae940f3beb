"""How long a measurement takes, and what sweep, store and cluster add to training.

python benchmarks/measure.py [NAME…]    names: small large overhead rows dask
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from manyheads.capacity import measure
from manyheads.machine import cores, machine
from manyheads.sweep import LayerTrainer, Record, Store, Workers, dask, sweep, threads
from manyheads.sweep.store.integrity import row_checksum
from manyheads.sweep.store.record import COLUMNS
from manyheads.training import Protocol, Run, Task, train

RUN = Run(Task("permutation:64", "gaussian:16"), heads=4, key_width=6, seed=0)

RUN_SECONDS = 0.2
ROWS = 100_000


def main(names: list[str]) -> None:
    for name in names or list(BENCHMARKS):
        BENCHMARKS[name]()
    print(*machine().values(), sep=", ")


def small() -> None:
    measured(64, 16, seeds=5, wanted=20)


def large() -> None:
    measured(256, 32, seeds=10, wanted=180)


def measured(items: int, d_model: int, *, seeds: int, wanted: float) -> None:
    task = Task(f"permutation:{items}", f"gaussian:{d_model}")
    with tempfile.TemporaryDirectory() as directory, Store.write(Path(directory) / "s.db") as store:
        begun = time.perf_counter()
        capacity = measure(task, store=store, heads=(1, 2, 4, 8, 16), seeds=seeds)
        took = time.perf_counter() - begun
        training = sum(record.seconds or 0 for record in store.records())
    found = capacity.threshold
    print(f"({items}, {d_model}), {seeds} seeds: {took:.1f} s (wanted: {wanted:.0f}), training {training:.1f} core s")
    print(f"  D_K* {found.key_budget} ({found.low} to {found.high}), h* {found.heads}")
    print(f"  {capacity.runs} runs, {capacity.runs / capacity.grid:.1%} of the grid over the same range")


def overhead() -> None:
    with threads() as workers:
        added("threads", workers, wanted=0.03)


def on_dask() -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=cores(), threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        dask(cluster.scheduler_address) as workers,
    ):
        added("dask", workers, wanted=0.02)


@dataclass(frozen=True, eq=False)
class Timed(LayerTrainer):
    """Says how long the whole of the training took, by the clock and of a core's time."""

    def train(self, run: Run, *, time_limit: float | None, keep_going: Callable[[], bool]) -> Record:
        """Train, with a clock beside it."""
        clock, core = time.perf_counter(), time.thread_time()
        ended = super().train(run, time_limit=time_limit, keep_going=keep_going)
        took = {"clock": time.perf_counter() - clock, "core": time.thread_time() - core}
        return replace(ended, scores={**ended.scores, **took})


def added(name: str, workers: Workers, *, wanted: float) -> None:
    """What a sweep of runs of 0.2 s takes beyond their training, with every core busy."""
    like = replace(RUN, protocol=Protocol(steps=20_000, stop_above=1.0))
    train(like)
    steps = round(like.protocol.steps * RUN_SECONDS / train(like).seconds / 500) * 500
    like = replace(like, protocol=Protocol(steps=steps, stop_above=1.0))
    runs = [replace(like, seed=seed) for seed in range(104 * workers.slots)]
    warm = 4 * workers.slots
    with tempfile.TemporaryDirectory() as directory, Store.write(Path(directory) / "s.db") as store:
        sweep(runs[:warm], store, trainer=Timed(), workers=workers)  # everything is imported, everywhere
        clock, core = time.perf_counter(), time.process_time()
        records = sweep(runs[warm:], store, trainer=Timed(), workers=workers)
        clock, core = time.perf_counter() - clock, time.process_time() - core
    training = {name: sum(record.score(name) or 0 for record in records) for name in ("clock", "core")}
    length = training["clock"] / len(records)
    by_clock = clock * workers.slots / training["clock"] - 1
    print(f"sweep on {name}: {by_clock:.1%} on top of training (wanted: {wanted:.0%}), runs of {length:.2f} s")
    if name == "threads":  # which a busy machine does not blur
        print(f"  of the cores' time: {core / training['core'] - 1:.1%}")


def rows() -> None:
    """A store of many rows, each with a real run's curve: listed, filtered and counted."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "s.db"
        names = ", ".join(name for name in COLUMNS if name not in ("id", "run"))
        with Store.write(path) as store:
            sweep([RUN], store)
            connection = store._connection
            connection.create_function("run_id", 1, lambda run: hashlib.sha256(run.encode()).hexdigest()[:16])
            connection.create_function("checksum_of", len(COLUMNS), lambda *row: row_checksum(row))
            connection.execute(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS - 1}), "
                "copies(copy) AS (SELECT json_set(run, '$.seed', i % 10, '$.key_width', 1 + i / 10 % 100, "
                "'$.items', 64 << (i / 1000 % 4), '$.problem_seed', i) FROM n, results) "
                f"INSERT INTO results (id, run, {names}) SELECT run_id(copy), copy, {names} FROM copies, results"
            )
            connection.execute(f"UPDATE results SET checksum = checksum_of({', '.join(COLUMNS)})")
        print(f"a store of {ROWS:,} rows, {path.stat().st_size / 2**20:.0f} MiB:")
        for words in ([], ["--seed", "7", "--key-width", "17"], ["--status", "failed"]):
            command = [sys.executable, "-m", "manyheads", "results", "--store", str(path), *words]
            begun = time.perf_counter()
            subprocess.run(command, capture_output=True, check=False)
            print(
                f"  manyheads results {' '.join(words)}: {time.perf_counter() - begun:.2f} s in all, every row proved"
            )
        with Store.read(path) as store:
            begun = time.perf_counter()
            store.records(limit=20), store.records({"seed": 7, "key_width": 17}), store.counts()
            print(f"  list, filter and count: {time.perf_counter() - begun:.3f} s")
        with Store.read(path) as store:
            begun = time.perf_counter()
            found = len(store.records({"items": 128}))
            print(f"  {found:,} of them as records: {time.perf_counter() - begun:.2f} s")


BENCHMARKS: dict[str, Callable[[], None]] = {
    "small": small, "large": large, "overhead": overhead, "rows": rows, "dask": on_dask
}  # fmt: skip

if __name__ == "__main__":
    main(sys.argv[1:])
