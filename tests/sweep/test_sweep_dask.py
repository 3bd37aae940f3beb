"""Dask: the very same sweep on a cluster of two worker processes."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
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


OTHERS = """
import gc, sys
from manyheads import InputError, executors
from manyheads.sweep import dask
executors.CONNECT_SECONDS = 2
for address in sys.argv[1:]:
    try:
        print("accepted", dask(address))
    except InputError as error:
        assert str(error).startswith("no Dask scheduler answers at"), error
    gc.collect()  # a client that is only half made complains where it is collected
"""


def answer_wrongly(listener: socket.socket, answers: Sequence[bytes]) -> None:
    """Answer each caller with bytes that are none of Dask's, and keep the connection open until the caller ends it."""
    for answer in answers:
        with listener.accept()[0] as caller:
            caller.sendall(answer)
            while caller.recv(1 << 16):
                pass


def test_addresses_where_no_scheduler_is_are_a_sentence_without_noise(cluster: LocalCluster) -> None:
    """An HTTP server made the command wait for ever; a wrong address, print tracebacks of Dask."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answers = (b"HTTP/1.0 400 Bad Request\r\n\r\n" * 10, b"", b"\0" * 64)
        threading.Thread(target=answer_wrongly, args=(listener, answers), daemon=True).start()
        other = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        worker = next(iter(cluster.workers.values())).worker_address
        addresses = ["", "x", "tcp://[::1", "tcp://127.0.0.1:99999", "inproc://x", "/etc/passwd", *[other] * 3, worker]
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", OTHERS, *addresses], capture_output=True, text=True, timeout=180, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - begun < 120


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
