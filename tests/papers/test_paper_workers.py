"""`manyheads paper` on processes and on a Dask cluster of two workers, one of which is killed: the rows of threads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster
from support.sabotage import essence

from manyheads.cli import main
from manyheads.papers import Scale
from manyheads.papers.reproduction import known_rows, measure_rows
from manyheads.sweep import Store, SweepProgress, dask, processes, threads

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Dask's own warnings are not ours to mend
    pytest.mark.long,
]

SCALE = Scale(seeds=2, up_to=64, steps=20, quick=True)
NAMES = ["fig9", "retrieval_digits"]  # trained layers, heads in torch, and trials that train nothing


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made:
        yield made


def stored(path: Path) -> list[dict[str, object]]:
    """The records of a store without their times, by id: a search stores what ends first."""
    with Store.read(path) as store:
        return [essence(record) for record in sorted(store.records(), key=lambda record: record.id)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    path = tmp_path_factory.mktemp("threads") / "p.db"
    with Store.write(path) as store, threads(1) as workers:
        measure_rows(NAMES, store, SCALE, workers=workers)
    return stored(path)


def test_processes_and_a_cluster_make_the_rows_of_threads(
    tmp_path: Path, expected: list[dict[str, object]], cluster: LocalCluster
) -> None:
    assert {"layer", "retrieval", "one_head"} <= {str(record["kind"]) for record in expected}

    seen: list[str] = []

    def kill(progress: SweepProgress) -> None:
        """After half of the runs, one worker of two."""
        before = len(seen)
        seen.extend(record.id for record in progress.latest)
        if before < len(expected) // 2 <= len(seen):
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    for name, crew, progress in (("processes", processes(2), None), ("dask", dask(cluster.scheduler_address), kill)):
        with crew as workers, Store.write(tmp_path / name) as store:
            measure_rows(NAMES, store, SCALE, workers=workers, progress=progress)
        assert stored(tmp_path / name) == expected, name
    assert len(seen) == len(expected)


def test_the_command_runs_on_a_cluster(
    tmp_path: Path, expected: list[dict[str, object]], cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--quick", "--up-to", "64", "--steps", "20", "--seeds", "2", "--output", str(tmp_path / "out")]
    store = ["--store", str(tmp_path / "p.db")]
    assert main(["paper", "fig9", *words, *store, "--dask", cluster.scheduler_address]) == 0
    with Store.read(tmp_path / "p.db") as made:
        rows = known_rows(["fig9"], made, SCALE)
    assert len(rows) > 10
    wanted = {str(record["id"]): record for record in expected}
    assert all(record == wanted[str(record["id"])] for record in stored(tmp_path / "p.db"))
    assert "0 of" in capsys.readouterr().err
