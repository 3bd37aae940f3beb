"""GGUF files, by the gguf package (an extra): metadata, and tensors as numbers, dequantised where they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError

GGUF_SUFFIX = ".gguf"
TOKENS = "tokenizer.ggml.tokens"


def read_gguf_metadata(path: str | Path) -> dict[str, object]:
    """The metadata as plain numbers and words; of a list, such as the tokens, its length."""
    return read_gguf(path, lambda reader: {name: _plain(field) for name, field in reader.fields.items()})


def read_gguf_tokens(path: str | Path) -> list[str]:
    """The tokens of the model's vocabulary, in the order of its embedding's rows."""

    def tokens(reader: Any) -> list[str]:
        field = reader.fields.get(TOKENS)
        if field is None:
            raise InputError(f"{path} names no tokens: it has no '{TOKENS}'")
        return list(field.contents())

    return read_gguf(path, tokens)


def read_gguf_tensors(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, Float32[ndarray, "*shape"]]:
    """The wanted tensors by name, the slowest axis first as numpy has it."""

    def tensors(reader: Any) -> dict[str, Float32[ndarray, "*shape"]]:
        from gguf.quants import dequantize

        return {
            tensor.name: np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            for tensor in reader.tensors
            if wanted(tensor.name)
        }

    return read_gguf(path, tensors)


def _plain(field: Any) -> object:
    if len(field.data) == 1 and field.types[0].name != "ARRAY":
        return field.contents()
    return len(field.data)


def read_gguf(path: str | Path, use: Callable[[Any], Any]) -> Any:
    """What `use` makes of the open file; whatever is wrong with the file is said in one sentence."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist" if not path.exists() else f"{path} is not a regular file")
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise InputError(f"to read {path} the gguf package is needed: install manyheads[gguf]") from None
    try:
        return use(GGUFReader(str(path)))
    except InputError:
        raise
    except Exception as error:  # foreign bytes: whatever the parser says, this is no sound GGUF file
        raise InputError(f"{path} is not a GGUF file, or is truncated or damaged") from error
