"""A layer as a HookedTransformer of one block, whose heads' number and width are free of d_model."""

from __future__ import annotations

import json

import numpy as np
import safetensors.numpy
from jaxtyping import Float32
from numpy import ndarray

from manyheads.layer.layer import Layer
from manyheads.layer.rules import SOFTMAX


def files(layer: Layer, embedding: Float32[ndarray, "items d_model"]) -> dict[str, bytes]:
    """What hooked.py reads: nothing is normalised, no position is told from another, every item sees all."""
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
        "positional_embedding_type": "standard",  # and zero
        # hook_attn_scores are the very numbers the rule joins: s_k, under softmax s_k/√d_k
        "use_attn_scale": layer.rule is SOFTMAX,
        "dtype": str(dtype),
        "device": "cpu",
        "manyheads": {"rule": str(layer.rule), "threshold": layer.threshold.hex()},
    }
    weights = {
        "embed.W_E": embedding.astype(dtype),
        "blocks.0.attn.W_Q": layer.query,
        "blocks.0.attn.W_K": layer.key,
    }
    model = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in weights.items()})
    return {"config.json": (json.dumps(config, indent=2) + "\n").encode(), "model.safetensors": model}
