"""A model's weights, as far as attention scores need them: the embedding, and queries, keys and norm of each layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32
from numpy import ndarray

from manyheads.bounds.shape import Architecture
from manyheads.errors import InputError
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_tensors
from manyheads.files.model_configs import EMBEDDINGS, FUSED, KEYS, QUERIES

NORMS = re.compile(r"(?:^|\.)(\d+)\.(?:input_layernorm|attention_norm|attn_norm|ln_1)\.weight$")


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """One layer's query and key weights as this package has them, and the weight of the norm before them."""

    query: Float32[ndarray, "heads d_model key_width"]
    key: Float32[ndarray, "key_heads d_model key_width"]
    norm: Float32[ndarray, " d_model"] | None
    centred: bool  # a layer norm, which subtracts the mean, not an RMS norm


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """The embedding and the layers in their order."""

    embedding: Float32[ndarray, "items d_model"]
    layers: tuple[LayerWeights, ...]


def read_model_weights(path: str | Path, architecture: Architecture) -> ModelWeights:
    """The weights in a safetensors or GGUF file of a model of that architecture.

    Rotary embeddings turn query and key alike, and GGUF stores both in the same changed order, so a head's form
    W_Q·W_Kᵀ is that of two items at the same position.
    """
    path = Path(path)
    patterns = (EMBEDDINGS, QUERIES, KEYS, FUSED, NORMS)
    found = _tensors(path, lambda name: any(pattern.search(name) for pattern in patterns))
    for name, tensor in found.items():
        if not np.isfinite(tensor).all():
            raise InputError(f"{path}: the tensor {name} has values that are not finite numbers")
    rows = [found[name] for name in found if EMBEDDINGS.search(name)]
    if not rows or rows[0].ndim != 2 or rows[0].shape[1] != architecture.d_model:
        raise InputError(f"{path} has no embedding of width {architecture.d_model} under a name that is known here")
    layers = [_layer(path, found, architecture, number) for number in range(architecture.layers)]
    return ModelWeights(rows[0], tuple(layers))


def _layer(path: Path, found: Mapping[str, ndarray], architecture: Architecture, number: int) -> LayerWeights:
    shape = architecture.shape
    fused, queries, keys, norm = (_numbered(found, pattern, number) for pattern in (FUSED, QUERIES, KEYS, NORMS))
    if fused is not None:  # GPT-2 keeps (inputs, outputs), the others (outputs, inputs)
        queries, keys = fused.T[: shape.query_budget], fused.T[shape.query_budget : 2 * shape.query_budget]
    if queries is None or keys is None:
        raise InputError(f"{path} has no query and key weights of layer {number} under names that are known here")
    if queries.shape != (shape.query_budget, shape.d_model) or keys.shape != (shape.key_budget, shape.d_model):
        raise InputError(f"{path}: the weights of layer {number} are not those of {architecture.name}")
    return LayerWeights(_in_heads(queries, shape.heads), _in_heads(keys, shape.groups), norm, centred=fused is not None)


def _in_heads(weight: Float[ndarray, "outputs d_model"], heads: int) -> Float32[ndarray, "heads d_model key_width"]:
    cut = weight.reshape(heads, -1, weight.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(cut, dtype=np.float32)


def _numbered(found: Mapping[str, ndarray], pattern: re.Pattern[str], number: int) -> ndarray | None:
    for name, tensor in found.items():
        match = pattern.search(name)
        if match and int(match[1]) == number:
            return tensor
    return None


def _tensors(path: Path, wanted: Callable[[str], bool]) -> dict[str, Float32[ndarray, "*shape"]]:
    if path.suffix == GGUF_SUFFIX:
        return read_gguf_tensors(path, wanted)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} holds no weights that are read here: its name must end in .safetensors or .gguf")
    from manyheads.files.safetensors_files import read_tensors

    file = read_tensors(path)
    return {name: file.floats(name).astype(np.float32) for name in file.tensors if wanted(name)}
