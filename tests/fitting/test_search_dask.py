"""Searches on a Dask cluster of two worker processes: the layer of one thread, also if a worker is killed meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dask as dask_settings
import pytest
from distributed import LocalCluster
from support.searches import assert_same

from manyheads import Problem, gaussian, permutation_graph, read_layer
from manyheads.cli import main
from manyheads.executors import dask
from manyheads.files import read_provenance
from manyheads.fitting import FitOptions, ShapeTrial, smallest

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to mend

PROBLEM = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
OPTIONS = FitOptions(seed=3, trials=14)


@pytest.fixture(scope="module", params=[0, pytest.param(3, marks=pytest.mark.long)])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Workers whose death is reported at once (0), or whose tasks Dask itself sends to another worker (3)."""
    with (
        dask_settings.config.set({"distributed.scheduler.allowed-failures": request.param}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made,
    ):
        yield made


def test_a_cluster_makes_the_same_layer_also_if_a_worker_is_killed(cluster: LocalCluster) -> None:
    alone = smallest(PROBLEM, options=replace(OPTIONS, workers=1))
    with dask(cluster.scheduler_address) as workers:
        assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=workers)))
    killed: list[int] = []

    def kill(trial: ShapeTrial) -> None:
        """After the fourth trial: while the workers are at the next two."""
        killed.append(0)
        if len(killed) == 4:
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    with dask(cluster.scheduler_address) as workers:
        assert_same(alone, smallest(PROBLEM, options=replace(OPTIONS, workers=workers, report=kill)))
    assert len(killed) == 14


def test_a_time_limit_holds_on_a_cluster(cluster: LocalCluster) -> None:
    large = Problem(permutation_graph(600, seed=0), gaussian(600, 16, seed=1))  # no trial ends by itself so soon
    with dask(cluster.scheduler_address) as workers:
        clock = time.monotonic()
        found = smallest(large, options=FitOptions(seed=0, time_limit=1.0, workers=workers))
        assert time.monotonic() - clock < 6
        assert 1 <= len(found.trials) <= 2  # those that ran when the time was up
        assert smallest(PROBLEM, options=replace(OPTIONS, trials=2, workers=workers)).trials  # no worker is blocked


def test_the_command_searches_on_the_cluster(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["fit", "--graph", "permutation:48", "--embedding", "gaussian:16", "--smallest", "--trials", "10"]
    assert main([*words, "-o", "here.safetensors", "--workers", "1"]) == 0
    assert main([*words, "-o", "there.safetensors", "--dask", cluster.scheduler_address]) == 0
    here, there = read_layer("here.safetensors"), read_layer("there.safetensors")
    assert (here.query.tobytes(), here.key.tobytes()) == (there.query.tobytes(), there.key.tobytes())
    assert here.threshold == there.threshold
    assert read_provenance("here.safetensors") == read_provenance("there.safetensors")  # which names no workers
    assert there.key_budget <= 12
    shown = capsys.readouterr().out
    assert "of 10 tries" in shown
