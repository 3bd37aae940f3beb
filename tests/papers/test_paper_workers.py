"""`manyheads paper` on processes and on a Dask cluster of two workers: the rows of threads, also if a worker is killed."""

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
from manyheads.papers.trial import Trial
from manyheads.sweep import Store, SweepProgress, Workers, dask, processes, threads

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to mend

SCALE = Scale(seeds=2, up_to=32, steps=20, quick=True)
NAMES = ["fig6", "split_cost", "beyond_one_head"]  # trained layers, a search among them, and trials that train nothing


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made:
        yield made


def stored(path: Path) -> list[dict[str, object]]:
    """The records of a store without their times; a clock's scores differ from run to run."""
    with Store.read(path) as store:
        return [essence(record) for record in store.records()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    path = tmp_path_factory.mktemp("threads") / "p.db"
    with Store.write(path) as store, threads(1) as workers:
        measure_rows(NAMES, store, SCALE, workers=workers)
    return stored(path)


def test_processes_and_a_cluster_make_the_rows_of_threads(
    tmp_path: Path, expected: list[dict[str, object]], cluster: LocalCluster
) -> None:
    assert len({record["kind"] for record in expected}) > 1, "layers and trials"

    def kill(progress: SweepProgress) -> None:
        """After some of the runs, one worker of two."""
        nonlocal left
        left -= len(progress.latest)
        if left <= 0 < left + len(progress.latest):
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    left = len(expected) // 2
    for name, crew, progress in (("processes", processes(2), None), ("dask", dask(cluster.scheduler_address), kill)):
        with crew as workers, Store.write(tmp_path / name) as store:
            measure_rows(NAMES, store, SCALE, workers=workers, progress=progress)
        assert stored(tmp_path / name) == expected, name
    assert left <= 0


def test_the_command_runs_on_a_cluster(
    tmp_path: Path, expected: list[dict[str, object]], cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--quick", "--up-to", "32", "--steps", "20", "--seeds", "2", "--output", str(tmp_path / "out")]
    store = ["--store", str(tmp_path / "p.db")]
    assert main(["paper", "fig6", "split_cost", *words, *store, "--dask", cluster.scheduler_address]) == 0
    with Store.read(tmp_path / "p.db") as made:
        rows = known_rows(["fig6", "split_cost"], made, SCALE)
    assert len(rows) > 10
    wanted = {str(record["id"]): record for record in expected}
    assert all(record == wanted[str(record["id"])] for record in stored(tmp_path / "p.db"))
    assert "0 of" in capsys.readouterr().err
