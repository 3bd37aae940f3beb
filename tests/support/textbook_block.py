"""The usual pre-LN block of one run, with every position computed: the oracle of the folded block."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from manyheads.block.block_network import BlockWeights, Norm


def textbook_logits(
    weights: BlockWeights,
    x: Float[Tensor, "examples positions d_model"],
    table: Float[Tensor, "rows d_model"],
    *,
    norm_epsilon: float,
) -> Float[Tensor, "examples rows"]:
    """Attention, residual, MLP, residual; the table itself reads out the last position."""

    def norm(y: Tensor, by: Norm) -> Tensor:
        return layer_norm(y, y.shape[-1:], by.gain, by.bias, norm_epsilon)

    def in_heads(y: Tensor, weight: Tensor) -> Tensor:
        """One product for all heads, then (examples, heads, positions, width)."""
        joined = y @ weight.transpose(0, 1).flatten(1)
        return joined.view(*y.shape[:2], len(weight), -1).transpose(1, 2)

    normed = norm(x, weights.before_attention)
    queries, keys, values = (in_heads(normed, weight) for weight in (weights.query, weights.key, weights.value))
    attention = torch.softmax(queries @ keys.mT / math.sqrt(keys.shape[-1]), dim=-1)
    heads = (attention @ values).transpose(1, 2).flatten(2)
    x = x + heads @ weights.output.flatten(0, 1)
    raised = gelu(norm(x, weights.before_mlp) @ weights.rise + weights.rise_bias)
    x = x + raised @ weights.fall + weights.fall_bias
    if weights.final is not None:
        x = norm(x, weights.final)
    return x[:, -1] @ table.mT
