"""Rows survive their file; other files are refused."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from support.made_up import made_up

from manyheads import InputError
from manyheads.papers import CAPACITY, Rows, Scale, exhibit_names, needed, read_rows, write_rows

QUICK = Scale(quick=True)


NAMES = exhibit_names(CAPACITY)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)], machine={"cpu": "made up"})


def test_rows_survive_their_file(rows: Rows, tmp_path: Path) -> None:
    runs = needed(NAMES, QUICK)
    write_rows(tmp_path / "a.jsonl.gz", rows, runs)
    again = read_rows(tmp_path / "a.jsonl.gz")
    assert again.of(runs) == rows.of(runs)
    assert again.machine == rows.machine
    write_rows(tmp_path / "b.jsonl.gz", again, runs)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_rows_of_another_protocol_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"format": "manyheads paper rows 1", "protocol": 0, "machine": {}}) + "\n")
    with pytest.raises(InputError, match="protocol 0"):
        read_rows(path)


def test_rows_that_were_changed_are_refused(rows: Rows, tmp_path: Path) -> None:
    path, changed = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    write_rows(path, rows, needed(NAMES, QUICK))
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    header = json.loads(lines[0])
    steps = re.sub(rb'"steps":(\d)', rb'"steps":1\1', lines[1])
    assert steps != lines[1]
    damaged = {
        "a number": [lines[0], steps, *lines[2:]],
        "a line less": [lines[0], *lines[2:]],
        "the machine": [json.dumps(header | {"machine": {"cpu": "another"}}, sort_keys=True).encode(), *lines[1:]],
        "the checksum": [json.dumps(header | {"checksum": None}, sort_keys=True).encode(), *lines[1:]],
    }
    for content in damaged.values():
        changed.write_bytes(gzip.compress(b"\n".join(content), mtime=0))
        with pytest.raises(InputError, match="was changed after it was written: its checksum differs"):
            read_rows(changed)


def test_rows_of_the_format_without_a_checksum_are_read(rows: Rows, tmp_path: Path) -> None:
    runs, path = needed(NAMES, QUICK), tmp_path / "a.jsonl.gz"
    write_rows(path, rows, runs)
    first, rest = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    header = {name: value for name, value in json.loads(first).items() if name != "checksum"}
    older = json.dumps(header | {"format": "manyheads paper rows 1"}).encode()
    path.write_bytes(gzip.compress(older + b"\n" + rest, mtime=0))
    assert read_rows(path).of(runs) == rows.of(runs)
    impossible = re.sub(rb'"micro_f1":[0-9.]+', b'"micro_f1":8.827', rest, count=1)
    path.write_bytes(gzip.compress(older + b"\n" + impossible, mtime=0))
    with pytest.raises(InputError, match=r"line \d+: the row is not as it was measured: its score micro_f1 is 8.827"):
        read_rows(path)


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"[1]\n", mtime=0), gzip.compress(b"{\n", mtime=0)]
)
def test_what_is_no_file_of_rows_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not hold rows"):
        read_rows(path)


def test_rows_are_written_whole_or_not_at_all(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.jsonl.gz"
    file.write_text("mine")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("manyheads.files.atomic_files.os.fsync", fail)
    with pytest.raises(InputError, match="No space left"):
        write_rows(file, rows, needed(("fig3",), QUICK))
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]
