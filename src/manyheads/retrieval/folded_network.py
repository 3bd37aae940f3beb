"""The same network by less work, for several runs at once: the last layer never forms embeddings, keys or values.

Let r_t be the hidden layer of the MLP before the last attention, so that token t is e_t = r_t·B + b. The class token's
query is the same for all tokens, hence for one head

    score_t = β·q·(e_t W_K) = r_t·(β·B W_K q) + const         one probe of the hidden layer; softmax drops the constant
    Σ_t a_t e_t W_V = (Σ_t a_t r_t)·B W_V + b W_V             because Σ_t a_t = 1

and a token costs 2·h·N multiplications past its hidden layer, whatever E and n.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, einsum
from torch.nn.functional import gelu, scaled_dot_product_attention

from manyheads.retrieval.network_weights import Weights
from manyheads.retrieval.pooling import Pool


def answers(weights: Weights, x: Float[Tensor, "runs examples length inputs"]) -> Float[Tensor, "runs examples"]:
    """What `plain.answers` says of each run, with its weights."""
    layers = weights.query.shape[1]
    down, bias = weights.embed, weights.embed_bias
    if layers == 1:
        probes = _probes(weights, weights.token[:, None], down)[:, 0]
        pooled = Pool.apply(x, weights.encode, weights.encode_bias, probes)  # type: ignore[no-untyped-call]
    else:
        hidden, state = torch.relu(_affine(x, weights.encode, weights.encode_bias)), weights.token[:, None]
        for layer in range(layers - 1):
            hidden, state = _layer(weights, layer, _affine(hidden, down, bias), state)
            down, bias = weights.fall[:, layer], weights.fall_bias[:, layer]
        attention = torch.softmax(_probes(weights, state, down) @ hidden.mT, dim=3)
        pooled = attention @ hidden
    read = _read(weights, pooled, down, bias)
    decided = gelu(read @ weights.decide + weights.decide_bias[:, None])
    return einsum("rem,rm->re", decided, weights.answer) + weights.answer_bias[:, None]


def _probes(
    weights: Weights, state: Float[Tensor, "runs askers embedding"], down: Float[Tensor, "runs mlp embedding"]
) -> Float[Tensor, "runs askers heads mlp"]:
    """β·B W_K q of the last layer; the class token asks the same in every example, or in each something else."""
    sharper = weights.query[:, -1] * torch.exp(weights.sharpness[:, -1])[..., None, None]
    asked = einsum("rae,rhen->rahn", state, sharper)
    return einsum("rahn,rhen,rme->rahm", asked, weights.key[:, -1], down)


def _read(
    weights: Weights,
    pooled: Float[Tensor, "runs examples heads mlp"],
    down: Float[Tensor, "runs mlp embedding"],
    bias: Float[Tensor, "runs embedding"],
) -> Float[Tensor, "runs examples embedding"]:
    """Σ over heads of (pooled·B + b) W_V W_O, the two matrices multiplied first."""
    through = einsum("rhen,rhnf->rhef", weights.value[:, -1], weights.output[:, -1])
    from_pooled = (down[:, None] @ through).flatten(1, 2)
    return pooled.flatten(2) @ from_pooled + einsum("re,rhef->rf", bias, through)[:, None]


def _layer(
    weights: Weights,
    layer: int,
    tokens: Float[Tensor, "runs examples length embedding"],
    state: Float[Tensor, "runs askers embedding"],
) -> tuple[Float[Tensor, "runs examples length mlp"], Float[Tensor, "runs examples embedding"]]:
    """An earlier layer, where every token asks, the class token too: the hidden layer after it, and the new state."""
    heads, _, width = weights.query.shape[2:]

    def of_heads(y: Tensor, weight: Tensor) -> Tensor:
        """One product for all heads, then (runs · examples, heads, places, width)."""
        together = _affine(y, weight[:, layer].transpose(1, 2).flatten(2), None)
        return together.view(-1, y.shape[2], heads, width).transpose(1, 2)

    class_token = state[:, :, None].expand(-1, tokens.shape[1], -1, -1)
    sharper = weights.query * torch.exp(weights.sharpness)[..., None, None]
    queries = of_heads(torch.cat([tokens, class_token], dim=2), sharper)
    read = scaled_dot_product_attention(
        queries, of_heads(tokens, weights.key), of_heads(tokens, weights.value), scale=1.0
    )
    together = read.transpose(1, 2).reshape(*tokens.shape[:2], -1, heads * width)
    output = weights.output[:, layer].flatten(1, 2)
    raised = gelu(_affine(together, output @ weights.rise[:, layer], weights.rise_bias[:, layer]))
    return raised[:, :, :-1], raised[:, :, -1] @ weights.fall[:, layer] + weights.fall_bias[:, layer, None]


def _affine(
    y: Float[Tensor, "runs examples places numbers"],
    weight: Float[Tensor, "runs numbers others"],
    bias: Float[Tensor, "runs others"] | None,
) -> Float[Tensor, "runs examples places others"]:
    """One matrix product a run, whatever the examples and places."""
    flat = y.flatten(1, 2)
    made = flat @ weight if bias is None else torch.baddbmm(bias[:, None], flat, weight)
    return made.view(*y.shape[:3], -1)
