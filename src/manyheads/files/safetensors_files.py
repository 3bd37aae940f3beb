"""Safetensors files: tensors, metadata as text, and a checksum of both in the files that this package writes.

The header is checked here: the shapes and offsets that it declares must be those of the bytes in the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
import safetensors.numpy
from numpy import ndarray

from manyheads.errors import InputError, path_of
from manyheads.files.door import open_file, parse_json, read_bytes, reading

CHECKSUM = "manyheads.sha256"
FLOATS = {"F16": "float16", "F32": "float32", "F64": "float64"}
DAMAGED = "is not a safetensors file, or is truncated or damaged"
MAX_HEADER = 100_000_000  # bytes, the limit of the safetensors format
# the bytes of one number; newer versions of the format have further types, whose sizes are not checked
WIDTHS = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2}
WIDTHS |= {"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file as little-endian bytes; numpy does not have every type that a file can have."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


@dataclass(frozen=True)
class TensorPlace:
    """The type and the shape of a tensor in a header, and the place of its bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class TensorFile:
    """The content of a safetensors file: tensors and metadata by name."""

    path: Path
    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]

    def floats(self, name: str) -> ndarray:
        """The floating-point numbers of a tensor.

        Raises:
            InputError: The file does not have the tensor, or its values are not floating-point numbers.
        """
        if name not in self.tensors:
            raise InputError(f"{self.path} has no tensor '{name}', only {self.names}")
        tensor = self.tensors[name]
        if tensor.dtype == "BF16":  # numpy has no bfloat16, which is the upper half of a float32
            upper = np.frombuffer(tensor.data, dtype="<u2").astype(np.uint32) << 16
            return upper.view(np.float32).reshape(tensor.shape)
        if tensor.dtype not in FLOATS:
            raise InputError(f"{self.path}: tensor '{name}' holds {tensor.dtype} values, not floating-point numbers")
        dtype = np.dtype(FLOATS[tensor.dtype])
        return np.frombuffer(tensor.data, dtype=dtype.newbyteorder("<")).astype(dtype).reshape(tensor.shape)

    @property
    def names(self) -> str:
        """The names of the first five tensors, for a message."""
        shown = ", ".join(sorted(self.tensors)[:5])
        return f"{shown}, …" if len(self.tensors) > 5 else shown or "none"

    def verify(self) -> None:
        """Compare the content with its checksum.

        Raises:
            InputError: They do not match.
        """
        text = {key: value for key, value in self.metadata.items() if key != CHECKSUM}
        if self.metadata.get(CHECKSUM) != _checksum(self.tensors, text):
            raise InputError(f"{self.path} is damaged: its content does not match its checksum")


def pack_tensors(arrays: Mapping[str, ndarray], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file with these arrays, this metadata, and the checksum of both.

    Raises:
        InputError: An array does not hold float16, float32 or float64 numbers.
    """
    kinds = {numpy_name: name for name, numpy_name in FLOATS.items()}
    tensors = {}
    for name, array in arrays.items():
        if array.dtype.name not in kinds:
            raise InputError(f"{name} holds {array.dtype} values: convert them to float64 or float32 to write them")
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        tensors[name] = StoredTensor(kinds[array.dtype.name], array.shape, little.tobytes())
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return safetensors.numpy.save(contiguous, {**metadata, CHECKSUM: _checksum(tensors, metadata)})


def read_tensors(path: str | Path) -> TensorFile:
    """Read all tensors and the metadata of a safetensors file, and check its structure.

    Raises:
        InputError: The file cannot be read, or is not a safetensors file.
    """
    path = path_of(path)
    content = memoryview(read_bytes(path))
    with reading(path, DAMAGED):
        length = int.from_bytes(content[:8], "little")
        if not 2 <= length <= min(MAX_HEADER, len(content) - 8):
            raise ValueError("the header is longer than the file")
        places, metadata = _header(bytes(content[8 : 8 + length]), len(content) - 8 - length, path)
    data = content[8 + length :]
    tensors = {
        name: StoredTensor(place.dtype, place.shape, data[place.start : place.stop]) for name, place in places.items()
    }
    return TensorFile(path, tensors, metadata)


def tensor_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the tensors in a safetensors file. Only its header is read.

    Raises:
        InputError: The file cannot be read, or is not a safetensors file.
    """
    path = path_of(path)
    with reading(path, "is not a safetensors file, or its header is damaged"), open_file(path) as (file, size):
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise ValueError("the header is longer than the file")
        places, _ = _header(file.read(length), size - 8 - length, path)
    return {name: place.shape for name, place in places.items()}


def _header(text: bytes, size: int, path: Path) -> tuple[dict[str, TensorPlace], dict[str, str]]:
    """The tensors and the metadata of a header, whose tensors must fill the `size` bytes after it without a gap.

    Raises:
        InputError: The text is not JSON.
        Exception: The text is not a header (any kind of exception: the caller is inside `reading`).
    """
    header = parse_json(text, path)
    if not isinstance(header, dict):
        raise ValueError("no header")
    metadata = header.pop("__metadata__", None) or {}
    if not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("metadata that are not text")
    places = {name: _place(entry) for name, entry in header.items()}
    end = 0
    for place in sorted(places.values(), key=lambda place: (place.start, place.stop)):
        if place.start != end or place.stop < place.start:
            raise ValueError("a gap between tensors")
        end = place.stop
    if end != size:
        raise ValueError("more or fewer bytes than the header says")
    return places, metadata


def _place(entry: Mapping[str, object]) -> TensorPlace:
    dtype, shape, offsets = (entry[name] for name in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _are_counts(shape) or not _are_counts(offsets):
        raise ValueError("a tensor without its type, shape or place")
    start, stop = offsets
    if dtype in WIDTHS and stop - start != math.prod(shape) * WIDTHS[dtype]:
        raise ValueError("a tensor whose shape is not that of its bytes")
    return TensorPlace(dtype, tuple(shape), start, stop)


def _are_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 2**63 for number in value)


def _checksum(tensors: Mapping[str, StoredTensor], metadata: Mapping[str, str]) -> str:
    shapes = {name: [tensor.dtype, list(tensor.shape)] for name, tensor in tensors.items()}
    digest = hashlib.sha256(json.dumps([dict(metadata), shapes], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].data)
    return digest.hexdigest()
