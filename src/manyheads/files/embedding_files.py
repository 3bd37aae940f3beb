"""Embeddings in files (.npy without pickle, safetensors, GGUF models), and the names of their rows."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError, path_of, require_type
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import TEXT_LIMIT, parse_json, read_bytes, read_text
from manyheads.files.gguf_files import GGUF_SUFFIX, TOKENS, read_gguf, read_gguf_tokens
from manyheads.files.safetensors_files import CHECKSUM, pack_tensors, read_tensors
from manyheads.problem.embedding import Embedding

FORMAT = "manyheads embedding"
NAMES = "names"  # a JSON list in the metadata of such a file
TOKEN_EMBEDDING = "token_embd.weight"  # its name in GGUF files
MAGIC = b"\x93NUMPY"
SURROGATE = re.compile("[\ud800-\udfff]")
PICKLES = (b"\x80", b"(", b"c", b"]", b"}")  # the first byte of a pickle in newer and older protocols
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_embedding(path: str | Path, *, tensor: str | None = None, names: Sequence[str] | None = None) -> Embedding:
    """Read an embedding: one row for each item, and the rows' names if they are given or the file has them.

    Half, single, double and (in safetensors) bfloat16 numbers become float32. A certificate is about these float32
    numbers. A safetensors file that `write_embedding` wrote has a checksum. In any other file, only damage to the
    structure is noticed.

    Args:
        path: An .npy file, a .safetensors file, or a .gguf model.
        tensor: The name of the tensor. A safetensors file with one tensor does not need it; the default in a GGUF model
            is its token embedding.
        names: The names of the rows, all of them, e.g. from `read_labels`. Without them, the rows of a GGUF model's
            token embedding have the names of its tokens, and rows that `write_embedding` wrote have the names that they
            had. Other rows have none.

    Returns:
        The rows in float32, with their names.

    Raises:
        InputError: The file cannot be read, does not have the tensor, or the tensor is not a table of finite numbers.
    """
    if isinstance(names, (str, Path)):
        raise InputError(f"names are a sequence of names, not {str(names)!r}: read_labels reads them from a file")
    rows, found = _rows(path_of(path), tensor)
    return Embedding(rows, found if names is None else tuple(names))


def _rows(path: Path, tensor: str | None) -> tuple[Float32[ndarray, "items d_model"], tuple[str, ...] | None]:
    """The rows of a file, and their names if the file has them."""
    if path.suffix == ".npy":
        if tensor is not None:
            raise InputError(f"{path} is an .npy file, which holds one array and no tensor '{tensor}'")
        return checked_rows(_npy(path), path), None
    if path.suffix == ".safetensors":
        return _safetensors(path, tensor)
    if path.suffix == GGUF_SUFFIX:
        return _gguf(path, tensor or TOKEN_EMBEDDING)
    raise InputError(f"{path} is not an embedding file: its name must end in .npy, .safetensors or .gguf")


def write_embedding(path: str | Path, embedding: Embedding | ndarray, *, force: bool = False) -> None:
    """Write the rows of an embedding. `read_embedding` returns the same numbers.

    Args:
        path: The file. Its name must end in .safetensors, which also gets the names of the rows and a checksum, or in
            .npy, which has the numbers only.
        embedding: One row for each item.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    require_type(embedding, (Embedding, ndarray), "the embedding to write")
    known = Embedding.of(embedding)
    write_whole(path, pack_embedding(path, known.rows, known.names), force=force)


def pack_embedding(
    path: str | Path, embedding: Float32[ndarray, "items d_model"], names: Sequence[str] | None = None
) -> bytes:
    """The bytes of an embedding's file, for `write_together`.

    Args:
        path: The name of the file; its ending decides the format.
        embedding: Rows of shape (items, d_model).
        names: The names of the rows; a .npy file has none.

    Returns:
        The bytes.

    Raises:
        InputError: The name does not end in .npy or .safetensors.
    """
    path = path_of(path)
    if path.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, embedding, allow_pickle=False)
        return buffer.getvalue()
    if path.suffix == ".safetensors":
        known = {} if names is None else {NAMES: json.dumps(names)}
        return pack_tensors({"embedding": embedding}, {"format": FORMAT, **known})
    raise InputError(f"{path} cannot hold an embedding: its name must end in .npy or .safetensors")


def read_labels(path: str | Path) -> tuple[str, ...]:
    """Read the names of the items, in the order of the embedding's rows.

    Args:
        path: A text file with one label a line, a .json file with a list of labels or a vocabulary (label to row
            number), or a .gguf model, whose tokens are the labels.

    Returns:
        The labels, all different.

    Raises:
        InputError: The file cannot be read, or it has a label twice.
    """
    path = path_of(path)
    if path.suffix == GGUF_SUFFIX:
        return _distinct(read_gguf_tokens(path), path)
    text = read_text(path, most=TEXT_LIMIT)
    return _distinct(_json_labels(text, path) if path.suffix.lower() == ".json" else _label_lines(text), path)


def check_label(label: str, place: str) -> None:
    """Refuse a label with half of a surrogate pair, which JSON can name but no text file can hold.

    Args:
        label: The label.
        place: The place of the label, for the message.

    Raises:
        InputError: The label is not valid text.
    """
    if SURROGATE.search(label):
        raise InputError(f"{place}: {label!r} is not valid text: it holds half of a surrogate pair")


def checked_rows(array: ndarray, path: Path) -> Float32[ndarray, "items d_model"]:
    """The array as float32 rows.

    Raises:
        InputError: The array is not a table of finite numbers.
    """
    if array.dtype.kind != "f":
        raise InputError(f"{path} holds {array.dtype} values, not floating-point numbers")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{path} holds an array of shape {array.shape}, not rows (items, d_model)")
    if not np.isfinite(array).all():
        raise InputError(f"{path} holds NaN or infinite values")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise InputError(f"{path} holds numbers beyond the range of float32")
    return rows


def _npy(path: Path) -> ndarray:
    content = read_bytes(path)
    if not content.startswith(MAGIC):
        kind = "is a pickle, which is never loaded" if content.startswith(PICKLES) else "is damaged or something else"
        raise InputError(f"{path} is not an .npy file: it {kind}")
    stream = io.BytesIO(content)
    try:
        shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
        if any(type(length) is not int for length in shape):  # (True, 4) is a tuple of integers for numpy
            raise ValueError("a length that is not a number")
    except Exception as error:  # numpy evaluates the header as Python text, which can raise any exception
        raise InputError(f"{path} is damaged: its header cannot be read") from error
    if dtype.hasobject:
        raise InputError(f"{path} holds pickled Python objects, which are never loaded")
    if dtype.kind != "f":  # a type of 0 bytes fits any shape
        raise InputError(f"{path} holds {dtype} values, not floating-point numbers")
    # Compare the header's size with the bytes of the file before any memory is allocated for it.
    if len(content) - stream.tell() != math.prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        raise InputError(f"{path} is truncated or damaged: its length is not what its header says")
    flat = np.frombuffer(content, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _safetensors(path: Path, name: str | None) -> tuple[Float32[ndarray, "items d_model"], tuple[str, ...] | None]:
    file = read_tensors(path)
    if CHECKSUM in file.metadata or file.metadata.get("format") == FORMAT:
        file.verify()
    if name is None:
        if len(file.tensors) != 1:
            raise InputError(f"{path} holds {len(file.tensors)} tensors, so one must be named: {file.names}")
        (name,) = file.tensors
    names = file.metadata.get(NAMES) if file.metadata.get("format") == FORMAT else None
    return checked_rows(file.floats(name), path), None if names is None else tuple(_json_labels(names, path))


def _gguf(path: Path, name: str) -> tuple[Float32[ndarray, "items d_model"], tuple[str, ...] | None]:
    """The rows of a tensor; those of the token embedding have the names of the tokens."""
    file = read_gguf(path)
    if name not in file.tensors:
        raise InputError(f"{path} holds no tensor '{name}'")
    rows = checked_rows(file.numbers(name), path)
    tokens = file.strings(TOKENS) if name == TOKEN_EMBEDDING else None
    return rows, tokens if tokens is not None and len(tokens) == len(rows) else None


def _label_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").rstrip("\n").split("\n")


def _distinct(labels: list[str], path: Path) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for place, label in enumerate(labels, start=1):
        check_label(label, f"{path}, label {place}")
        if first.setdefault(label, place) != place:
            raise InputError(f"{path} gives the label {label!r} as number {first[label]} and again as number {place}")
    return tuple(labels)


def _json_labels(text: str, path: Path) -> list[str]:
    labels = parse_json(text, path)
    if isinstance(labels, dict) and isinstance(labels.get("model"), dict):  # a tokenizer.json
        labels = _tokenizer_labels(labels)
    if isinstance(labels, dict) and _numbers_every_row(list(labels.values())):
        return sorted(labels, key=labels.__getitem__)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or not labels:
        raise InputError(f"{path} is neither a JSON list of strings nor a vocabulary that numbers all rows")
    return labels


def _tokenizer_labels(tokenizer: dict[str, object]) -> object:
    """The vocabulary of a tokenizer.json, with its added tokens."""
    model, added = tokenizer["model"], tokenizer.get("added_tokens")
    vocabulary = dict(model["vocab"]) if isinstance(model, dict) and isinstance(model.get("vocab"), dict) else {}
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            vocabulary[token["content"]] = token.get("id")
    return vocabulary


def _numbers_every_row(rows: list[object]) -> bool:
    numbers = [row for row in rows if isinstance(row, int)]
    return len(numbers) == len(rows) > 0 and sorted(numbers) == list(range(len(rows)))
