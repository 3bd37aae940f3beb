"""GgufVocabulary: the tokens of a GGUF model, how text is cut into them, and their rows, read in one go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.gguf_files import TOKENS, read_gguf


@dataclass(frozen=True, eq=False)
class GgufVocabulary:
    """What a GGUF file says of its tokens; reading it takes seconds, so it is read once."""

    name: str
    rows: Float32[ndarray, "tokens d_model"]
    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    model: str  # how the tokenizer works, e.g. "gpt2": byte pairs
    cut: str  # how text is cut into words before, e.g. "smollm"
    end: int | None  # the token that ends a text


def read_gguf_vocabulary(path: str | Path, *, tensor: str) -> GgufVocabulary:
    """The vocabulary, and the named tensor as its rows."""

    def vocabulary(reader: Any) -> GgufVocabulary:
        from gguf.quants import dequantize

        def said(field: str, otherwise: Any) -> Any:
            return reader.fields[field].contents() if field in reader.fields else otherwise

        found = [one for one in reader.tensors if one.name == tensor]
        if not found:
            raise InputError(f"{path} holds no tensor '{tensor}'")
        return GgufVocabulary(
            name=Path(path).stem,
            rows=np.ascontiguousarray(dequantize(found[0].data, found[0].tensor_type), dtype=np.float32),
            tokens=tuple(said(TOKENS, ())),
            merges=tuple(said("tokenizer.ggml.merges", ())),
            model=str(said("tokenizer.ggml.model", "none")),
            cut=str(said("tokenizer.ggml.pre", "default")),
            end=said("tokenizer.ggml.eos_token_id", None),
        )

    return read_gguf(path, vocabulary)
