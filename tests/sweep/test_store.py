"""Store: whole or absent, one writer, older schemas welcome, strangers refused untouched."""

from __future__ import annotations

import hashlib
import json
import math
import random
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.runs import make_run

from manyheads import InputError
from manyheads.identity import fields_id
from manyheads.sweep import Record, Store
from manyheads.sweep.store.integrity import APPLICATION_ID, MIGRATIONS, VERSION, row_checksum
from manyheads.sweep.store.record import COLUMNS, Status


def record(seed: int = 0, *, micro_f1: float | None = 0.5, status: Status = "limit", **changes: Any) -> Record:
    run = make_run(items=64, d_model=16, heads=2, key_width=5, seed=seed)
    made = Record.of(
        run,
        "layer",
        "native",
        status="limit",
        scores={"micro_f1": micro_f1},
        steps=20,
        seconds=0.1,
        curve=[(20, 0.5, 0.1)],
    )
    return replace(made, status=status, **changes)


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    records = [record(seed, micro_f1=0.1 + seed / 7) for seed in range(5)]
    with Store.write(tmp_path / "s.db") as store:
        store.add(records)
    with Store.read(tmp_path / "s.db") as store:
        assert store.records() == records
        assert store.counts() == {"limit": 5}
        assert store.records({"seed": 3}) == [records[3]]
        assert store.records({"items": 65}) == []
        assert store.records(ids=[records[1].id]) == [records[1]]
        with pytest.raises(InputError, match="cannot filter by 'colour'"):
            store.records({"colour": 3})


def test_the_schema_is_readable_with_plain_sql(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        store.add([record(4)])
    connection = sqlite3.connect(tmp_path / "s.db")
    row = connection.execute(
        "SELECT items, d_model, heads, key_width, key_budget, seed, graph, rule, micro_f1, exact_errors FROM results"
    )
    assert row.fetchall() == [(64, 16, 2, 5, 10, 4, "permutation", "max", 0.5, None)]
    connection.close()


def test_a_row_proves_its_own_id(tmp_path: Path) -> None:
    made = record(4)
    with Store.write(tmp_path / "s.db") as store:
        store.add([made])
        ((text,),) = store._connection.execute("SELECT run FROM results").fetchall()
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == made.id
    assert made.run["positive_weight"] == 15.0  # every default settled


def test_what_is_not_finite_is_missing(tmp_path: Path) -> None:
    run = make_run(items=64, d_model=16, heads=2, key_width=5, seed=0)
    made = Record.of(
        run,
        "layer",
        "native",
        status="diverged",
        scores={"margin": math.inf},
        steps=20,
        seconds=0.1,
        curve=[(20, 0.0, math.nan)],
    )
    assert (made.score("margin"), json.loads(made.curve)) == (None, [[20, 0.0, None]])


def test_anything_with_an_id_and_fields_is_kept(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Block:
        layers: int

        @property
        def id(self) -> str:
            return fields_id(self.fields)

        @property
        def fields(self) -> dict[str, object]:
            return {"layers": self.layers}

    made = Record.of(Block(3), "block", "torch", status="limit", scores={"accuracy": 0.25}, steps=20, seconds=0.1)
    with Store.write(tmp_path / "s.db") as store:
        store.add([made, record()])
        assert store.records({"kind": "block"}) == [made]
        assert made.score("accuracy") == 0.25


def test_a_finished_result_is_final_and_any_other_gives_way(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        store.add([record(status="timeout", micro_f1=None)])
        store.add([record(micro_f1=0.7)])
        store.add([record(micro_f1=0.1)])
        store.add([record(status="failed", micro_f1=None)])
        assert [found.score("micro_f1") for found in store.records()] == [0.7]


def test_records_are_added_all_or_none(tmp_path: Path) -> None:
    block = replace(record(1), kind="block", run={"items": "many"}, id=fields_id({"items": "many"}))
    with Store.write(tmp_path / "s.db") as store:
        with pytest.raises(InputError, match="cannot store TEXT"):
            store.add([record(0), block])
        assert store.records() == []


def test_journal_and_synchronous_are_the_safe_ones(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def older(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    for migration in MIGRATIONS[:version]:
        connection.execute(migration)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    made = record(7)
    values = made.columns()
    connection.execute(f"INSERT INTO results ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})", values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_schema_opens(tmp_path: Path, version: int) -> None:
    older(tmp_path / "s.db", version)
    before = (tmp_path / "s.db").read_bytes()
    with Store.read(tmp_path / "s.db") as store:
        assert [found.score("micro_f1") for found in store.records()] == [0.5]
    assert (tmp_path / "s.db").read_bytes() == before
    with Store.write(tmp_path / "s.db") as store:
        store.add([record(8)])
        assert len(store.records()) == 2
        assert store._connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_newer_schema_is_refused_politely(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        store._connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    for open_it in (Store.read, Store.write):
        with pytest.raises(InputError, match="newer manyheads"):
            open_it(tmp_path / "s.db")


@pytest.mark.parametrize("content", [b"source,target\n0,1\n" * 90, random.Random(0).randbytes(5000), b"x"])
def test_what_is_not_a_store_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    for open_it in (Store.read, Store.write):
        with pytest.raises(InputError, match="not a manyheads store"):
            open_it(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE results (id)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="not a manyheads store"):
        Store.write(path)
    assert path.read_bytes() == before


def test_no_store_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no store"):
        Store.read(tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys, time
from pathlib import Path
from manyheads.sweep import Store
store = Store.write(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_writer_is_told_who_the_first_is_and_gets_in_when_it_died(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(InputError, match=f"is being written by process {holder.pid}: wait"):
                Store.write(path)
            with Store.read(path) as store:  # readers are not kept out
                assert store.records() == []
        finally:
            holder.kill()
    with Store.write(path) as store:
        store.add([record()])


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_store import record
from manyheads import InputError
from manyheads.sweep import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Store.write(Path(sys.argv[1])) as store:
    store.add([record(0)])
    size = Path(sys.argv[1]).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        store.add([record(seed, error="x" * 4000) for seed in range(1, 200)])
    except InputError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.add([record(500)])
"""


def test_a_full_disk_is_reported_and_corrupts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(here), str(here.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be used" in done.stdout
    with Store.read(path) as store:
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert {found.id for found in store.records()} == {record(0).id, record(500).id}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "absent" / "s.db", Path("/proc/s.db")):
        with pytest.raises(InputError, match="cannot be written"):
            Store.write(path)


def test_a_disk_that_turns_read_only_is_reported_and_corrupts_nothing(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        store.add([record(0)])
        store._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(InputError, match=r"cannot be used: attempt to write a readonly database"):
            store.add([record(1)])
        store._connection.execute("PRAGMA query_only = OFF")
        store.add([record(2)])
        assert [found.run["seed"] for found in store.records()] == [0, 2]


TORN = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_spill = 1")
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE results SET error = printf('%.*c', 100000, 'x')")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("open_it", [Store.read, Store.write])
def test_what_a_killed_writer_left_half_done_is_undone(tmp_path: Path, open_it: Callable[[Path], Store]) -> None:
    path = tmp_path / "s.db"
    with Store.write(path) as store:
        store.add([record(seed) for seed in range(50)])
    before = path.read_bytes()
    subprocess.run([sys.executable, "-c", TORN, str(path)], check=False)
    assert (tmp_path / "s.db-journal").stat().st_size > 0
    assert path.read_bytes() != before
    with open_it(path) as store:
        assert [found.error for found in store.records()] == [None] * 50
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_store_whose_maker_was_killed_is_empty(tmp_path: Path) -> None:
    """The header has the version of the schema already, and the journal takes it back."""
    path = tmp_path / "s.db"
    Store.write(path).close()
    # magic, pages in the journal, nonce, pages of the database before, size of a sector, size of a page
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">iIIII", 0, 1, 0, 512, 4096)
    (tmp_path / "s.db-journal").write_bytes(header.ljust(512, b"\0"))
    with Store.read(path) as store:
        assert store.records() == []
    with Store.write(path) as store:
        store.add([record()])


def multiply(store: Store, count: int) -> None:
    """Copies of the only row, each with another run and with its own id and checksum."""
    names = ", ".join(name for name in COLUMNS if name not in ("id", "run"))
    connection = store._connection
    connection.create_function("run_id", 1, lambda run: hashlib.sha256(run.encode()).hexdigest()[:16])
    connection.create_function("checksum_of", len(COLUMNS), lambda *row: row_checksum(row))
    connection.execute("BEGIN")
    connection.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}), copies(copy) AS "
        "(SELECT json_set(run, '$.seed', i % 1000, '$.problem_seed', i) FROM n, results) "
        f"INSERT INTO results (id, run, {names}) SELECT run_id(copy), copy, {names} FROM copies, results"
    )
    connection.execute(f"UPDATE results SET checksum = checksum_of({', '.join(COLUMNS)})")
    connection.execute("COMMIT")


def test_twenty_thousand_rows_open_list_and_filter_within_seconds(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store:
        store.add([record(0)])
        multiply(store, 20_000)
    clock = time.perf_counter()
    with Store.read(tmp_path / "s.db") as store:
        assert time.perf_counter() - clock < 20  # every row is proved; benchmarks/ has the number
        assert store.state.rows == 20_000
        assert not store.state.notes
        clock = time.perf_counter()
        assert len(store.records({"seed": 17})) == 20
        assert len(store.records(limit=50)) == 50
        filtered = time.perf_counter() - clock
    # generous: this guards against a missing index or a JSON parse of every row, benchmarks/ has the number
    assert filtered < 3
