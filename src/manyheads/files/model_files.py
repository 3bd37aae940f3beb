"""Models in files: their architecture (config.json, safetensors header, GGUF metadata) and attention weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from numpy import ndarray

from manyheads.bounds.shape import Architecture
from manyheads.errors import InputError, path_of
from manyheads.files.door import exists, read_json
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_metadata, read_gguf_tensors
from manyheads.files.safetensors_files import read_tensors, tensor_shapes
from manyheads.tables import in_heads
from manyheads.text import shown_text

# the names of each field in a config, in the order in which they are tried
CONFIG = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "d_model": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "key_heads": ("num_key_value_heads", "n_kv_heads", "multi_query_group_num", "n_head_kv"),
    "key_width": ("head_dim", "d_kv", "kv_channels"),
    "vocabulary": ("vocab_size", "n_vocab"),
}
LATENT = "kv_lora_rank"  # of multi-head latent attention, as in DeepSeek-V2 and -V3
LATENT_PARTS = (LATENT, "qk_nope_head_dim", "qk_rope_head_dim")
# kinds of layers that `layer_types` of a config can name and whose scores are q·k
ATTENTION_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "attention")
# the largest numbers of an architecture, some 60 times those of the largest models; an audit takes seconds at these
LARGEST = {"layers": 2**14, "d_model": 2**20, "heads": 2**16, "key_heads": 2**16, "key_width": 2**20}
LARGEST |= {"vocabulary": 2**27, "position_width": 2**20}
LARGEST_BUDGET = 2**20  # heads · key_width
# tensor names of the embedding and of a layer's query and key projections and norm in the common model families
EMBEDDINGS = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|shared|tok_embeddings)\.weight$|^token_embd\.weight$"
)
QUERIES = re.compile(r"(?:^|\.)(\d+)\.(?:self_attn\.q_proj|attention\.self\.query|attention\.wq|attn_q)\.weight$")
KEYS = re.compile(r"(?:^|\.)(\d+)\.(?:self_attn\.k_proj|attention\.self\.key|attention\.wk|attn_k)\.weight$")
FUSED = re.compile(r"(?:^|\.)(\d+)\.attn\.c_attn\.weight$")  # GPT-2: query, key and value in one matrix
NORMS = re.compile(r"(?:^|\.)(\d+)\.(?:input_layernorm|attention_norm|attn_norm|ln_1)\.weight$")


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The query and key weights of one layer, and the norm before them.

    Attributes:
        query: The query weights.
        key: The key weights.
        norm: The weight of the norm, if there is one.
        centred: Whether the norm is a layer norm, which subtracts the mean; False for an RMS norm.
    """

    query: Float32[ndarray, "heads d_model key_width"]
    key: Float32[ndarray, "key_heads d_model key_width"]
    norm: Float32[ndarray, " d_model"] | None
    centred: bool


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """The embedding and the layers of a model in their order."""

    embedding: Float32[ndarray, "items d_model"]
    layers: tuple[LayerWeights, ...]


def read_architecture(path: str | Path, *, key_width: int | None = None) -> Architecture:
    """Read the architecture of a model.

    A safetensors header has the shapes of the projections, but not the number of heads. A config.json beside the file
    is read instead. Without it, `key_width` is needed.

    Args:
        path: A config.json of Hugging Face, a .safetensors file or a .gguf file.
        key_width: The width of a head, for a safetensors file without a config.json.

    Returns:
        The architecture.

    Raises:
        InputError: The file cannot be read, or does not describe a model with attention that the laws cover.
    """
    path = path_of(path)
    if key_width is not None and key_width < 1:
        raise InputError(f"a head is at least 1 wide, not {key_width}")
    if path.suffix == ".safetensors":
        beside = path.with_name("config.json")
        if key_width is None and exists(beside):
            tensor_shapes(path)  # a file that is no model is refused, also beside a config
            return _architecture(beside, **_config_numbers(beside))
        return _architecture(path, **_header_numbers(path, key_width))
    if path.suffix == GGUF_SUFFIX:
        return _architecture(path, **_gguf_numbers(path))
    if path.suffix == ".json":
        return _architecture(path, **_config_numbers(path))
    raise InputError(f"{path} does not describe a model: its name must end in .json, .safetensors or .gguf")


def read_model_weights(path: str | Path, architecture: Architecture) -> ModelWeights:
    """Read the weights that attention scores need.

    Rotary embeddings rotate query and key equally, and GGUF stores both in the same changed order. Therefore a head's
    product W_Q·W_Kᵀ is that of two items at the same position.

    Args:
        path: A .safetensors or .gguf file.
        architecture: The architecture of the model.

    Returns:
        The embedding, and queries, keys and norm of each layer.

    Raises:
        InputError: The file cannot be read, or its weights do not have the shapes of the architecture.
    """
    path = path_of(path)
    if architecture.latent is not None:
        raise InputError(f"{path} makes its keys from a latent: the geometry of such heads is not measured")
    patterns = (EMBEDDINGS, QUERIES, KEYS, FUSED, NORMS)
    found = _tensors(path, lambda name: any(pattern.search(name) for pattern in patterns))
    for name, tensor in found.items():
        if not np.isfinite(tensor).all():
            raise InputError(f"{path}: the tensor {name} has values that are not finite numbers")
    rows = [found[name] for name in found if EMBEDDINGS.search(name)]
    if not rows or rows[0].ndim != 2 or rows[0].shape[1] != architecture.d_model:
        raise InputError(f"{path} has no embedding of width {architecture.d_model} with a known name")
    layers = [_layer(path, found, architecture, number) for number in range(architecture.layers)]
    return ModelWeights(rows[0], tuple(layers))


def _architecture(path: Path, *, name: str, **numbers: Any) -> Architecture:
    """The architecture of these numbers, which must be those of a model that can exist."""
    for field, largest in LARGEST.items():
        if (numbers.get(field) or 0) > largest:
            given = _short(numbers[field])
            raise InputError(f"{path} says that its {field} is {given}, but no model has more than {largest:,}")
    if numbers["heads"] * numbers["key_width"] > LARGEST_BUDGET:
        raise InputError(
            f"{path} has {in_heads(numbers['heads'], numbers['key_width'])}: their product is over "
            f"{LARGEST_BUDGET:,}, which no model has"
        )
    try:
        return Architecture(name=name, source=str(path), **numbers)
    except InputError as error:
        raise InputError(f"{path} describes no model: {error}") from None


def _short(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"over 10^{len(str(number)) - 1}"


def _config_numbers(path: Path) -> dict[str, Any]:
    config = read_json(path)
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a model's config: it is no JSON object")
    inner = config.get("text_config")  # models of images or sound have their language part here
    config = inner if isinstance(inner, dict) and "num_attention_heads" in inner else config
    kinds = config.get("layer_types")
    others = {str(kind) for kind in kinds} - set(ATTENTION_KINDS) if isinstance(kinds, list) else set()
    if others:
        raise InputError(
            f"{path} has layers of the kind {shown_text(min(others), most=40)}, whose scores are not those of queries "
            f"and keys: the audit knows layers that are all of the kind {' or '.join(ATTENTION_KINDS[:3])}"
        )
    latent = _latent_numbers(config, path)
    found = {name: _first(config, keys, path) for name, keys in CONFIG.items()}
    if found["heads"] is None or found["d_model"] is None:
        raise InputError(f"{path} is a config without attention: it names no heads or no width")
    heads, d_model = found["heads"], found["d_model"]
    if found["key_heads"] is None:
        found["key_heads"] = _falcon_key_heads(config, path)
    if latent:
        found |= {"key_heads": heads, "key_width": latent.pop("key_width")}
    if found["key_width"] is None and d_model % heads:
        raise InputError(f"{path} has {heads} heads that do not divide d_model {d_model}, and no head width")
    return dict(
        name=str(config.get("_name_or_path") or config.get("model_type") or path.parent.name or path.stem),
        layers=_needed(found["layers"], "layers", path),
        d_model=d_model,
        heads=heads,
        key_heads=heads if found["key_heads"] is None else found["key_heads"],
        key_width=d_model // heads if found["key_width"] is None else found["key_width"],
        vocabulary=found["vocabulary"],
        **latent,
    )


def _latent_numbers(config: Mapping[str, Any], path: Path) -> dict[str, int | None]:
    """The widths of multi-head latent attention; nothing for a config without it.

    A head has `qk_nope_head_dim` dimensions whose keys come from the latent, and `qk_rope_head_dim` dimensions for
    positions.
    """
    latent, key_width, position_width = (_first(config, (name,), path) for name in LATENT_PARTS)
    if latent is None and key_width is None and position_width is None:
        return {}
    if latent is None or key_width is None:
        missing = LATENT if latent is None else LATENT_PARTS[1]
        raise InputError(f"{path} has an unknown kind of attention: latent attention that does not say {missing}")
    return {
        "key_width": key_width,
        "latent": latent,
        "query_latent": _first(config, ("q_lora_rank",), path),
        "position_width": position_width or 0,
    }


def _falcon_key_heads(config: Mapping[str, Any], path: Path) -> int | None:
    """The key heads of Falcon: num_kv_heads in the new architecture; before it, 1 or all heads."""
    if config.get("new_decoder_architecture") is True:
        return _first(config, ("num_kv_heads",), path)
    if config.get("multi_query") is True:
        return 1
    return None


def _gguf_numbers(path: Path) -> dict[str, Any]:
    metadata = read_gguf_metadata(path)
    family = str(metadata.get("general.architecture", ""))

    def number(name: str) -> int | None:
        value = metadata.get(f"{family}.{name}")
        return value if isinstance(value, int) else None

    heads, d_model = number("attention.head_count"), number("embedding_length")
    if heads is None or d_model is None or heads < 1:
        raise InputError(f"{path} is a model without attention: its metadata name no heads or no width")
    vocabulary = number("vocab_size") or metadata.get("tokenizer.ggml.tokens")
    positions, width = number("rope.dimension_count") or 0, number("attention.key_length_mla")
    width = width or number("attention.key_length") or d_model // heads
    latent: dict[str, int | None] = {}
    if number(f"attention.{LATENT}") is not None:
        if width <= positions:
            raise InputError(f"{path} has an unknown kind of attention: heads of {width}, {positions} for positions")
        width -= positions
        latent = {"latent": number(f"attention.{LATENT}"), "query_latent": number("attention.q_lora_rank")}
        latent |= {"position_width": positions}
    return dict(
        name=str(metadata.get("general.name") or family),
        layers=_needed(number("block_count"), "layers", path),
        d_model=d_model,
        heads=heads,
        key_heads=heads if latent else number("attention.head_count_kv") or heads,
        key_width=width,
        vocabulary=vocabulary if isinstance(vocabulary, int) else None,
        **latent,
    )


def _header_numbers(path: Path, key_width: int | None) -> dict[str, Any]:
    shapes = tensor_shapes(path)
    queries = {name: shape for name, shape in shapes.items() if QUERIES.search(name) and len(shape) == 2}
    keys = {name: shape for name, shape in shapes.items() if KEYS.search(name) and len(shape) == 2}
    fused = {name: shape for name, shape in shapes.items() if FUSED.search(name) and len(shape) == 2}
    rows = [shape for name, shape in shapes.items() if EMBEDDINGS.search(name) and len(shape) == 2]
    if not rows or not (fused or (queries and keys)):
        raise InputError(f"{path} has no query and key projections and embedding with known names")
    if key_width is None:
        raise InputError(
            f"{path} does not say how wide its heads are, and no config.json is beside it: give --key-width"
        )
    wide, narrow = (
        (shape[1] // 3 for shape in [next(iter(fused.values()))] * 2)
        if fused
        else (next(iter(found.values()))[0] for found in (queries, keys))
    )
    if wide % key_width or narrow % key_width:
        raise InputError(f"{path} has projections of {wide} and {narrow}, which are no heads of width {key_width}")
    return dict(
        name=path.stem,
        layers=len(fused or queries),
        d_model=rows[0][1],
        heads=wide // key_width,
        key_heads=narrow // key_width,
        key_width=key_width,
        vocabulary=rows[0][0],
    )


def _first(config: Mapping[str, Any], names: Sequence[str], path: Path) -> int | None:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            given = shown_text(repr(value), most=60)
            raise InputError(f"{path} says that {name} is {given}, which is no whole number from 1 on")
        return value
    return None


def _needed(value: int | None, name: str, path: Path) -> int:
    if value is None:
        raise InputError(f"{path} does not say its {name}")
    return value


def _layer(path: Path, found: Mapping[str, ndarray], architecture: Architecture, number: int) -> LayerWeights:
    shape = architecture.shape
    fused, queries, keys, norm = (_layer_tensor(found, pattern, number) for pattern in (FUSED, QUERIES, KEYS, NORMS))
    if fused is not None:  # GPT-2 has (inputs, outputs), the others (outputs, inputs)
        queries, keys = fused.T[: shape.query_budget], fused.T[shape.query_budget : 2 * shape.query_budget]
    if queries is None or keys is None:
        raise InputError(f"{path} has no query and key weights of layer {number} with known names")
    if queries.shape != (shape.query_budget, shape.d_model) or keys.shape != (shape.key_budget, shape.d_model):
        raise InputError(f"{path}: the weights of layer {number} are not those of {architecture.name}")
    return LayerWeights(_in_heads(queries, shape.heads), _in_heads(keys, shape.groups), norm, centred=fused is not None)


def _in_heads(weight: Float[ndarray, "outputs d_model"], heads: int) -> Float32[ndarray, "heads d_model key_width"]:
    cut = weight.reshape(heads, -1, weight.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(cut, dtype=np.float32)


def _layer_tensor(found: Mapping[str, ndarray], pattern: re.Pattern[str], number: int) -> ndarray | None:
    for name, tensor in found.items():
        match = pattern.search(name)
        if match and int(match[1]) == number:
            return tensor
    return None


def _tensors(path: Path, wanted: Callable[[str], bool]) -> dict[str, Float32[ndarray, "*shape"]]:
    if path.suffix == GGUF_SUFFIX:
        return read_gguf_tensors(path, wanted)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} holds no weights that can be read: its name must end in .safetensors or .gguf")
    file = read_tensors(path)
    return {name: file.floats(name).astype(np.float32) for name in file.tensors if wanted(name)}
