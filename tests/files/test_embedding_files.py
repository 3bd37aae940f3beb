"""Embeddings and labels in files: they come back, and what is not an embedding is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import safetensors.numpy
import torch
from numpy.typing import DTypeLike
from safetensors.torch import save_file as save_torch

from manyheads import Embedding, InputError, gaussian
from manyheads.files import read_embedding, read_labels, write_embedding
from manyheads.files.embedding_files import FORMAT
from manyheads.files.safetensors_files import pack_tensors

ROWS = gaussian(4, 3, seed=0)


@pytest.mark.parametrize("name", ["a.npy", "a.safetensors"])
def test_an_embedding_comes_back_to_the_last_bit(tmp_path: Path, name: str) -> None:
    write_embedding(tmp_path / name, ROWS)
    np.testing.assert_array_equal(read_embedding(tmp_path / name), ROWS)


def test_the_names_of_the_rows_come_back(tmp_path: Path) -> None:
    names = ("ĠParis", 'a,"b"', "\x1b[2J", "ĠParis")
    path = tmp_path / "a.safetensors"
    write_embedding(path, Embedding(ROWS, names))
    assert read_embedding(path).names == names
    assert read_embedding(path, names=list("abcd")).names == tuple("abcd")
    # the names of another program's file are not ours to read, and names must be as many as the rows
    safetensors.numpy.save_file({"wte": ROWS}, path, {"names": json.dumps(names)})
    assert read_embedding(path).names is None
    for said in ('["a"]', '["a", "b", "c", 4]', "["):
        path.write_bytes(pack_tensors({"embedding": ROWS}, {"format": FORMAT, "names": said}))
        with pytest.raises(InputError):
            read_embedding(path)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_floating_point_npy_becomes_float32(tmp_path: Path, dtype: DTypeLike, order: Literal["C", "F"]) -> None:
    np.save(tmp_path / "a.npy", np.array(ROWS, dtype=dtype, order=order))
    rows = read_embedding(tmp_path / "a.npy").rows
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


def test_a_file_without_the_tensor_says_so(tmp_path: Path) -> None:
    path = tmp_path / "table.safetensors"
    write_embedding(path, np.ones((3, 2), dtype=np.float32))
    with pytest.raises(InputError, match=r"has no tensor 'wte\.weight', only embedding"):
        read_embedding(path, tensor="wte.weight")


def test_label_files_of_other_systems(tmp_path: Path) -> None:
    for text in ("Paris\nRome", "Paris\nRome\n", "Paris\r\nRome\r\n", "Paris\nRome\n\n\n"):
        (tmp_path / "names.txt").write_bytes(text.encode())
        assert read_labels(tmp_path / "names.txt") == ("Paris", "Rome")


def test_label_lists(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("the\n a\nof\n")
    (tmp_path / "labels.json").write_text('["the", " a", "\\n"]')
    assert read_labels(tmp_path / "labels.txt") == ("the", " a", "of")
    assert read_labels(tmp_path / "labels.json") == ("the", " a", "\n")
    (tmp_path / "vocab.json").write_text('{"a": 1, "Ġthe": 0, "cat": 2}')
    assert read_labels(tmp_path / "vocab.json") == ("Ġthe", "a", "cat")
    for name, text, says in [
        ("twice.txt", "a\nb\na\n", "'a' as number 1 and again as number 3"),
        ("broken.json", '["a"', "not JSON"),
        ("numbers.json", "[1, 2]", "neither a JSON list of strings nor a vocabulary"),
        ("none.json", "[]", "neither a JSON list of strings nor a vocabulary"),
        ("gap.json", '{"a": 0, "b": 2}', "nor a vocabulary that numbers all rows"),
        ("list.json", '{"a": [0], "b": 1}', "nor a vocabulary that numbers all rows"),
        ("empty.json", "{}", "nor a vocabulary that numbers all rows"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=says):
            read_labels(tmp_path / name)
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    with pytest.raises(InputError, match="UTF-8"):
        read_labels(tmp_path / "latin.txt")
