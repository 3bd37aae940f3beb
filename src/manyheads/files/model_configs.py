"""Models in files: the architecture a config.json, a safetensors header or GGUF metadata tells of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manyheads.bounds.architectures import Architecture
from manyheads.errors import InputError
from manyheads.files.atomic_files import read_whole
from manyheads.files.gguf_files import GGUF_SUFFIX, read_gguf_metadata

# what each thing is called, in the order in which the names are tried
CONFIG = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "d_model": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "key_heads": ("num_key_value_heads", "n_kv_heads", "multi_query_group_num", "n_head_kv"),
    "key_width": ("head_dim", "d_kv", "kv_channels"),
    "vocabulary": ("vocab_size", "n_vocab"),
}
LATENT = ("kv_lora_rank", "qk_rope_head_dim")  # multi-head latent attention, as in DeepSeek-V2 and -V3
IS_LATENT = "has multi-head latent attention, whose keys are of low rank: the laws here do not speak of it"
MAX_HEADER = 100_000_000  # bytes, safetensors' own limit
# tensor names of the embedding and of a layer's query and key projections, as the common model families write them
EMBEDDINGS = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|shared|tok_embeddings)\.weight$|^token_embd\.weight$"
)
QUERIES = re.compile(r"(?:^|\.)(\d+)\.(?:self_attn\.q_proj|attention\.self\.query|attention\.wq|attn_q)\.weight$")
KEYS = re.compile(r"(?:^|\.)(\d+)\.(?:self_attn\.k_proj|attention\.self\.key|attention\.wk|attn_k)\.weight$")
FUSED = re.compile(r"(?:^|\.)(\d+)\.attn\.c_attn\.weight$")  # GPT-2: query, key and value side by side


def read_architecture(path: str | Path, *, key_width: int | None = None) -> Architecture:
    """The architecture in an HF config.json, a safetensors file's header or a GGUF file's metadata.

    A safetensors header has the projections' shapes but not into how many heads they are cut: a config.json beside it
    is read instead where there is one, else `key_width` must say.
    """
    path = Path(path)
    if key_width is not None and key_width < 1:
        raise InputError(f"a head is at least 1 wide, not {key_width}")
    if path.suffix == ".safetensors":
        beside = path.with_name("config.json")
        if key_width is None and beside.is_file():
            return _of_config(beside)
        return _of_header(path, key_width)
    if path.suffix == GGUF_SUFFIX:
        return _of_gguf(path)
    if path.suffix == ".json":
        return _of_config(path)
    raise InputError(f"{path} does not tell of a model: its name must end in .json, .safetensors or .gguf")


def tensor_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """The shapes in a safetensors file's header; no more than the header is read."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if 2 <= length <= MAX_HEADER else None
        if not isinstance(header, dict):
            raise ValueError("no header")
        return {name: tuple(map(int, entry["shape"])) for name, entry in header.items() if name != "__metadata__"}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # JSON and text that cannot be decoded included
        raise InputError(f"{path} is not a safetensors file, or its header is damaged") from error


def _of_config(path: Path) -> Architecture:
    content = read_whole(path)
    try:
        config = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a model's config: it is no JSON object")
    inner = config.get("text_config")  # models that also see or hear keep their language part in there
    config = inner if isinstance(inner, dict) and "num_attention_heads" in inner else config
    if any(config.get(name) is not None for name in LATENT):
        raise InputError(f"{path} {IS_LATENT}")
    found = {name: _first(config, keys, path) for name, keys in CONFIG.items()}
    if found["heads"] is None or found["d_model"] is None:
        raise InputError(f"{path} is a config without attention: it names no heads or no width")
    heads, d_model = found["heads"], found["d_model"]
    if found["key_heads"] is None:
        found["key_heads"] = _falcon_key_heads(config, path)
    if found["key_width"] is None and d_model % heads:
        raise InputError(f"{path} has {heads} heads that do not divide d_model {d_model}, and no head width")
    return Architecture(
        name=str(config.get("_name_or_path") or config.get("model_type") or path.parent.name or path.stem),
        layers=_needed(found["layers"], "layers", path),
        d_model=d_model,
        heads=heads,
        key_heads=heads if found["key_heads"] is None else found["key_heads"],
        key_width=d_model // heads if found["key_width"] is None else found["key_width"],
        vocabulary=_needed(found["vocabulary"], "vocabulary", path),
        source=str(path),
    )


def _falcon_key_heads(config: Mapping[str, Any], path: Path) -> int | None:
    """Falcon shares keys in groups in its new architecture; before, by all heads or by none, whatever num_kv_heads."""
    if config.get("new_decoder_architecture") is True:
        return _first(config, ("num_kv_heads",), path)
    if config.get("multi_query") is True:
        return 1
    return None


def _of_gguf(path: Path) -> Architecture:
    metadata = read_gguf_metadata(path)
    family = str(metadata.get("general.architecture", ""))

    def number(name: str) -> int | None:
        value = metadata.get(f"{family}.{name}")
        return value if isinstance(value, int) else None

    if any(number(f"attention.{name}") is not None for name in LATENT):
        raise InputError(f"{path} {IS_LATENT}")
    heads, d_model = number("attention.head_count"), number("embedding_length")
    if heads is None or d_model is None or heads < 1:
        raise InputError(f"{path} is a model without attention: its metadata name no heads or no width")
    vocabulary = number("vocab_size") or metadata.get("tokenizer.ggml.tokens")
    return Architecture(
        name=str(metadata.get("general.name") or family),
        layers=_needed(number("block_count"), "layers", path),
        d_model=d_model,
        heads=heads,
        key_heads=number("attention.head_count_kv") or heads,
        key_width=number("attention.key_length") or d_model // heads,
        vocabulary=_needed(vocabulary if isinstance(vocabulary, int) else None, "vocabulary", path),
        source=str(path),
    )


def _of_header(path: Path, key_width: int | None) -> Architecture:
    shapes = tensor_shapes(path)
    queries = {name: shape for name, shape in shapes.items() if QUERIES.search(name) and len(shape) == 2}
    keys = {name: shape for name, shape in shapes.items() if KEYS.search(name) and len(shape) == 2}
    fused = {name: shape for name, shape in shapes.items() if FUSED.search(name) and len(shape) == 2}
    rows = [shape for name, shape in shapes.items() if EMBEDDINGS.search(name) and len(shape) == 2]
    if not rows or not (fused or (queries and keys)):
        raise InputError(f"{path} has no query and key projections and embedding under names that are known here")
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
    return Architecture(
        name=path.stem,
        layers=len(fused or queries),
        d_model=rows[0][1],
        heads=wide // key_width,
        key_heads=narrow // key_width,
        key_width=key_width,
        vocabulary=rows[0][0],
        source=str(path),
    )


def _first(config: Mapping[str, Any], names: Sequence[str], path: Path) -> int | None:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{path} says that {name} is {value!r}, which is no whole number from 1 on")
        return value
    return None


def _needed(value: int | None, what: str, path: Path) -> int:
    if value is None:
        raise InputError(f"{path} does not say its {what}")
    return value
