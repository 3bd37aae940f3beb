"""A file appears complete or not at all; a file that cannot be read is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyheads import InputError, Layer, gaussian, permutation_graph
from manyheads.files import read_embedding, read_graph, read_layer, write_embedding, write_graph, write_layer

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
    with pytest.raises(InputError, match="cannot be read"):
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
