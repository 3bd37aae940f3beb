"""GGUF files, read with the gguf package (an extra): metadata, tensors as numbers, and the vocabulary of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError

GGUF_SUFFIX = ".gguf"
TOKENS = "tokenizer.ggml.tokens"


@dataclass(frozen=True, eq=False)
class GgufVocabulary:
    """The tokens of a GGUF model. Reading the file takes seconds: it is read once for all of them.

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
    return read_gguf(path, lambda reader: {name: _plain(field) for name, field in reader.fields.items()})


def read_gguf_tokens(path: str | Path) -> list[str]:
    """Read the tokens of a model's vocabulary, in the order of its embedding's rows.

    Raises:
        InputError: The file cannot be read or names no tokens, or the gguf package is missing.
    """

    def tokens(reader: Any) -> list[str]:
        field = reader.fields.get(TOKENS)
        if field is None:
            raise InputError(f"{path} names no tokens: it has no '{TOKENS}'")
        return list(field.contents())

    return read_gguf(path, tokens)


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
    return read_gguf(
        path, lambda reader: {tensor.name: _numbers(tensor) for tensor in reader.tensors if wanted(tensor.name)}
    )


def read_gguf_vocabulary(path: str | Path, *, tensor: str) -> GgufVocabulary:
    """Read the vocabulary of a model, with the rows of the named tensor.

    Raises:
        InputError: The file cannot be read or does not have the tensor, or the gguf package is missing.
    """

    def vocabulary(reader: Any) -> GgufVocabulary:
        def value(field: str, default: Any) -> Any:
            return reader.fields[field].contents() if field in reader.fields else default

        matches = [one for one in reader.tensors if one.name == tensor]
        if not matches:
            raise InputError(f"{path} holds no tensor '{tensor}'")
        return GgufVocabulary(
            name=Path(path).stem,
            rows=_numbers(matches[0]),
            tokens=tuple(value(TOKENS, ())),
            merges=tuple(value("tokenizer.ggml.merges", ())),
            model=str(value("tokenizer.ggml.model", "none")),
            cut=str(value("tokenizer.ggml.pre", "default")),
            end=value("tokenizer.ggml.eos_token_id", None),
        )

    return read_gguf(path, vocabulary)


def read_gguf(path: str | Path, use: Callable[[Any], Any]) -> Any:
    """Open a GGUF file and return the result of `use` with the open reader.

    Raises:
        InputError: The file cannot be read, or the gguf package is missing.
    """
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
    except Exception as error:  # the package raises any exception for bytes that are not a GGUF file
        raise InputError(f"{path} is not a GGUF file, or is truncated or damaged") from error


def _numbers(tensor: Any) -> Float32[ndarray, "*shape"]:
    from gguf.quants import dequantize

    return np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)


def _plain(field: Any) -> object:
    if len(field.data) == 1 and field.types[0].name != "ARRAY":
        return field.contents()
    return len(field.data)
