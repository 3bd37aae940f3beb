"""The writer's lock: one for each store, whatever name leads to it, and no file but the store is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyheads import InputError
from manyheads.sweep import Store
from manyheads.sweep.store import lock as lock_module

HOLD = """
import sys, time
from pathlib import Path
from manyheads.sweep import Store
store = Store.write(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """The id of a process that writes s.db."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "s.db")], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder.pid
        finally:
            holder.kill()


@pytest.mark.parametrize("link", ["symlink", "hard link", "directory", "relative"])
def test_every_name_of_a_store_leads_to_its_one_lock(
    link: str, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    name = other / "t.db"
    if link == "symlink":
        name.symlink_to(tmp_path / "s.db")
    elif link == "hard link":
        os.link(tmp_path / "s.db", name)
    elif link == "directory":
        (other / "d").symlink_to(tmp_path)
        name = other / "d" / "s.db"
    else:
        monkeypatch.chdir(other)
        name = Path("..", "s.db")
    with pytest.raises(InputError, match=f"is being written by process {held}: wait for it or stop it"):
        Store.write(name)
    with Store.read(name) as store:  # readers are not kept out
        assert store.records() == []


def test_a_second_writer_of_the_same_process_is_refused_by_any_name(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db"):
        os.link(tmp_path / "s.db", tmp_path / "t.db")
        for name in ("s.db", "t.db"):
            with pytest.raises(InputError, match=f"is being written by process {os.getpid()}"):
                Store.write(tmp_path / name)
    Store.write(tmp_path / "t.db").close()


def test_a_file_with_the_name_of_a_lock_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("version = 1\n")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "s.db.lock").symlink_to(tmp_path / "precious")
    for name in ("uv", "s.db"):
        Store.write(tmp_path / name).close()
    assert (tmp_path / "uv.lock").read_text() == "version = 1\n"
    assert (tmp_path / "precious").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["precious", "s.db", "s.db.lock", "uv", "uv.lock"]


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
@pytest.mark.parametrize("kind", ["file", "symlink", "directory"])
def test_a_file_that_sqlite_would_delete_as_its_journal_is_refused_untouched(
    ending: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"my{ending}"
    if kind == "directory":
        path.mkdir()
    else:
        (path if kind == "file" else tmp_path / "precious").write_text("dear diary")
    if kind == "symlink":
        path.symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match=f"my{ending} is not a journal of the store"):
        Store.write(tmp_path / "my")
    assert kind == "directory" or path.read_text() == "dear diary"
    assert not (tmp_path / "my").exists()


def test_a_full_disk_is_one_sentence_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = """
import resource, signal, sys
from pathlib import Path
from manyheads.sweep import Store
Store.temporary().close()  # imports write nothing later
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    Store.write(Path("s.db"))
except ValueError as error:
    sys.stderr.write(str(error))
"""
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([sys.executable, "-c", full], capture_output=True, text=True, check=True)
    assert "the store s.db cannot be used: " in done.stderr
    assert "\n" not in done.stderr
    assert os.listdir() == []


def test_a_store_that_is_replaced_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    Store.write(path).close()
    acquire = lock_module.WriterLock.acquire

    def late(store: Path) -> lock_module.WriterLock:
        taken = acquire(store)
        store.rename(tmp_path / "old.db")
        store.write_bytes((tmp_path / "old.db").read_bytes())
        return taken

    monkeypatch.setattr(lock_module.WriterLock, "acquire", late)
    with pytest.raises(InputError, match="was replaced by another file"):
        Store.write(path)


PROBE = """
import sys
from pathlib import Path
from manyheads.sweep.store import lock
from manyheads.sweep import Store
lock.HAS_OPEN_FILE_LOCKS = False
Store.write(Path(sys.argv[1]))
"""


def test_a_system_without_open_file_locks_has_the_same_lock_for_every_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "HAS_OPEN_FILE_LOCKS", False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Store.write(tmp_path / "s.db") as store:
        os.link(tmp_path / "s.db", tmp_path / "t.db")
        store.add([])  # SQLite gives up the ordinary locks of its process
        with pytest.raises(InputError, match="is being written by another process"):
            Store.write(tmp_path / "t.db")
        done = subprocess.run(
            [sys.executable, "-c", PROBE, str(tmp_path / "t.db")], capture_output=True, text=True, check=False
        )
        assert "is being written by another process" in done.stderr
    Store.write(tmp_path / "t.db").close()


def test_a_process_of_another_machine_is_named_so(held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(process: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", absent)
    with pytest.raises(InputError, match=f"process {held} of another machine or container"):
        Store.write(tmp_path / "s.db")
    monkeypatch.undo()


def test_a_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("manyheads.sweep.store.lock.fcntl.fcntl", refuse)
    with pytest.raises(InputError, match="cannot be locked: No locks available"):
        Store.write(tmp_path / "s.db")
    assert os.listdir(tmp_path) == []
