"""A softmax layer as a T5 encoder of one block: the one architecture of transformers whose head width is free.

T5 adds what it attends to back onto the rows, behind a feed-forward part; here values and feed-forward are zero, so
the rows come out as they went in, and the attention probabilities are what the model is for. Three things differ
from this package's softmax, and each is made up for exactly:

- T5 does not divide scores by √d_k: W_Q carries the factor.
- T5 adds a bias for relative positions: its table is zero.
- T5 divides each row by its root mean square, √(mean x² + ε). With ε a power of 4 beyond 2^26 · max mean x², the sum
  rounds to ε in the single precision it is computed in, so every row is divided by the same power of 2, which the
  norm's weight √ε multiplies back: bit for bit the identity, whatever the rows' lengths.
"""

from __future__ import annotations

import json
import math

import numpy as np
import safetensors.numpy
from jaxtyping import Float, Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import SOFTMAX

BLOCK = "encoder.block.0.layer"
BUCKETS = 32  # of relative positions, T5's own number
FORMAT = {"format": "pt"}  # without this transformers refuses a safetensors file
ABSORBED = 26  # a float32 has 24 bits: what is smaller by 26 vanishes in a sum, however it rounds


def files(layer: Layer, embedding: Float32[ndarray, "items d_model"]) -> dict[str, bytes]:
    """What `T5EncoderModel.from_pretrained` reads; the threshold is `config.manyheads["threshold"]`."""
    if layer.rule is not SOFTMAX:
        raise InputError(
            f"transformers attends by softmax, so a layer with the rule {layer.rule} goes to torch or transformer-lens"
        )
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
        "relative_attention_num_buckets": BUCKETS,
        "is_encoder_decoder": False,
        "use_cache": False,
        "dtype": str(layer.query.dtype),
        "torch_dtype": str(layer.query.dtype),  # the same, as version 4 says it
        "manyheads": {"rule": str(layer.rule), "threshold": layer.threshold},
    }
    weights = _weights(layer, embedding, half_exponent)
    model = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in weights.items()}, FORMAT)
    return {"config.json": (json.dumps(config, indent=2) + "\n").encode(), "model.safetensors": model}


def _weights(
    layer: Layer, embedding: Float32[ndarray, "items d_model"], half_exponent: int
) -> dict[str, Float[ndarray, "*shape"]]:
    dtype, budget, d_model = layer.query.dtype, layer.key_budget, layer.d_model
    identity = np.full(d_model, 2.0**half_exponent, dtype)
    attention, feed_forward = f"{BLOCK}.0.SelfAttention", f"{BLOCK}.1.DenseReluDense"
    scaled = layer.query.astype(np.float64) / math.sqrt(layer.key_width)
    return {
        "shared.weight": embedding.astype(dtype),
        f"{attention}.q.weight": _stacked(scaled).astype(dtype),
        f"{attention}.k.weight": _stacked(layer.key),
        f"{attention}.v.weight": np.zeros((budget, d_model), dtype),
        f"{attention}.o.weight": np.zeros((d_model, budget), dtype),
        f"{attention}.relative_attention_bias.weight": np.zeros((BUCKETS, layer.heads), dtype),
        f"{BLOCK}.0.layer_norm.weight": identity,
        f"{feed_forward}.wi.weight": np.zeros((1, d_model), dtype),
        f"{feed_forward}.wo.weight": np.zeros((d_model, 1), dtype),
        f"{BLOCK}.1.layer_norm.weight": identity,
        "encoder.final_layer_norm.weight": identity,
    }


def _stacked(weights: Float[ndarray, "heads d_model key_width"]) -> Float[ndarray, "budget d_model"]:
    """A linear map's weight, its outputs head by head."""
    heads, d_model, width = weights.shape
    return weights.transpose(0, 2, 1).reshape(heads * width, d_model)


def _half_exponent(embedding: Float32[ndarray, "items d_model"]) -> int:
    """The smallest k, from 0 on, for which 4^k absorbs the mean square of every row."""
    largest = float(np.square(embedding, dtype=np.float64).mean(axis=1).max())
    exponent = math.frexp(largest)[1] + ABSORBED if largest > 0 else 0
    if exponent > 126:
        raise InputError("the embedding's rows are too long for T5's normalisation in single precision")
    return max(0, math.ceil(exponent / 2))
