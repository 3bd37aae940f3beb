"""GGUF files: metadata, tensors as numbers, and the vocabulary of a model.

The header is parsed here: every count and length that it declares is compared with the size of the file before anything
is allocated, and the time is linear in the size of the header. The gguf package (an extra) dequantises tensors only.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.door import memory_limit, open_file, reading

GGUF_SUFFIX = ".gguf"
TOKENS = "tokenizer.ggml.tokens"
DAMAGED = "is not a GGUF file, or is truncated or damaged"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of the tensors' data, if the metadata do not say another one
MOST_DIMENSIONS = 8  # the format allows 4 today
STRING, ARRAY = 8, 9  # the numbers of two value types; the other types are numbers
SCALARS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "?", 10: "u8", 11: "i8", 12: "f8"}
FLOATS = {"F64": "f8", "F32": "f4", "F16": "f2"}  # tensor types that numpy has; all others are read as bytes


@dataclass(frozen=True)
class GgufArray:
    """An array of the metadata: its number of values and, unless it is an array of arrays, the values."""

    length: int
    values: tuple[Any, ...] | None


@dataclass(frozen=True)
class GgufTensor:
    """The place of a tensor in its file; `shape` is numpy's, the slowest axis first."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, eq=False)
class GgufFile:
    """The header of a GGUF file: metadata and tensors by name."""

    path: Path
    order: str  # "<" for little-endian numbers, ">" for big-endian
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    def strings(self, name: str) -> tuple[str, ...] | None:
        """An array of texts in the metadata; None if there is no such array."""
        array = self.metadata.get(name)
        if not isinstance(array, GgufArray) or array.values is None:
            return None
        with reading(self.path, DAMAGED):
            return tuple(value.decode() for value in array.values)

    def numbers(self, name: str) -> Float32[ndarray, "*shape"]:
        """A tensor, dequantised to float32.

        Raises:
            InputError: The tensor does not fit into memory, or the gguf package does not know its type.
        """
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize, quant_shape_to_byte_shape

        tensor = self.tensors[name]
        needed = 4 * math.prod(tensor.shape)
        if needed > memory_limit():
            raise InputError(f"{self.path}: the tensor '{name}' needs {needed:,} bytes, more than half of the memory")
        kind = GGMLQuantizationType(tensor.kind)
        with reading(self.path, DAMAGED), open_file(self.path) as (file, _):
            dtype = np.dtype(self.order + FLOATS.get(kind.name, "u1"))
            shape = tensor.shape if kind.name in FLOATS else quant_shape_to_byte_shape(tensor.shape, kind)
            file.seek(tensor.offset)
            data = np.frombuffer(file.read(math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)
            native = data.astype(data.dtype.newbyteorder("="), copy=False)
            return np.ascontiguousarray(dequantize(native, kind), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class GgufVocabulary:
    """The tokens of a GGUF model.

    Attributes:
        name: The name of the file without its ending.
        rows: One embedding row for each token.
        tokens: The tokens.
        merges: The merges of byte-pair encoding, in their order.
        model: The kind of the tokenizer; "gpt2" is byte-pair encoding.
        cut: The rule by which text is cut into words before the merges, such as "smollm".
        end: The number of the token that ends a text, if the file says it.
    """

    name: str
    rows: Float32[ndarray, "tokens d_model"]
    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    model: str
    cut: str
    end: int | None


def read_gguf_metadata(path: str | Path) -> dict[str, object]:
    """Read the metadata as numbers and strings. A list, such as the tokens, is replaced by its length.

    Raises:
        InputError: The file cannot be read, or the gguf package is missing.
    """
    metadata = read_gguf(path).metadata
    return {name: value.length if isinstance(value, GgufArray) else value for name, value in metadata.items()}


def read_gguf_tokens(path: str | Path) -> list[str]:
    """Read the tokens of a model's vocabulary, in the order of its embedding's rows.

    Raises:
        InputError: The file cannot be read or names no tokens, or the gguf package is missing.
    """
    tokens = read_gguf(path).strings(TOKENS)
    if tokens is None:
        raise InputError(f"{path} names no tokens: it has no '{TOKENS}'")
    return list(tokens)


def read_gguf_tensors(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, Float32[ndarray, "*shape"]]:
    """Read tensors, dequantised to float32.

    Args:
        path: The file.
        wanted: Whether to read the tensor of this name.

    Returns:
        The tensors by name; the order of their axes is numpy's, the slowest first.

    Raises:
        InputError: The file cannot be read, or the gguf package is missing.
    """
    file = read_gguf(path)
    return {name: file.numbers(name) for name in file.tensors if wanted(name)}


def read_gguf_vocabulary(path: str | Path, *, tensor: str) -> GgufVocabulary:
    """Read the vocabulary of a model, with the rows of the named tensor.

    Raises:
        InputError: The file cannot be read or does not have the tensor, or the gguf package is missing.
    """
    file = read_gguf(path)
    if tensor not in file.tensors:
        raise InputError(f"{path} holds no tensor '{tensor}'")
    end = file.metadata.get("tokenizer.ggml.eos_token_id")
    return GgufVocabulary(
        name=Path(path).stem,
        rows=file.numbers(tensor),
        tokens=file.strings(TOKENS) or (),
        merges=file.strings("tokenizer.ggml.merges") or (),
        model=str(file.metadata.get("tokenizer.ggml.model", "none")),
        cut=str(file.metadata.get("tokenizer.ggml.pre", "default")),
        end=end if isinstance(end, int) else None,
    )


def read_gguf(path: str | Path) -> GgufFile:
    """Read the header of a GGUF file: its metadata, and the places of its tensors.

    Raises:
        InputError: The file cannot be read, declares more than it holds, or the gguf package is missing.
    """
    path = Path(path)
    with reading(path, DAMAGED), open_file(path) as (file, size):
        try:
            from gguf.constants import GGML_QUANT_SIZES
        except ModuleNotFoundError:
            raise InputError(f"to read {path} the gguf package is needed: pip install 'manyheads[gguf]'") from None
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return _Header(content, size).file(path, {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()})


class _Header:
    """Reads a header from its first byte to its last. Every error is a ValueError or another plain exception."""

    def __init__(self, content: mmap, size: int) -> None:
        self.content, self.size, self.place, self.order = content, size, 0, "<"

    def file(self, path: Path, sizes: dict[int, tuple[int, int]]) -> GgufFile:
        if self.take(4) != b"GGUF":
            raise ValueError("the file does not begin with GGUF")
        version = self.number("I")
        if version & 0xFFFF == 0:  # a small number whose bytes are in the other order
            self.order = ">"
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            raise ValueError(f"version {version} of the format is unknown")
        tensors, fields = self.number("Q"), self.number("Q")
        # The shortest field has 13 bytes, the shortest tensor 24: more of them do not fit into the file.
        self.check(13 * fields + 24 * tensors)
        metadata: dict[str, Any] = {}
        for _ in range(fields):
            name = self.text().decode()
            if name in metadata:
                raise ValueError(f"the field {name} is there twice")
            metadata[name] = self.value(self.number("I"))
        places = [self.tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise ValueError("the alignment is not a power of 2")
        start = -(-self.place // alignment) * alignment
        found: dict[str, GgufTensor] = {}
        for name, shape, kind, offset in places:
            block, length = sizes[kind]
            if name in found or (shape and shape[-1] % block):
                raise ValueError(f"the tensor {name} is there twice, or its rows are not whole blocks")
            if start + offset + math.prod(shape) // block * length > self.size:
                raise ValueError(f"the tensor {name} ends after the file")
            found[name] = GgufTensor(shape, kind, start + offset)
        return GgufFile(path, self.order, metadata, found)

    def check(self, length: int) -> None:
        if length > self.size - self.place:
            raise ValueError("the file is shorter than its header says")

    def take(self, length: int) -> bytes:
        self.check(length)
        self.place += length
        return self.content[self.place - length : self.place]

    def number(self, code: str) -> int:
        return int(struct.unpack(self.order + code, self.take(struct.calcsize(self.order + code)))[0])

    def text(self) -> bytes:
        return self.take(self.number("Q"))

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text().decode()
        if kind == ARRAY:
            return self.array(depth=1)
        return np.frombuffer(self.take(_itemsize(kind)), dtype=self.order + SCALARS[kind])[0].item()

    def array(self, depth: int) -> GgufArray:
        kind, length = self.number("I"), self.number("Q")
        if kind == STRING:
            self.check(8 * length)  # each text has at least its length
            return GgufArray(length, tuple(self.text() for _ in range(length)))
        if kind == ARRAY:
            self.check(12 * length)
            if depth > 3:
                raise ValueError("arrays inside arrays inside arrays")
            return GgufArray(sum(self.array(depth + 1).length for _ in range(length)), None)
        self.check(length * _itemsize(kind))
        self.place += length * _itemsize(kind)  # the numbers of an array are left out: nothing here needs them
        return GgufArray(length, None)

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self.text().decode(), self.number("I")
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(f"the tensor {name} has {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        return name, shape[::-1], self.number("I"), self.number("Q")


def _itemsize(kind: int) -> int:
    return np.dtype(SCALARS[kind]).itemsize
