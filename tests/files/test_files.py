"""Embeddings and layers in files: what comes back, what is refused, and that a file appears whole or not at all."""

from __future__ import annotations

import json
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import save_file as save_torch

from manyheads import InputError, Layer, gaussian, permutation_graph
from manyheads.files import (
    read_embedding,
    read_graph,
    read_layer,
    read_provenance,
    write_embedding,
    write_graph,
    write_layer,
)
from manyheads.files.safetensors_files import pack
from manyheads.layer.rules import RULES

ROWS = gaussian(4, 3, seed=0)


def layer(rule: str = "max", dtype: type = np.float32) -> Layer:
    query, key = np.random.default_rng(0).standard_normal((2, 2, 3, 2))
    return Layer(query.astype(dtype), key.astype(dtype), threshold=1 / 3, rule=rule)


def same(a: Layer, b: Layer) -> bool:
    weights = all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in ((a.query, b.query), (a.key, b.key)))
    return weights and (a.threshold, a.rule) == (b.threshold, b.rule)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_layer_comes_back_to_the_last_bit(tmp_path: Path, rule: str, dtype: type) -> None:
    write_layer(tmp_path / "a.safetensors", layer(rule, dtype), provenance={"construction": "compressive", "seed": 2})
    assert same(read_layer(tmp_path / "a.safetensors"), layer(rule, dtype))
    assert read_provenance(tmp_path / "a.safetensors") == {"construction": "compressive", "seed": 2}


def test_a_layer_file_opens_in_other_tools(tmp_path: Path) -> None:
    write_layer(tmp_path / "a.safetensors", layer())
    with safetensors.safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("query"), torch.tensor(layer().query))
        assert file.metadata()["rule"] == "max"
        assert float.fromhex(file.metadata()["threshold"]) == 1 / 3


METADATA = {"format": "manyheads layer", "version": "1", "rule": "max", "threshold": "0x1p-1", "provenance": "{}"}
WEIGHTS = {"query": np.ones((1, 3, 2)), "key": np.ones((1, 3, 2))}


@pytest.mark.parametrize(
    ("weights", "metadata", "says"),
    [
        (WEIGHTS, {"format": "pt"}, "not a layer file that manyheads wrote"),
        (WEIGHTS, {"version": "2"}, "layer format '2' but this manyheads reads 1"),
        (WEIGHTS, {"rule": "mean"}, "with the unknown rule 'mean'"),
        (WEIGHTS, {"threshold": "half"}, "no sound layer"),
        (WEIGHTS, {"threshold": "nan"}, "threshold must be a finite number"),
        (WEIGHTS, {"threshold": "0x1p99999"}, "no sound layer"),
        ({"query": np.ones((1, 3, 2))}, {}, "no tensor 'key'"),
        (WEIGHTS | {"key": np.ones((1, 3, 1))}, {}, "alike"),
        (WEIGHTS | {"key": np.full((1, 3, 2), np.inf)}, {}, "key weights hold NaN or infinite"),
        (dict.fromkeys(WEIGHTS, np.ones((0, 3, 2))), {}, "at least 1"),
        (dict.fromkeys(WEIGHTS, np.ones((1, 3, 0))), {}, "at least 1"),
        (dict.fromkeys(WEIGHTS, np.ones((3, 2))), {}, "heads, d_model, key_width"),
    ],
)
def test_a_layer_file_is_checked(
    tmp_path: Path, weights: dict[str, np.ndarray], metadata: dict[str, str], says: str
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(pack(weights, METADATA | metadata))
    with pytest.raises(InputError, match=says):
        read_layer(path)


def test_a_layer_without_its_checksum_is_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file(WEIGHTS, tmp_path / "a.safetensors", METADATA)
    with pytest.raises(InputError, match="does not match its checksum"):
        read_layer(tmp_path / "a.safetensors")
    path = tmp_path / "b.safetensors"
    path.write_bytes(pack(WEIGHTS, METADATA | {"provenance": "{"}))
    with pytest.raises(InputError, match="where its layer came from"):
        read_provenance(path)
    read_layer(path)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"shape":[2,3,2]', b'"shape":[3,2,2]'), (b'"F32"', b'"I32"'), (b'"max"', b'"sum"')]
)
def test_the_same_bytes_under_another_heading_are_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "a.safetensors"
    write_layer(path, layer())
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(InputError, match="does not match its checksum"):
        read_layer(path)


def test_a_layer_that_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        write_layer(tmp_path / "a.npz", layer())
    if np.longdouble is not np.float64 and np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(InputError, match="convert them"):
            write_layer(tmp_path / "a.safetensors", layer(dtype=np.longdouble))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.npy", "a.safetensors"])
def test_an_embedding_comes_back_to_the_last_bit(tmp_path: Path, name: str) -> None:
    write_embedding(tmp_path / name, ROWS)
    np.testing.assert_array_equal(read_embedding(tmp_path / name), ROWS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_floating_point_npy_becomes_float32(tmp_path: Path, dtype: str, order: str) -> None:
    np.save(tmp_path / "a.npy", np.array(ROWS, dtype=dtype, order=order))
    rows = read_embedding(tmp_path / "a.npy")
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, ROWS.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_floating_point_tensor_becomes_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor(ROWS).to(dtype)
    save_torch({"wte": tensor, "wpe": torch.ones(2, 2)}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read_embedding(tmp_path / "a.safetensors", tensor="wte"), tensor.float().numpy())


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(ROWS))


def objects(path: Path) -> None:
    np.save(path, np.array([[1.0, None]], dtype=object), allow_pickle=True)


def saved(array: np.ndarray) -> Callable[[Path], None]:
    return lambda path: np.save(path, array)


def tensors(arrays: dict[str, np.ndarray]) -> Callable[[Path], None]:
    return lambda path: safetensors.numpy.save_file(arrays, path)


def claiming(shape: str) -> Callable[[Path], None]:
    """An .npy whose header claims another shape than its few bytes can fill."""

    def write(path: Path) -> None:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48))

    return write


@pytest.mark.parametrize(
    ("name", "write", "tensor", "says"),
    [
        ("a.npy", pickled, None, "it is a pickle, which is never loaded"),
        ("a.npy", objects, None, "pickled Python objects, which are never loaded"),
        ("a.npy", lambda path: path.write_bytes(b"PK\x03\x04"), None, "not an .npy file"),
        ("a.npy", lambda path: path.write_bytes(b"\x93NUMPY\x07\x00"), None, "header cannot be read"),
        ("a.npy", claiming(f"({2**40}, {2**20})"), None, "length is not what its header says"),
        ("a.npy", claiming(f"({2**62}, 16)"), None, "length is not what its header says"),
        ("a.npy", claiming("(-4, -3)"), None, "length is not what its header says"),
        ("a.npy", claiming("(4, 2)"), None, "length is not what its header says"),
        ("a.npy", saved(np.ones((2, 2), dtype=int)), None, "int64 values, not floating-point"),
        ("a.npy", saved(np.ones(3, dtype=np.float32)), None, "not rows"),
        ("a.npy", saved(np.ones((3, 0), dtype=np.float32)), None, "not rows"),
        ("a.npy", saved(np.array([[1.0, np.nan]])), None, "NaN or infinite"),
        ("a.npy", saved(np.array([[1e300]])), None, "beyond the range of float32"),
        ("a.npy", saved(ROWS), "wte", "no tensor 'wte'"),
        ("a.npz", lambda path: path.write_bytes(b"PK"), None, "must end in .npy, .safetensors or .gguf"),
        ("a.safetensors", lambda path: path.write_bytes(b"\xff" * 64), None, "truncated or damaged"),
        ("a.safetensors", pickled, None, "truncated or damaged"),
        ("a.safetensors", tensors({"a": ROWS, "b": ROWS}), None, "2 tensors, so one must be named: a, b"),
        ("a.safetensors", tensors({"a": ROWS, "b": ROWS}), "c", "no tensor 'c', only a, b"),
        ("a.safetensors", tensors({str(i): ROWS for i in range(9)}), "c", "only 0, 1, 2, 3, 4, …"),
        ("a.safetensors", tensors({}), None, "0 tensors"),
        ("a.safetensors", tensors({"a": np.ones((2, 2), dtype=int)}), None, "I64 values, not floating-point"),
    ],
)
def test_what_is_no_embedding_is_refused(
    tmp_path: Path, name: str, write: Callable[[Path], None], tensor: str | None, says: str
) -> None:
    path = tmp_path / name
    write(path)
    with pytest.raises(InputError, match=says):
        read_embedding(path, tensor=tensor)


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
    ("a.safetensors", lambda path, force: write_layer(path, layer(), force=force)),
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


def test_a_threshold_is_kept_exactly(tmp_path: Path) -> None:
    threshold = float(np.nextafter(0.1, 1))
    write_layer(tmp_path / "a.safetensors", Layer(layer().query, layer().key, threshold))
    assert read_layer(tmp_path / "a.safetensors").threshold == threshold
    header = (tmp_path / "a.safetensors").read_bytes()
    assert threshold.hex().encode() in header[: 8 + int.from_bytes(header[:8], "little")]
    assert json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["query"]["dtype"] == "F32"
