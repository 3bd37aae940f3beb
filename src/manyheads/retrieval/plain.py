"""The network of one run, every token worked out as the paper writes it: the oracle of the folded one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu, relu

from manyheads.retrieval.network_weights import Weights


def answers(weights: Weights, x: Float[Tensor, "examples length inputs"]) -> Float[Tensor, " examples"]:
    """Encoder, attention over the tokens, and so on for L layers; the class token's last state is read out."""
    tokens = relu(x @ weights.encode + weights.encode_bias) @ weights.embed + weights.embed_bias
    state = weights.token.expand(len(x), 1, -1)
    layers = len(weights.query)
    for layer in range(layers):
        state, tokens = (_attended(weights, layer, asking, tokens) for asking in (state, tokens))
        if layer < layers - 1:
            state, tokens = (_fed(weights, layer, y) for y in (state, tokens))
    return gelu(state[:, 0] @ weights.decide + weights.decide_bias) @ weights.answer + weights.answer_bias


def _attended(
    weights: Weights,
    layer: int,
    asking: Float[Tensor, "examples asking embedding"],
    tokens: Float[Tensor, "examples length embedding"],
) -> Float[Tensor, "examples asking embedding"]:
    """Σ over heads of W_O · Σ_t softmax_t(β·q·k_t)·v_t; nothing is added to it."""
    total = torch.zeros_like(asking)
    for head in range(weights.query.shape[1]):
        queries, keys, values = (
            y @ weight[layer, head]
            for y, weight in ((asking, weights.query), (tokens, weights.key), (tokens, weights.value))
        )
        scores = torch.exp(weights.sharpness[layer, head]) * queries @ keys.mT
        total = total + torch.softmax(scores, dim=-1) @ values @ weights.output[layer, head]
    return total


def _fed(
    weights: Weights, layer: int, y: Float[Tensor, "examples places embedding"]
) -> Float[Tensor, "examples places embedding"]:
    """What lies between two layers: a GELU MLP as wide as the others."""
    raised = gelu(y @ weights.rise[layer] + weights.rise_bias[layer])
    return raised @ weights.fall[layer] + weights.fall_bias[layer]
