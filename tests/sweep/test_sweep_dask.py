"""Dask: the very same sweep on a cluster of two worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dask as dask_settings
import pytest
from distributed import LocalCluster
from support.sabotage import Sabotaged, outcome, tiny

from manyheads import InputError
from manyheads.cli import main
from manyheads.sweep import Store, Workers, dask, sweep, threads

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to mend


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    # one death is enough to tell a poison run from the others: the sweep tries again by itself
    with (
        dask_settings.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made,
    ):
        yield made


@pytest.fixture
def workers(cluster: LocalCluster) -> Iterator[Workers]:
    with dask(cluster.scheduler_address) as made:
        yield made


def test_the_same_rows_as_threads_bit_for_bit(tmp_path: Path, workers: Workers) -> None:
    runs = tiny(range(30), [2, 3])
    for name, crew in (("dask", workers), ("threads", threads(2))):
        with Store.write(tmp_path / name) as store:
            sweep(runs, store, workers=crew)
    assert outcome(tmp_path / "dask") == outcome(tmp_path / "threads")
    assert len(outcome(tmp_path / "dask")) == 60


def test_a_run_that_kills_its_dask_worker_costs_only_itself(tmp_path: Path, workers: Workers) -> None:
    with Store.write(tmp_path / "s.db") as store:
        records = sweep(tiny([0, 1, 13, 2, 3]), store, trainer=Sabotaged(), workers=workers, tries=1)
    assert [record.status for record in records] == ["limit", "limit", "quarantined", "limit", "limit"]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tcp://no-such-host.invalid:8786"])
def test_an_unreachable_address_fails_in_seconds_with_a_sentence(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = time.monotonic()
    assert main(["measure", "--graph", "permutation:64", "--embedding", "gaussian:16", "--dask", address]) == 2
    assert time.monotonic() - clock < 15
    told, said = capsys.readouterr()
    assert said.startswith(f"manyheads: no Dask scheduler answers at {address}")
    assert said.count("\n") == 1
    assert told == ""
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_without_workers_is_refused() -> None:
    with (
        LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty,
        pytest.raises(InputError, match="has no workers"),
    ):
        dask(empty.scheduler_address)
