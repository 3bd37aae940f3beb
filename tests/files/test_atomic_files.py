"""A file appears complete or not at all; a file that cannot be read is refused."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyheads import InputError, Layer, gaussian, permutation_graph
from manyheads.files import (
    pack_embedding,
    pack_graph,
    pack_layer,
    read_embedding,
    read_graph,
    read_layer,
    write_embedding,
    write_export,
    write_graph,
    write_layer,
    write_together,
)

ROWS = gaussian(4, 3, seed=0)
QUERY, KEY = np.random.default_rng(0).standard_normal((2, 2, 3, 2)).astype(np.float32)
LAYER = Layer(QUERY, KEY, threshold=1 / 3)
READERS = [
    (read_graph, "a.csv"),
    (read_embedding, "a.npy"),
    (read_embedding, "a.safetensors"),
    (read_layer, "a.safetensors"),
]


@pytest.mark.parametrize(("read", "name"), READERS)
def test_a_file_that_is_not_there_to_be_read(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(InputError, match="does not exist"):
        read(path)
    with pytest.raises(InputError, match="has no NUL character"):
        read(Path(f"{tmp_path}/\0/{name}"))
    path.touch()
    with pytest.raises(InputError, match="is empty"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        read(path)
    path.rmdir()
    os.mkfifo(path)  # reading it would wait for ever
    with pytest.raises(InputError, match="not a regular file"):
        read(path)


WRITERS = [
    ("a.csv", lambda path, force: write_graph(path, permutation_graph(4, seed=0), force=force)),
    ("a.npy", lambda path, force: write_embedding(path, ROWS, force=force)),
    ("a.safetensors", lambda path, force: write_layer(path, LAYER, force=force)),
]


@pytest.mark.parametrize(("name", "write"), WRITERS)
class TestWholeOrNotAtAll:
    def test_an_existing_file_stays_without_force(
        self, name: str, write: Callable[[Path, bool], None], tmp_path: Path
    ) -> None:
        path = tmp_path / name
        path.write_text("precious")
        with pytest.raises(InputError, match="already exists"):
            write(path, False)
        assert path.read_text() == "precious"
        write(path, True)
        assert path.read_bytes() != b"precious"
        assert os.listdir(tmp_path) == [name]

    def test_one_that_appears_meanwhile_stays_too(
        self, name: str, write: Callable[[Path, bool], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, fsync = tmp_path / name, os.fsync

        def another_writer(handle: int) -> None:
            path.write_text("precious")
            fsync(handle)

        monkeypatch.setattr(os, "fsync", another_writer)
        with pytest.raises(InputError, match="already exists"):
            write(path, False)
        assert path.read_text() == "precious"
        assert os.listdir(tmp_path) == [name]

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_an_interrupted_write_leaves_nothing(
        self,
        name: str,
        write: Callable[[Path, bool], None],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        force: bool,
        interruption: BaseException,
    ) -> None:
        def interrupt(handle: int) -> None:
            raise interruption

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises((InputError, KeyboardInterrupt)) as caught:
            write(tmp_path / name, force)
        if isinstance(interruption, OSError):
            assert "No space left on device" in str(caught.value)
        assert os.listdir(tmp_path) == []

    def test_a_file_system_without_hard_links(
        self, name: str, write: Callable[[Path, bool], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        write(tmp_path / name, False)
        whole = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match="already exists"):
            write(tmp_path / name, False)
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(InputError, match="not permitted"):
            write(tmp_path / f"b-{name}", False)
        assert os.listdir(tmp_path) == [name]
        assert (tmp_path / name).read_bytes() == whole

    def test_a_place_that_cannot_be_written(
        self, name: str, write: Callable[[Path, bool], None], tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match="there is no directory"):
            write(tmp_path / "missing" / name, False)
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match="not a regular file"):
            write(tmp_path / name, True)
        assert os.listdir(tmp_path) == [name]

    def test_the_new_file_has_the_usual_permissions(
        self, name: str, write: Callable[[Path, bool], None], tmp_path: Path
    ) -> None:
        (tmp_path / "usual").touch()
        write(tmp_path / name, False)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


class TestTogether:
    """Several outputs of one command appear together or not at all."""

    def test_a_place_that_cannot_be_written_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        with pytest.raises(InputError, match="not a regular file"):
            write_together({tmp_path / "a": b"1", tmp_path / "b": b"2"}, force=True)
        with pytest.raises(InputError, match="are the same file"):
            write_together({tmp_path / "a": b"1", tmp_path / "b" / ".." / "a": b"2"}, force=True)
        assert os.listdir(tmp_path) == ["b"]

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    @pytest.mark.parametrize("failing", [0, 1, 2])
    @pytest.mark.parametrize("call", ["fsync", "rename"])
    def test_a_failure_at_any_file_leaves_everything_as_it_was(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        force: bool,
        interruption: BaseException,
        failing: int,
        call: str,
    ) -> None:
        names = [tmp_path / name for name in "abc"]
        if force:
            names[0].write_text("precious")
            names[2].write_text("precious, too")
            names[2].chmod(0o600)
        name = "fsync" if call == "fsync" else "replace" if force else "link"
        original, calls = getattr(os, name), iter(range(99))

        def fail(*words: object, **options: object) -> object:
            # the call of this file fails; undoing uses the same functions afterwards
            if next(calls) == failing:
                raise interruption
            return original(*words, **options)

        monkeypatch.setattr(os, name, fail)
        if isinstance(interruption, OSError) and name == "link":
            pytest.skip("without hard links the file is renamed in another way")
        with pytest.raises((InputError, KeyboardInterrupt)):
            write_together(dict.fromkeys(names, b"new"), force=force)
        if force:
            assert sorted(os.listdir(tmp_path)) == ["a", "c"]
            assert (names[0].read_text(), names[2].read_text()) == ("precious", "precious, too")
            assert stat.S_IMODE(names[2].stat().st_mode) == 0o600
        else:
            assert os.listdir(tmp_path) == []

    def test_all_appear(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("old")
        files: dict[str | Path, bytes] = {tmp_path / "a": b"1", str(tmp_path / "b"): b"2"}
        write_together(files, force=True)
        assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"1", b"2")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]

    def test_a_layer_a_graph_and_an_embedding_appear_together(self, tmp_path: Path) -> None:
        graph = permutation_graph(4, seed=0)
        names = [tmp_path / name for name in ("a.safetensors", "a.csv", "a.npy")]
        with pytest.raises(InputError, match="UTF-8"):
            pack_graph(names[1], graph.with_labels(["a", "b", "c", "\ud800"]))
        contents = (
            pack_layer(LAYER, provenance=None),
            pack_graph(names[1], graph),
            pack_embedding(names[2], ROWS),
        )
        write_together(dict(zip(names, contents, strict=True)), force=False)
        assert read_layer(names[0]).threshold == LAYER.threshold
        assert read_graph(names[1]) == graph
        np.testing.assert_array_equal(read_embedding(names[2]), ROWS)

    def test_an_export_leaves_no_directory_with_half_of_its_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fsync, calls = os.fsync, iter(range(99))

        def full(handle: int) -> None:
            if next(calls) == 1:
                raise OSError(28, "No space left on device")
            fsync(handle)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device"):
            write_export(tmp_path / "out", LAYER, to="torch")
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.npy"
    path.touch()
    path.chmod(mode)
    write_embedding(path, ROWS, force=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    np.testing.assert_array_equal(read_embedding(path), ROWS)


ENDED = """
import os, signal, sys
from manyheads.files.atomic_files import write_together
fsync, calls = os.fsync, iter(range(9))
def end(handle):
    if next(calls) == 1:
        os.kill(os.getpid(), int(sys.argv[1]))
    fsync(handle)
os.fsync = end
write_together({"a": b"1", "b": b"2", "c": b"3"}, force=True)
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_temporary_file(tmp_path: Path, number: int) -> None:
    (tmp_path / "a").write_text("precious")
    words = [sys.executable, "-c", ENDED, str(int(number))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -number, done.stderr
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "precious"


def test_handlers_of_the_caller_stay(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    write_together({tmp_path / "a": b"1"}, force=False)
    assert {number: signal.getsignal(number) for number in before} == before
