"""Exports of a layer for use without manyheads: a directory that PyTorch, transformers or TransformerLens loads."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import safetensors.numpy
from jaxtyping import Float, Float32
from numpy import ndarray

from manyheads.errors import InputError, require_type
from manyheads.files.atomic_files import check_writable, new_directory, write_together
from manyheads.files.door import reason
from manyheads.files.layer_files import pack_layer
from manyheads.layer.layer import Layer
from manyheads.layer.rules import LOGSUMEXP, MAX, SOFTMAX, SUM
from manyheads.problem.embedding import Embedding

Library = Literal["torch", "transformers", "transformer-lens"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
STANDALONE = Path(__file__).parent / "standalone"
TORCH_RULES = (MAX, SOFTMAX, SUM, LOGSUMEXP)  # of standalone/attention.py
T5_BLOCK = "encoder.block.0.layer"
T5_BUCKETS = 32  # the number of buckets of relative positions in T5
TORCH_FORMAT = {"format": "pt"}  # transformers refuses a safetensors file without this
ABSORBED = 26  # a float32 has 24 bits: a number that is smaller by 26 bits vanishes in a sum, in every rounding


def write_export(
    directory: str | Path,
    layer: Layer,
    *,
    to: Library,
    embedding: Embedding | Float32[ndarray, "items d_model"] | None = None,
    provenance: Mapping[str, str | int] | None = None,
    precision: Literal["float32", "float64"] | None = None,
    force: bool = False,
) -> list[Path]:
    """Write a directory from which another library loads the layer.

    - `torch`: attention.py, a module with this package's rules that needs only torch and safetensors, and
      layer.safetensors, which contains the embedding if it is given.
    - `transformers`: a `T5EncoderModel`; for heads that share keys an `EuroBertModel` (transformers 5), which shares
      them too. The attention probabilities, added over the heads, are the scores. The rule must be softmax.
    - `transformer-lens`: a `HookedTransformer` (TransformerLens 2 and 3); hooked.py loads it. Its `hook_attn_scores`
      are the heads' scores, divided by √d_k for the rule softmax, and its `hook_pattern` is their softmax.
      Heads that share keys get a copy of them each; the scores are the same.

    Args:
        directory: The directory.
        layer: The layer.
        to: The library.
        embedding: One row for each item. The last two libraries need it, because their models read item numbers.
        provenance: Facts on the origin of the layer, kept as text in layer.safetensors.
        precision: The number type of the weights, in which the other library computes. By default that of the layer,
            and float32 at least; then no number changes.
        force: Whether to write into an existing directory.

    Returns:
        The files that were written.

    Raises:
        InputError: The library is unknown or cannot hold the layer, the embedding is missing or has another width, the
            directory exists and `force` is False, or it cannot be written.
    """
    directory = Path(directory)
    require_type(layer, Layer, "the layer to export")
    if to not in LIBRARIES:
        raise InputError(f"unknown library '{to}': choose from {', '.join(LIBRARIES)}")
    rows = None if embedding is None else Embedding.of(embedding).rows
    if rows is not None and rows.shape[1] != layer.d_model:
        raise InputError(
            f"the layer reads rows of {layer.d_model} numbers but the embedding has rows of {rows.shape[1]}"
        )
    dtype = np.dtype(precision or export_precision(layer))
    layer = replace(layer, query=layer.query.astype(dtype), key=layer.key.astype(dtype))
    if to == "torch":
        if layer.rule not in TORCH_RULES:
            known = ", ".join(map(str, TORCH_RULES))
            raise InputError(f"an export to torch has the rules {known}, not {layer.rule}: choose transformer-lens")
        files = {
            "attention.py": (STANDALONE / "attention.py").read_bytes(),
            "layer.safetensors": pack_layer(layer, provenance=provenance, embedding=rows),
        }
        return _write_directory(directory, files, force=force)
    if rows is None:
        raise InputError(f"an export to {to} carries the embedding, and none is given")
    if to == "transformers":
        if layer.rule is not SOFTMAX:
            raise InputError(
                f"transformers attends by softmax, so a layer with the rule {layer.rule} goes to torch or "
                f"transformer-lens"
            )
        made = _t5_files if layer.key_heads == layer.heads else _eurobert_files
        return _write_directory(directory, made(layer, rows), force=force)
    hooked = {"hooked.py": (STANDALONE / "hooked.py").read_bytes()}
    return _write_directory(directory, hooked | _lens_files(layer, rows), force=force)


def export_precision(layer: Layer) -> str:
    """The number type of an export by default.

    Args:
        layer: The layer.

    Returns:
        The type in which every library can compute both weights and in which no number changes.
    """
    return str(np.result_type(layer.query, layer.key, np.float32))


def check_directory(directory: str | Path, *, force: bool) -> None:
    """Check, before the work begins, that `write_export` will be able to write a directory.

    Args:
        directory: The directory.
        force: Whether to write into an existing directory.

    Raises:
        InputError: The directory exists and `force` is False, or it cannot be written.
    """
    directory = Path(directory)
    try:
        is_new = not directory.exists()
    except (OSError, ValueError) as error:  # a name that is too long, or a directory that cannot be searched
        raise InputError(f"{directory} cannot be written: {reason(error)}") from error
    if is_new:
        check_writable(directory, force=False)
    elif not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory to write into")
    elif not force:
        raise InputError(f"{directory} already exists and is not written into without --force (in Python force=True)")
    elif not os.access(directory, os.W_OK | os.X_OK):
        raise InputError(f"{directory} cannot be written into: it is not writable")


def _write_directory(directory: Path, files: Mapping[str, bytes], *, force: bool) -> list[Path]:
    check_directory(directory, force=force)
    contents = {directory / name: content for name, content in files.items()}
    with new_directory(directory):
        write_together(contents, force=force)
    return list(contents)


def _lens_files(layer: Layer, embedding: Float32[ndarray, "items d_model"]) -> dict[str, bytes]:
    """A HookedTransformer of one block for hooked.py: no normalisation, no positions, every item sees all items."""
    dtype = layer.query.dtype
    config = {
        "n_layers": 1,
        "d_model": layer.d_model,
        "n_heads": layer.heads,
        "d_head": layer.key_width,
        "n_ctx": len(embedding),
        "d_vocab": len(embedding),
        "d_vocab_out": 1,
        "attn_only": True,
        "attention_dir": "bidirectional",
        "normalization_type": None,
        "positional_embedding_type": "standard",  # hooked.py sets the positions to zero
        # hook_attn_scores are then the numbers that the rule joins: s_k, and s_k/√d_k for softmax
        "use_attn_scale": layer.rule is SOFTMAX,
        "dtype": str(dtype),
        "device": "cpu",
        "manyheads": {"rule": str(layer.rule), "threshold": layer.threshold.hex()},
    }
    weights = {
        "embed.W_E": embedding.astype(dtype),
        "blocks.0.attn.W_Q": layer.query,
        "blocks.0.attn.W_K": layer.head_keys,
    }
    files = _config_and_model(config, weights, None)
    # hooked.py compares this checksum with the config and the model.
    text = json.dumps(config, sort_keys=True).encode()
    checksum = hashlib.sha256(text + files["model.safetensors"]).hexdigest()
    return _config_and_model(config | {"sha256": checksum}, weights, None)


def _t5_files(layer: Layer, embedding: Float32[ndarray, "items d_model"]) -> dict[str, bytes]:
    """A softmax layer as a T5 encoder of one block, whose head width is free.

    T5 adds the attention's output to the rows, and then a feed-forward part. Here the values and the feed-forward part
    are zero: the rows do not change, and the result is the attention probabilities. T5 differs from this package's
    softmax in three points, and each is compensated exactly:

    - T5 does not divide scores by √d_k: W_Q contains the factor.
    - T5 adds a bias for relative positions: its table is zero.
    - T5 divides each row by its root mean square, √(mean x² + ε). Let ε be a power of 4 above 2^26 · max mean x². Then
      the sum rounds to ε in single precision, in which T5 computes it, and every row is divided by the same power of 2.
      The norm's weight √ε multiplies it back: the result is the identity to the last bit, for rows of every length.

    The threshold is `config.manyheads["threshold"]`.
    """
    half_exponent = _half_exponent(embedding)
    config = {
        "architectures": ["T5EncoderModel"],
        "model_type": "t5",
        "vocab_size": len(embedding),
        "d_model": layer.d_model,
        "num_heads": layer.heads,
        "d_kv": layer.key_width,
        "num_layers": 1,
        "d_ff": 1,
        "feed_forward_proj": "relu",
        "dropout_rate": 0.0,
        "layer_norm_epsilon": 4.0**half_exponent,
        "relative_attention_num_buckets": T5_BUCKETS,
        "is_encoder_decoder": False,
        "use_cache": False,
        "dtype": str(layer.query.dtype),
        "torch_dtype": str(layer.query.dtype),  # the name of dtype in version 4
        "manyheads": {"rule": str(layer.rule), "threshold": layer.threshold},
    }
    return _config_and_model(config, _t5_weights(layer, embedding, half_exponent), TORCH_FORMAT)


def _t5_weights(
    layer: Layer, embedding: Float32[ndarray, "items d_model"], half_exponent: int
) -> dict[str, Float[ndarray, "*shape"]]:
    dtype, budget, d_model = layer.query.dtype, layer.query_budget, layer.d_model
    identity = np.full(d_model, 2.0**half_exponent, dtype)
    attention, feed_forward = f"{T5_BLOCK}.0.SelfAttention", f"{T5_BLOCK}.1.DenseReluDense"
    scaled = layer.query.astype(np.float64) / math.sqrt(layer.key_width)
    return {
        "shared.weight": embedding.astype(dtype),
        f"{attention}.q.weight": _linear_weight(scaled).astype(dtype),
        f"{attention}.k.weight": _linear_weight(layer.key),
        f"{attention}.v.weight": np.zeros((budget, d_model), dtype),
        f"{attention}.o.weight": np.zeros((d_model, budget), dtype),
        f"{attention}.relative_attention_bias.weight": np.zeros((T5_BUCKETS, layer.heads), dtype),
        f"{T5_BLOCK}.0.layer_norm.weight": identity,
        f"{feed_forward}.wi.weight": np.zeros((1, d_model), dtype),
        f"{feed_forward}.wo.weight": np.zeros((d_model, 1), dtype),
        f"{T5_BLOCK}.1.layer_norm.weight": identity,
        "encoder.final_layer_norm.weight": identity,
    }


def _eurobert_files(layer: Layer, embedding: Float32[ndarray, "items d_model"]) -> dict[str, bytes]:
    """A softmax layer whose heads share keys, as an EuroBERT of one block: a free head width and shared key heads.

    As in `_t5_files` the values and the feed-forward part are zero and the normalisation is the identity. What differs
    from this package's softmax is compensated:

    - EuroBERT rotates queries and keys by positions: a scaling of positions by 2^-200 makes every angle exactly zero.
    - It needs an even head width and a d_model that `heads` divides: columns of zeros complete both. They add nothing
      to a score.
    - It divides scores by the square root of the completed width: W_Q contains the quotient of the two roots, which is
      1 for an even width.
    """
    half_exponent, dtype = _half_exponent(embedding), layer.query.dtype
    width, d_model = layer.key_width + layer.key_width % 2, layer.d_model + -layer.d_model % layer.heads
    config = {
        "architectures": ["EuroBertModel"],
        "model_type": "eurobert",
        "vocab_size": len(embedding),
        "hidden_size": d_model,
        "intermediate_size": 1,
        "num_hidden_layers": 1,
        "num_attention_heads": layer.heads,
        "num_key_value_heads": layer.key_heads,
        "head_dim": width,
        "max_position_embeddings": len(embedding),
        "rms_norm_eps": 4.0**half_exponent,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0**200},
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id")),
        "mask_token_id": 0,  # never used; EuroBERT takes no None here, and warns of its own default
        "dtype": str(dtype),
        "manyheads": {"rule": str(layer.rule), "threshold": layer.threshold},
    }

    def completed(weights: Float[ndarray, "_ d_model key_width"]) -> Float[ndarray, "_ hidden_size head_dim"]:
        return np.pad(weights, [(0, 0), (0, d_model - layer.d_model), (0, width - layer.key_width)])

    scaled = layer.query.astype(np.float64) * math.sqrt(width / layer.key_width)
    identity, block = np.full(d_model, 2.0**half_exponent, dtype), "layers.0"
    attention, feed_forward = f"{block}.self_attn", f"{block}.mlp"
    weights = {
        "embed_tokens.weight": np.pad(embedding, [(0, 0), (0, d_model - layer.d_model)]).astype(dtype),
        f"{attention}.q_proj.weight": _linear_weight(completed(scaled)).astype(dtype),
        f"{attention}.k_proj.weight": _linear_weight(completed(layer.key)),
        f"{attention}.v_proj.weight": np.zeros((layer.key_heads * width, d_model), dtype),
        f"{attention}.o_proj.weight": np.zeros((d_model, layer.heads * width), dtype),
        f"{feed_forward}.gate_proj.weight": np.zeros((1, d_model), dtype),
        f"{feed_forward}.up_proj.weight": np.zeros((1, d_model), dtype),
        f"{feed_forward}.down_proj.weight": np.zeros((d_model, 1), dtype),
        f"{block}.input_layernorm.weight": identity,
        f"{block}.post_attention_layernorm.weight": identity,
        "norm.weight": identity,
    }
    return _config_and_model(config, weights, TORCH_FORMAT)


def _linear_weight(weights: Float[ndarray, "heads d_model key_width"]) -> Float[ndarray, "budget d_model"]:
    """The weight of a linear map whose outputs are those of head 1, head 2, …"""
    heads, d_model, width = weights.shape
    return weights.transpose(0, 2, 1).reshape(heads * width, d_model)


def _half_exponent(embedding: Float32[ndarray, "items d_model"]) -> int:
    """The smallest k ≥ 0 for which 4^k absorbs the mean square of every row."""
    largest = float(np.square(embedding, dtype=np.float64).mean(axis=1).max())
    exponent = math.frexp(largest)[1] + ABSORBED if largest > 0 else 0
    if exponent > 126:
        raise InputError("the embedding's rows are too long for the normalisation of transformers in single precision")
    return max(0, math.ceil(exponent / 2))


def _config_and_model(
    config: Mapping[str, object], weights: Mapping[str, ndarray], metadata: dict[str, str] | None
) -> dict[str, bytes]:
    contiguous = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    model = safetensors.numpy.save(contiguous, metadata)
    return {"config.json": (json.dumps(config, indent=2) + "\n").encode(), "model.safetensors": model}
