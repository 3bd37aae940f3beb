"""Rows prove themselves: damaged ones are named, set aside, trained again, and never counted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from pathlib import Path

import pytest
from support.sabotage import tiny

from manyheads import InputError
from manyheads.cli import main
from manyheads.sweep import Record, Store, sweep, threads
from manyheads.sweep.store.integrity import row_checksum
from manyheads.sweep.store.record import COLUMNS


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with Store.write(tmp_path / "s.db") as store, threads(1) as workers:
        sweep(tiny(range(4)), store, workers=workers)
    return tmp_path / "s.db"


def records(path: Path) -> list[Record]:
    with Store.read(path) as store:
        return store.records()


def change(path: Path, assignment: str, *, seed: int = 2, prove: bool = False) -> None:
    """Change a row behind the store's back; `prove` also computes its checksum anew, as a forger would."""
    connection = sqlite3.connect(path)
    connection.create_function("checksum_of", len(COLUMNS), lambda *row: row_checksum(row))
    connection.execute(f"UPDATE results SET {assignment} WHERE seed = {seed}")
    if prove:
        connection.execute(f"UPDATE results SET checksum = checksum_of({', '.join(COLUMNS)}) WHERE seed = {seed}")
    connection.commit()
    connection.close()


HIGH = "scores = json_set(scores, '$.micro_f1', 8.827)"


@pytest.mark.parametrize(
    ("assignment", "prove", "reason"),
    [
        (HIGH, False, "its checksum differs"),
        ("status = 'converged'", False, "its checksum differs"),
        ("steps = steps + 1", False, "its checksum differs"),
        ("seconds = seconds + 1", False, "its checksum differs"),
        ("curve = replace(curve, '20', '21')", False, "its checksum differs"),
        ("machine = replace(machine, 'cores', 'coret')", False, "its checksum differs"),
        (HIGH, True, "its score micro_f1 is 8.827, outside 0 to 1"),
        ("run = json_set(run, '$.steps', 41)", True, "its id is not the hash of its run"),
        ("id = '0011223344556677'", True, "its id is not the hash of its run"),
        ("scores = '[]'", True, "its scores have no names"),
        ("scores = json_set(scores, '$.fresh', 'x')", True, "its score fresh is not a finite number"),
    ],
)
def test_a_damaged_row_is_named_set_aside_and_trained_again(
    path: Path, assignment: str, prove: bool, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = records(path)
    change(path, assignment, prove=prove)
    before = path.read_bytes()
    assert main(["results", "--store", "s.db"]) == 0
    told, said = capsys.readouterr()
    assert "s.db holds 3 limit" in told
    assert said.startswith("manyheads: s.db: damaged rows, set aside and not counted: ")
    assert reason in said
    assert main(["results", "--store", "s.db", "--verify", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["sound"], facts["rows"], [row["reason"] for row in facts["damaged"]]) == (False, 3, [reason])
    assert path.read_bytes() == before  # reading changes nothing
    with Store.write(path) as store, threads(1) as workers:
        assert [row.reason for row in store.state.damaged] == [reason]
        assert len(store.records()) == 3
        sweep(tiny(range(4)), store, workers=workers)
        assert store.set_aside() == 1
    known = [{**vars(record), "seconds": 0, "recorded": ""} for record in good]
    assert [{**vars(record), "seconds": 0, "recorded": ""} for record in records(path)] == known
    assert main(["results", "--store", "s.db", "--verify"]) == 0
    assert "4 rows are proved, 0 are damaged, 1 were set aside before" in capsys.readouterr().out


def test_a_column_that_sqlite_computed_is_checked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain SQL reads it; it is not in the checksum, and no index has a second copy of it."""
    content = path.read_bytes()
    embedding = b"gaussianpermutation" if b"gaussianpermutation" in content else b"gaussianmaxedges"
    assert content.count(embedding) == 4
    path.write_bytes(content.replace(embedding, b"gaussiam" + embedding[8:], 1))
    assert len(records(path)) == 4
    assert main(["results", "--store", "s.db", "--verify"]) == 1
    assert "a column that SQLite computed is not as it was" in capsys.readouterr().out


def test_a_damaged_index_is_rebuilt_and_no_row_is_lost(path: Path) -> None:
    good, content = records(path), bytearray(path.read_bytes())
    # in the table, and in the index of the primary key
    places = [at for at in range(len(content)) if content.startswith(good[1].id.encode(), at)]
    assert len(places) == 2
    found = []
    for at in places:
        damaged = bytearray(content)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        found.append(records(path))
        with Store.write(path) as store:
            assert store.records() == found[-1]
            assert store.state.notes[0].startswith("the file was damaged (")
    assert sorted(map(len, found)) == [3, 4]  # a damaged id in the table, a damaged index


def test_verify_says_that_a_sound_store_is_sound(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--store", "s.db", "--verify"]) == 0
    told, said = capsys.readouterr()
    assert told.splitlines() == ["sound", "s.db: 4 rows are proved, 0 are damaged, 0 were set aside before"]
    assert said == ""


def test_a_store_whose_pages_are_destroyed_is_damaged(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    assert main(["results", "--store", "s.db"]) == 2
    assert capsys.readouterr().err.startswith("manyheads: the store s.db cannot be used: ")
    assert main(["results", "--store", "s.db", "--verify"]) == 1
    assert capsys.readouterr().out.startswith("damaged\n")


NUMBERS = "WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n) SELECT 1, k FROM n"


@pytest.mark.parametrize(
    "hostile",
    [
        "TRIGGER t AFTER INSERT ON results BEGIN DELETE FROM results WHERE id != new.id; END",
        f"TRIGGER t AFTER INSERT ON results BEGIN INSERT INTO damaged (found, reason) {NUMBERS}; END",
        "TRIGGER t AFTER UPDATE ON results BEGIN DELETE FROM results; END",
        "INDEX t ON results (length(zeroblob(length(id) * 10000000)))",
    ],
)
def test_a_store_with_sql_that_would_run_is_refused(
    path: Path, hostile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQL of others that runs with each new result: it deleted the other results, or filled the disk or the memory."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE VIEW own AS SELECT * FROM results")
    Store.write(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"CREATE {hostile}")
    before = path.read_bytes()
    for opened in (Store.write, Store.read):
        with pytest.raises(InputError, match="the definition of its tables is not that of a store"):
            opened(path)
    assert main(["results", "--store", str(path), "--verify"]) == 1
    assert "damaged" in capsys.readouterr().out
    assert path.read_bytes() == before
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 3")  # nor does it run while an older store is brought up to date
        connection.execute("ALTER TABLE results DROP COLUMN checksum")
    before = path.read_bytes()
    with pytest.raises(InputError, match="the definition of its tables is not that of a store"):
        Store.write(path)
    assert path.read_bytes() == before


def test_an_older_store_is_brought_up_to_date_and_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "ALTER TABLE results DROP COLUMN checksum; DROP TABLE damaged; PRAGMA user_version = 2; "
        "UPDATE results SET scores = json_set(scores, '$.micro_f1', 8.827) WHERE seed = 1"
    )
    connection.close()
    assert main(["results", "--store", "s.db"]) == 0
    told, said = capsys.readouterr()
    assert "s.db holds 3 limit" in told
    assert "the store was of schema 2: it was brought up to 4, with a checksum a row" in said
    assert "its score micro_f1 is 8.827" in said
    with Store.write(path) as store:
        assert len(store.records()) == 3
        assert len(store.state.notes) == 2
    with Store.read(path) as store:
        assert store.state.notes == []


def test_a_result_out_of_its_range_is_not_stored(tmp_path: Path) -> None:
    (run,) = tiny([0])
    record = Record.of(run, "layer", "native", status="limit", scores={"micro_f1": 1.5}, steps=1, seconds=0.1)
    with Store.write(tmp_path / "s.db") as store:
        with pytest.raises(InputError, match=r"its score micro_f1 is 1\.5, outside 0 to 1"):
            store.add([record])
        assert store.records() == []


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        ("[]", "its run has no fields"),
        ("{}", "its run has no items that is a whole number of at least 1"),
        ("json_remove(run, '$.heads')", "its run has no heads that is a whole number of at least 1"),
        ("json_set(run, '$.key_heads', 3)", "its run has key_heads that its heads cannot share evenly"),
        ("json_set(run, '$.rule', json('[1]'))", "its run has a field that is a list"),
    ],
)
def test_a_forged_run_is_one_sentence(path: Path, run: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Checksum and id are right, so that the row is not damaged."""
    connection = sqlite3.connect(path)
    value = run if "(" in run else f"'{run}'"
    ((text,),) = connection.execute(f"SELECT {value} FROM results WHERE seed = 2").fetchall()
    connection.close()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    change_all = f"run = '{text}', id = '{name}'"
    connection = sqlite3.connect(path)
    connection.create_function("checksum_of", len(COLUMNS), lambda *row: row_checksum(row))
    connection.execute(f"UPDATE results SET {change_all} WHERE seed = 2")
    connection.execute(f"UPDATE results SET checksum = checksum_of({', '.join(COLUMNS)}) WHERE id = '{name}'")
    connection.commit()
    connection.close()
    assert main(["results", "--store", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"the row {name} was not written by manyheads ({fault})" in said
    assert said.count("\n") == 1
    assert main(["results", "--store", str(path), "--verify"]) != 0
    assert fault in "".join(capsys.readouterr())
