"""Embeddings in files: .npy without pickle, a tensor of a safetensors file, the token embedding of a GGUF model."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole, write_whole
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_tensors
from manyheads.files.safetensors_files import CHECKSUM, pack, read_tensors

TOKEN_EMBEDDING = "token_embd.weight"  # as GGUF names it
MAGIC = b"\x93NUMPY"
PICKLES = (b"\x80", b"(", b"c", b"]", b"}")  # how a pickle may begin, newer and older protocols
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_embedding(path: str | Path, *, tensor: str | None = None) -> Float32[ndarray, "items d_model"]:
    """One row for each item, from an .npy file, a safetensors file's only (or named) tensor, or a GGUF model's tokens.

    Half, single, double and (in safetensors) bfloat16 numbers become float32, the numbers that are then certified.
    A safetensors file that `write_embedding` wrote carries a checksum; in any other only structural damage shows.
    """
    path = Path(path)
    if path.suffix == ".npy":
        if tensor is not None:
            raise InputError(f"{path} is an .npy file, which holds one array and no tensor '{tensor}'")
        return checked_rows(_npy(path), path)
    if path.suffix == ".safetensors":
        return checked_rows(_safetensors(path, tensor), path)
    if path.suffix == GGUF_SUFFIX:
        return checked_rows(_gguf(path, tensor or TOKEN_EMBEDDING), path)
    raise InputError(f"{path} is not an embedding file: its name must end in .npy, .safetensors or .gguf")


def write_embedding(path: str | Path, embedding: Float32[ndarray, "items d_model"], *, force: bool = False) -> None:
    """Write the rows as .npy or, with a checksum, as .safetensors, by the name's ending."""
    path = Path(path)
    if path.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, embedding, allow_pickle=False)
        content = buffer.getvalue()
    elif path.suffix == ".safetensors":
        content = pack({"embedding": embedding}, {"format": "manyheads embedding"})
    else:
        raise InputError(f"{path} cannot hold an embedding: its name must end in .npy or .safetensors")
    write_whole(path, content, force=force)


def _npy(path: Path) -> ndarray:
    content = read_whole(path)
    if not content.startswith(MAGIC):
        kind = "is a pickle, which is never loaded" if content.startswith(PICKLES) else "is damaged or something else"
        raise InputError(f"{path} is not an .npy file: it {kind}")
    stream = io.BytesIO(content)
    try:
        shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # a damaged header is evaluated as Python text and may fail in any way that text can
        raise InputError(f"{path} is damaged: its header cannot be read") from error
    if dtype.hasobject:
        raise InputError(f"{path} holds pickled Python objects, which are never loaded")
    # The claim is held against the bytes that are there before anything is allocated for it.
    if len(content) - stream.tell() != math.prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        raise InputError(f"{path} is truncated or damaged: its length is not what its header says")
    flat = np.frombuffer(content, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _safetensors(path: Path, name: str | None) -> ndarray:
    file = read_tensors(path)
    if CHECKSUM in file.metadata:
        file.verify()
    if name is None:
        if len(file.tensors) != 1:
            raise InputError(f"{path} holds {len(file.tensors)} tensors, so one must be named: {file.names}")
        (name,) = file.tensors
    return file.floats(name)


def _gguf(path: Path, name: str) -> ndarray:
    found = read_gguf_tensors(path, lambda tensor: tensor == name)
    if name not in found:
        raise InputError(f"{path} holds no tensor '{name}'")
    return found[name]


def checked_rows(array: ndarray, path: Path) -> Float32[ndarray, "items d_model"]:
    """The array as float32 rows; what is no table of finite numbers is refused."""
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
