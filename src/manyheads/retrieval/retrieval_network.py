"""The retrieval network: the plain form as the paper writes it, and the folded form, which training uses.

The folded form computes several runs at once, and in the last layer no embedding, key or value of a token. Let r_t be
the hidden layer of the MLP before the last attention: token t is e_t = r_t·B + b. The class token's query q is the same
for all tokens. For one head:

    score_t = β·q·(e_t W_K) = r_t·(β·B W_K q) + const         softmax ignores the constant
    Σ_t a_t e_t W_V = (Σ_t a_t r_t)·B W_V + b W_V             because Σ_t a_t = 1

Let N be the width of the hidden layer. Beyond the hidden layer, a token costs 2·h·N multiplications, for every E and n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor, einsum
from torch.nn.functional import gelu, relu, scaled_dot_product_attention

from manyheads.retrieval.network_weights import NetworkWeights
from manyheads.retrieval.retrieval_task import RetrievalTask


def network_function(
    weights: NetworkWeights, task: RetrievalTask
) -> Callable[[Float64[ndarray, "n length width"]], Float64[ndarray, " n"]]:
    """The network of these weights as a function from sequences of a task to answers.

    Args:
        weights: The weights of one run, in float64.
        task: The task whose sequences the network reads.

    Returns:
        A function from an array of shape (n, length, width) to n answers.

    Raises:
        InputError: The widths of the heads do not add up to the embedding's.
    """
    weights.check()

    def answer(x: Float64[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        with torch.no_grad():
            return plain_answers(weights, torch.from_numpy(task.tokens(x))).numpy()

    return answer


# --- the plain form


def plain_answers(weights: NetworkWeights, x: Float[Tensor, "examples length inputs"]) -> Float[Tensor, " examples"]:
    """The answers of one run: encoder, L layers of attention over the tokens, read-out of the class token."""
    tokens = relu(x @ weights.encode + weights.encode_bias) @ weights.embed + weights.embed_bias
    state = weights.token.expand(len(x), 1, -1)
    layers = len(weights.query)
    for layer in range(layers):
        state, tokens = (_attend(weights, layer, rows, tokens) for rows in (state, tokens))
        if layer < layers - 1:
            state, tokens = (_feed_forward(weights, layer, rows) for rows in (state, tokens))
    return gelu(state[:, 0] @ weights.decide + weights.decide_bias) @ weights.answer + weights.answer_bias


def _attend(
    weights: NetworkWeights,
    layer: int,
    rows: Float[Tensor, "examples rows embedding"],
    tokens: Float[Tensor, "examples length embedding"],
) -> Float[Tensor, "examples rows embedding"]:
    """Σ over heads of W_O · Σ_t softmax_t(β·q·k_t)·v_t, without a residual."""
    total = torch.zeros_like(rows)
    for head in range(weights.query.shape[1]):
        queries, keys, values = (
            y @ weight[layer, head]
            for y, weight in ((rows, weights.query), (tokens, weights.key), (tokens, weights.value))
        )
        scores = torch.exp(weights.sharpness[layer, head]) * queries @ keys.mT
        total = total + torch.softmax(scores, dim=-1) @ values @ weights.output[layer, head]
    return total


def _feed_forward(
    weights: NetworkWeights, layer: int, y: Float[Tensor, "examples rows embedding"]
) -> Float[Tensor, "examples rows embedding"]:
    """The GELU MLP between two layers."""
    raised = gelu(y @ weights.rise[layer] + weights.rise_bias[layer])
    return raised @ weights.fall[layer] + weights.fall_bias[layer]


# --- the folded form


def folded_answers(
    weights: NetworkWeights, x: Float[Tensor, "runs examples length inputs"]
) -> Float[Tensor, "runs examples"]:
    """The answers of several runs, equal to `plain_answers` of each run to rounding."""
    layers = weights.query.shape[1]
    down, bias = weights.embed, weights.embed_bias
    if layers == 1:
        probes = _probes(weights, weights.token[:, None], down)[:, 0]
        pooled = SoftmaxPool.apply(x, weights.encode, weights.encode_bias, probes)  # type: ignore[no-untyped-call]
    else:
        hidden, state = torch.relu(_affine(x, weights.encode, weights.encode_bias)), weights.token[:, None]
        for layer in range(layers - 1):
            hidden, state = _layer(weights, layer, _affine(hidden, down, bias), state)
            down, bias = weights.fall[:, layer], weights.fall_bias[:, layer]
        attention = torch.softmax(_probes(weights, state, down) @ hidden.mT, dim=3)
        pooled = attention @ hidden
    state = _head_outputs(weights, pooled, down, bias)
    decided = gelu(state @ weights.decide + weights.decide_bias[:, None])
    return einsum("rem,rm->re", decided, weights.answer) + weights.answer_bias[:, None]


class SoftmaxPool(torch.autograd.Function):
    """Σ_t softmax_t(r_t·p_h)·r_t for every probe p_h, where r = ReLU(x·A + a). x itself gets no gradient.

    Training spends nearly all its time here. The gradient is written by hand because the hidden layer is by far the
    largest tensor: autograd would read it twice as often, and its memory layout makes products with h columns twenty
    times slower.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "runs examples length inputs"],
        weight: Float[Tensor, "runs inputs mlp"],
        bias: Float[Tensor, "runs mlp"],
        probes: Float[Tensor, "runs heads mlp"],
    ) -> Float[Tensor, "runs examples heads mlp"]:
        """The pooled hidden layer of every head."""
        runs, examples, length, _ = x.shape
        hidden = torch.baddbmm(bias[:, None], x.flatten(1, 2), weight).relu_()
        scores = torch.bmm(probes, hidden.mT).view(runs, -1, examples, length)
        attention = torch.softmax(scores, dim=3).transpose(1, 2).contiguous()
        ctx.save_for_backward(x, probes, hidden, attention)
        pooled = torch.bmm(attention.flatten(0, 1), hidden.view(runs * examples, length, -1))
        return pooled.view(runs, examples, *pooled.shape[1:])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        """The gradient through the pooled values and through the scores, both in one product."""
        x, probes, hidden, attention = ctx.saved_tensors
        runs, examples, heads, length = attention.shape
        above = upstream.reshape(runs * examples, heads, -1)
        by_attention = torch.bmm(above, hidden.view(runs * examples, length, -1).mT).view_as(attention)
        # softmax: ds = a∘(da − Σ_t a·da)
        by_score = attention * (by_attention - (attention * by_attention).sum(dim=3, keepdim=True))
        # dr_t = Σ_h a_ht·dm_h + ds_ht·p_h
        left = torch.cat([attention, by_score], dim=2).flatten(0, 1)
        right = torch.cat([above.view(runs, examples, heads, -1), probes[:, None].expand(-1, examples, -1, -1)], dim=2)
        by_hidden = torch.bmm(left.mT, right.flatten(0, 1)).view_as(hidden)
        by_hidden = torch.ops.aten.threshold_backward(by_hidden, hidden, 0)  # the gradient of ReLU
        by_probe = torch.bmm(by_score.transpose(1, 2).flatten(2), hidden)
        return None, torch.bmm(x.flatten(1, 2).mT, by_hidden), by_hidden.sum(dim=1), by_probe


def _probes(
    weights: NetworkWeights, state: Float[Tensor, "runs states embedding"], down: Float[Tensor, "runs mlp embedding"]
) -> Float[Tensor, "runs states heads mlp"]:
    """β·B W_K q of the last layer, for one state of the class token for all examples or one for each example."""
    sharper = weights.query[:, -1] * torch.exp(weights.sharpness[:, -1])[..., None, None]
    queries = einsum("rae,rhen->rahn", state, sharper)
    return einsum("rahn,rhen,rme->rahm", queries, weights.key[:, -1], down)


def _head_outputs(
    weights: NetworkWeights,
    pooled: Float[Tensor, "runs examples heads mlp"],
    down: Float[Tensor, "runs mlp embedding"],
    bias: Float[Tensor, "runs embedding"],
) -> Float[Tensor, "runs examples embedding"]:
    """Σ over heads of (pooled·B + b) W_V W_O; W_V W_O is computed first."""
    through = einsum("rhen,rhnf->rhef", weights.value[:, -1], weights.output[:, -1])
    from_pooled = (down[:, None] @ through).flatten(1, 2)
    return pooled.flatten(2) @ from_pooled + einsum("re,rhef->rf", bias, through)[:, None]


def _layer(
    weights: NetworkWeights,
    layer: int,
    tokens: Float[Tensor, "runs examples length embedding"],
    state: Float[Tensor, "runs states embedding"],
) -> tuple[Float[Tensor, "runs examples length mlp"], Float[Tensor, "runs examples embedding"]]:
    """A layer before the last, with queries of every token and of the class token.

    Returns the hidden layer after it, and the new state of the class token.
    """
    heads, _, width = weights.query.shape[2:]

    def in_heads(y: Tensor, weight: Tensor) -> Tensor:
        """One product for all heads, then (runs · examples, heads, rows, width)."""
        joined = _affine(y, weight[:, layer].transpose(1, 2).flatten(2), None)
        return joined.view(-1, y.shape[2], heads, width).transpose(1, 2)

    class_token = state[:, :, None].expand(-1, tokens.shape[1], -1, -1)
    sharper = weights.query * torch.exp(weights.sharpness)[..., None, None]
    queries = in_heads(torch.cat([tokens, class_token], dim=2), sharper)
    values = scaled_dot_product_attention(
        queries, in_heads(tokens, weights.key), in_heads(tokens, weights.value), scale=1.0
    )
    joined = values.transpose(1, 2).reshape(*tokens.shape[:2], -1, heads * width)
    output = weights.output[:, layer].flatten(1, 2)
    raised = gelu(_affine(joined, output @ weights.rise[:, layer], weights.rise_bias[:, layer]))
    return raised[:, :, :-1], raised[:, :, -1] @ weights.fall[:, layer] + weights.fall_bias[:, layer, None]


def _affine(
    y: Float[Tensor, "runs examples rows numbers"],
    weight: Float[Tensor, "runs numbers others"],
    bias: Float[Tensor, "runs others"] | None,
) -> Float[Tensor, "runs examples rows others"]:
    """y·weight + bias, as one matrix product for each run."""
    flat = y.flatten(1, 2)
    product = flat @ weight if bias is None else torch.baddbmm(bias[:, None], flat, weight)
    return product.view(*y.shape[:3], -1)
