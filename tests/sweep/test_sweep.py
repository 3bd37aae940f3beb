"""sweep: each promise with a test that can fail. The runs are tiny, but really trained."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import changed
from support.sabotage import HERE, TINY, Killer, Sabotaged, delays, impatient, outcome, tiny

from manyheads import Graph, InputError, gaussian
from manyheads.sweep import Record, Store, SweepProgress, Workers, processes, sweep, threads


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    path = tmp_path_factory.mktemp("whole") / "s.db"
    with Store.write(path) as store:
        sweep(tiny(range(40)), store)
    return outcome(path)


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Workers]:
    with processes(2) as workers:
        yield workers


def test_records_come_back_in_the_order_of_the_runs(tmp_path: Path) -> None:
    runs = tiny([3, 1, 2], [3, 1])
    with Store.write(tmp_path / "s.db") as store:
        assert [record.id for record in sweep(runs, store)] == [run.id for run in runs]
        assert [record.id for record in sweep([runs[0], runs[0]], store)] == [runs[0].id]


def test_running_twice_trains_once(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    with Store.write(tmp_path / "s.db") as store:
        first = sweep(tiny(range(6)), store)
        again = sweep(tiny(range(6)), store, progress=seen.append)
    assert first == again
    assert [(step.done, step.total, step.latest) for step in seen] == [(6, 6, ())]


@pytest.mark.parametrize("count", [1, 2, None])
def test_results_do_not_depend_on_order_or_workers(
    tmp_path: Path, uninterrupted: list[dict[str, object]], count: int | None, two_processes: Workers
) -> None:
    runs = tiny(range(40))
    random.Random(1).shuffle(runs)
    workers = two_processes if count is None else threads(count)
    with Store.write(tmp_path / "s.db") as store:
        sweep(runs[:7], store, workers=workers)
        sweep(runs, store, workers=workers)
    assert outcome(tmp_path / "s.db") == uninterrupted


def test_an_executor_of_the_callers_own_serves_and_stays_open(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store, ThreadPoolExecutor(1) as executor:
        assert len(sweep(tiny(range(3)), store, workers=executor)) == 3
        assert len(sweep(tiny(range(5)), store, workers=executor)) == 5


def test_an_executor_of_the_callers_own_that_breaks_is_reported(tmp_path: Path) -> None:
    with (
        Store.write(tmp_path / "s.db") as store,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor,
        pytest.raises(InputError, match="killed a worker of the given executor"),
    ):
        sweep(tiny([14]), store, trainer=Sabotaged(), workers=executor)


def test_a_failed_run_is_failed_not_low_and_not_tried_for_ever(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        (lost, whole) = sweep(tiny([17, 0]), store, trainer=Sabotaged())
        assert (lost.status, lost.scores, lost.error) == ("failed", {}, "ArithmeticError: seventeen")
        assert whole.status == "limit"
        for attempts in (2, 3, 3):  # tried again by later sweeps, but not for ever
            assert sweep(tiny([17]), store, trainer=Sabotaged())[0].attempts == attempts


def test_a_given_graph_and_embedding_travel_to_the_workers(tmp_path: Path, two_processes: Workers) -> None:
    graph = Graph(8, sources=np.arange(8), targets=np.roll(np.arange(8), 1))
    run = changed(TINY, graph=graph, embedding=gaussian(8, 4, seed=5))
    for name, workers in (("t", threads(1)), ("p", two_processes)):
        with Store.write(tmp_path / name) as store:
            (record,) = sweep([run], store, workers=workers)
            assert record.status in ("converged", "limit")
    assert outcome(tmp_path / "t") == outcome(tmp_path / "p")


def test_impossible_runs_are_all_named_before_anything_starts(tmp_path: Path) -> None:
    lost = [changed(run, rule="sum") for run in tiny([1, 2])]  # no rule of the native engine
    with Store.write(tmp_path / "s.db") as store:
        with pytest.raises(InputError, match="2 of 3 runs are impossible") as refused:
            sweep([TINY, *lost], store)
        assert all(run.id in str(refused.value) for run in lost)
        assert str(refused.value).count("the native engine trains max and softmax") == 1  # a reason is said once
        assert store.records() == []


def test_the_most_new_runs_are_kept_to_and_the_rest_has_no_record(tmp_path: Path) -> None:
    seen: list[SweepProgress] = []
    with Store.write(tmp_path / "s.db") as store:
        first = sweep(tiny([0, 1]), store, max_new=1)
        assert [record.run["seed"] for record in first] == [0]
        later = sweep(tiny([3, 0, 1]), store, max_new=1, progress=seen.append)
        assert [record.run["seed"] for record in later] == [3, 0]  # a stored run costs nothing
        assert (seen[-1].done, seen[-1].total) == (2, 2)
        assert [record.run["seed"] for record in sweep(tiny([3, 0, 1]), store, max_new=0)] == [3, 0]


def test_the_store_is_asked_once_and_returns_what_it_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.write(tmp_path / "s.db") as store:
        sweep(tiny([0]), store)
        asked = []
        records = Store.records

        def counted(self: Store, *args: object, **how: object) -> list[Record]:
            asked.append(how)
            return records(self, *args, **how)  # type: ignore[arg-type]

        monkeypatch.setattr(Store, "records", counted)
        made = sweep(tiny([0, 1, 2]), store)
        assert len(asked) == 1
        assert made == records(store)


@pytest.mark.long
def test_a_hundred_kills_lose_nothing(tmp_path: Path, uninterrupted: list[dict[str, object]]) -> None:
    path, kills, rows, delay, killer = tmp_path / "s.db", 0, 0, delays(7), Killer()
    while kills < 100:
        kills += killer.sweep(path, range(40), 2, delay())
        if not path.exists():
            continue
        with Store.read(path) as store:
            assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            now = store.counts().get("limit", 0)
            assert now >= rows, "a committed result was lost"
            rows = now
        if rows == 40:  # so that there always is something left to be killed at
            connection = sqlite3.connect(path)
            connection.execute("DELETE FROM results WHERE seed > 2")
            connection.commit()
            connection.close()
            rows = 3
    killer.close()
    with Store.write(path) as store:
        sweep(tiny(range(40)), store)
    assert outcome(path) == uninterrupted


@pytest.mark.parametrize("poison", [13, 14, 15])
def test_a_run_that_kills_its_worker_costs_only_itself(tmp_path: Path, poison: int, two_processes: Workers) -> None:
    with Store.write(tmp_path / "s.db") as store:
        records = sweep(tiny([0, 1, poison, 2, 3]), store, trainer=Sabotaged(), workers=two_processes, tries=2)
        assert [record.status for record in records] == ["limit", "limit", "quarantined", "limit", "limit"]
        assert (records[2].attempts, records[2].scores) == (2, {})
        assert sweep(tiny([poison]), store, trainer=Sabotaged(), workers=two_processes) == [records[2]]


def test_a_run_that_takes_too_much_memory_costs_only_itself(tmp_path: Path, two_processes: Workers) -> None:
    with Store.write(tmp_path / "s.db") as store:
        records = sweep(tiny([0, 18, 1]), store, trainer=Sabotaged(), workers=two_processes)
    assert [record.status for record in records] == ["limit", "failed", "limit"]
    assert records[1].error == "MemoryError: "


def test_a_run_ends_with_its_time_limit(tmp_path: Path) -> None:
    slow = changed(TINY, steps=10**9)
    clock = time.monotonic()
    with Store.write(tmp_path / "s.db") as store:
        (record,) = sweep([slow], store, time_limit=0.3)
    assert (record.status, record.score("micro_f1")) == ("timeout", None)
    assert time.monotonic() - clock < 5
    with Store.write(tmp_path / "s.db") as store:  # a larger limit takes it up again
        assert sweep([slow], store, time_limit=0.1)[0].attempts == 2


def test_a_run_deaf_to_its_time_limit_is_ended_with_its_process(tmp_path: Path) -> None:
    spawn = get_context("spawn")
    workers = Workers(lambda: ProcessPoolExecutor(1, mp_context=spawn, initializer=impatient), 1, together=True)
    with Store.write(tmp_path / "s.db") as store, workers:
        records = sweep(tiny([0, 16]), store, trainer=Sabotaged(), workers=workers, time_limit=0.2, tries=1)
        assert [record.status for record in records] == ["limit", "quarantined"]


def test_a_sweep_stops_at_its_deadline_and_goes_on_later(tmp_path: Path) -> None:
    endless = changed(TINY, steps=10**9)
    runs = [*tiny(range(3)), endless, *(changed(endless, seed=seed) for seed in range(9))]
    with Store.write(tmp_path / "s.db") as store:
        clock = time.monotonic()
        records = sweep(runs, store, workers=threads(2), deadline=clock + 0.5)
        assert time.monotonic() - clock < 2.5
        assert [record.status for record in records] == ["limit"] * 3 + ["cancelled"] * 2
        assert len(sweep(tiny(range(3)), store)) == 3


INTERRUPTED = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from support.runs import changed
    from support.sabotage import TINY, tiny
    from manyheads.sweep import Store, processes, sweep, threads

    def show(progress):
        print(progress.done, flush=True)

    if __name__ == "__main__":
        workers = processes(2) if sys.argv[3] == "processes" else threads(2)
        with Store.write(Path(sys.argv[1])) as store:
            endless = [changed(TINY, steps=10**9, seed=seed) for seed in (4, 5)]
            sweep(tiny(range(3)) + endless, store, workers=workers, progress=show)
"""


@contextmanager
def endless_sweep(folder: Path, workers: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has stored three runs and is at two that never end."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    command = [sys.executable, str(script), str(folder / "s.db"), str(HERE), workers]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed
    ) as child:
        assert child.stdout is not None
        while child.stdout.readline() != "3\n":
            assert child.poll() is None, child.communicate()[1]
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_ctrl_c_stops_within_two_seconds_and_keeps_what_is_done(tmp_path: Path, workers: str) -> None:
    with endless_sweep(tmp_path, workers) as child:
        clock = time.monotonic()
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers, too
        child.wait(timeout=10)
        took = time.monotonic() - clock
    assert took < 2
    with Store.read(tmp_path / "s.db") as store:
        assert store.counts()["limit"] == 3
        assert store.counts().keys() <= {"limit", "cancelled"}
    assert left_after_a_moment(child.pid) == []


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path, by: signal.Signals) -> None:
    with endless_sweep(tmp_path, "processes") as child:
        assert len(orphans(child.pid)) >= 3
        child.send_signal(by)  # to the parent alone
        child.wait(timeout=10)
        assert left_after_a_moment(child.pid) == []


def left_after_a_moment(group: int) -> list[str]:
    """The processes of a group that do not go; Python's own resource tracker leaves a moment after its parent."""
    deadline = time.monotonic() + 5
    while (left := orphans(group)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def heed() -> None:
    """A test run in the background inherits that SIGINT is ignored, and so would its child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def orphans(group: int) -> list[str]:
    """The processes of a group that are still there."""
    found = subprocess.run(["ps", "-o", "pid=", "-g", str(group)], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_a_store_that_cannot_be_written_ends_the_sweep_and_resume_works_after(
    tmp_path: Path, uninterrupted: list[dict[str, object]]
) -> None:
    with Store.write(tmp_path / "s.db") as store:
        sweep(tiny(range(4)), store)  # there is something to lose, however many rows the first full write would hold
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(InputError, match="full"):
            sweep(tiny(range(40)), store)
        assert 4 <= len(store.records()) < 40
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        store._connection.execute("PRAGMA max_page_count = 100000")
        sweep(tiny(range(40)), store)
    assert outcome(tmp_path / "s.db") == uninterrupted


class LostClient(Executor):
    """As a Dask client whose scheduler died: after the first unit nothing can be submitted, cancelled or shut down."""

    class ClosedClientError(Exception):
        __module__ = "distributed.client"

    class Unit(Future[Any]):
        def cancel(self) -> bool:
            raise LostClient.ClosedClientError("cannot cancel")

    sent = 0

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        self.sent += 1
        if self.sent > 1:
            raise self.ClosedClientError("cannot send")
        return self.Unit()

    def shutdown(self, *_: Any, **__: Any) -> None:
        raise self.ClosedClientError("cannot shut down")


def test_a_client_that_lost_its_scheduler_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.sweep.runner.STOP_SECONDS", 0.01)
    with (
        Store.write(tmp_path / "s.db") as store,
        Workers(LostClient, 2, together=True) as workers,
        pytest.raises(InputError, match="the workers were taken away: run the same again"),
    ):
        sweep(tiny(range(8)), store, workers=workers)
