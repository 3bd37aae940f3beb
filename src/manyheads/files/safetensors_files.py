"""Safetensors files as this package writes them: tensors, metadata as text, and a checksum of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole

CHECKSUM = "manyheads.sha256"
FLOATS = {"F16": "float16", "F32": "float32", "F64": "float64"}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file as little-endian bytes; numpy does not have every type that a file can have."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


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
    path = Path(path)
    content = read_whole(path)
    try:
        views = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
        # `deserialize` returns the tensors only; it has checked the header, which has the metadata.
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except Exception as error:  # the parsers raise any exception for bytes that are not such a file
        raise InputError(f"{path} is not a safetensors file, or is truncated or damaged ({error})") from error
    tensors = {name: StoredTensor(view["dtype"], tuple(view["shape"]), bytes(view["data"])) for name, view in views}
    return TensorFile(path, tensors, metadata)


def _checksum(tensors: Mapping[str, StoredTensor], metadata: Mapping[str, str]) -> str:
    shapes = {name: [tensor.dtype, list(tensor.shape)] for name, tensor in tensors.items()}
    digest = hashlib.sha256(json.dumps([dict(metadata), shapes], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].data)
    return digest.hexdigest()
