"""The same block by less work, for several runs at once: only the last position is read, and the inputs are frozen.

With x̂ the normalised inputs before gain g and bias b, which need no gradient, LN(x) = g∘x̂ + b, so that for one head

    score_p = LN(x_p)·(W_K q) = x̂_p·(g∘W_K q) + b·(W_K q)        the last term is the same for all p: softmax drops it
    Σ_p a_p LN(x_p) W_V = (g∘(Σ_p a_p x̂_p) + b) W_V              because Σ_p a_p = 1

and neither keys nor values of any position are formed: ℓ + 2 projections become one.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, einsum
from torch.nn.functional import gelu, layer_norm

from manyheads.block.block_weights import Norm, Weights


def logits(
    weights: Weights,
    x: Float[Tensor, "runs examples positions d_model"],
    table: Float[Tensor, "runs rows d_model"],
    *,
    norm_epsilon: float,
) -> Float[Tensor, "runs examples rows"]:
    """What `textbook.logits` says of each run, with its weights."""
    unit = layer_norm(x, x.shape[-1:], eps=norm_epsilon)  # a constant: it needs no gradient
    attended = einsum("rehv,rhvd->red", _heads(weights, unit), weights.output)
    stream = x[:, :, -1] + attended
    raised = gelu(_affine(_unit(stream, norm_epsilon), weights.before_mlp) @ weights.rise + weights.rise_bias[:, None])
    stream = stream + raised @ weights.fall + weights.fall_bias[:, None]
    if weights.final is not None:
        stream = _affine(_unit(stream, norm_epsilon), weights.final)
    return stream @ table.mT


def attention(
    weights: Weights, unit: Float[Tensor, "runs examples positions d_model"]
) -> Float[Tensor, "runs examples heads positions"]:
    """How much the last position attends to each, by head; `unit` are the inputs normalised."""
    norm, d_k = weights.before_attention, weights.key.shape[-1]
    queries = einsum("red,rhdk->rehk", _affine(unit[:, :, -1], norm), weights.query)
    probes = einsum("rehk,rhdk->rehd", queries, weights.key) * (norm.gain / math.sqrt(d_k))[:, None, None]
    return torch.softmax(probes @ unit.mT, dim=-1)


def _heads(
    weights: Weights, unit: Float[Tensor, "runs examples positions d_model"]
) -> Float[Tensor, "runs examples heads d_v"]:
    norm = weights.before_attention
    mixed = (attention(weights, unit) @ unit) * norm.gain[:, None, None] + norm.bias[:, None, None]
    return einsum("rehd,rhdv->rehv", mixed, weights.value)


def _unit(x: Float[Tensor, "runs examples d_model"], epsilon: float) -> Float[Tensor, "runs examples d_model"]:
    return layer_norm(x, x.shape[-1:], eps=epsilon)


def _affine(unit: Float[Tensor, "runs examples d_model"], norm: Norm) -> Float[Tensor, "runs examples d_model"]:
    return unit * norm.gain[:, None] + norm.bias[:, None]
