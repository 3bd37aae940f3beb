"""The plain pre-LN block of one run, every position worked out: the oracle of the folded one."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from manyheads.block.block_weights import Norm, Weights


def logits(
    weights: Weights,
    x: Float[Tensor, "examples positions d_model"],
    table: Float[Tensor, "rows d_model"],
    *,
    norm_epsilon: float,
) -> Float[Tensor, "examples rows"]:
    """Attention, residual, MLP, residual; read out at the last position by the table itself."""

    def norm(y: Tensor, by: Norm) -> Tensor:
        return layer_norm(y, y.shape[-1:], by.gain, by.bias, norm_epsilon)

    def heads_of(y: Tensor, weight: Tensor) -> Tensor:
        """One product for all heads, then (examples, heads, positions, width)."""
        together = y @ weight.transpose(0, 1).flatten(1)
        return together.view(*y.shape[:2], len(weight), -1).transpose(1, 2)

    normed = norm(x, weights.before_attention)
    queries, keys, values = (heads_of(normed, weight) for weight in (weights.query, weights.key, weights.value))
    attention = torch.softmax(queries @ keys.mT / math.sqrt(keys.shape[-1]), dim=-1)
    heads = (attention @ values).transpose(1, 2).flatten(2)
    x = x + heads @ weights.output.flatten(0, 1)
    raised = gelu(norm(x, weights.before_mlp) @ weights.rise + weights.rise_bias)
    x = x + raised @ weights.fall + weights.fall_bias
    if weights.final is not None:
        x = norm(x, weights.final)
    return x[:, -1] @ table.mT
