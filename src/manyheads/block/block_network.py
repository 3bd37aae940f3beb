"""The block as tensors: its weights, its inputs, and its answers, for one run or for several runs at once.

The inputs are frozen and only the last position is read. This allows a form with less work than the usual one. Let x̂ be
the normalised inputs before gain g and bias b: LN(x) = g∘x̂ + b. x̂ needs no gradient. For one head:

    score_p = LN(x_p)·(W_K q) = x̂_p·(g∘W_K q) + b·(W_K q)        the last term is equal for all p: softmax ignores it
    Σ_p a_p LN(x_p) W_V = (g∘(Σ_p a_p x̂_p) + b) W_V              because Σ_p a_p = 1

No key and no value of any position is computed: one projection replaces ℓ + 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, einsum
from torch.nn.functional import embedding_bag, gelu, layer_norm

from manyheads.block.block_data import BlockSeedKey
from manyheads.block.block_run import BlockRun


class Norm(NamedTuple):
    """The gain and the bias of a layer norm."""

    gain: Float[Tensor, "*runs d_model"]
    bias: Float[Tensor, "*runs d_model"]


class BlockWeights(NamedTuple):
    """The weights of a pre-LN block. Queries, keys, values and their output have no biases.

    `rise` and `fall` are the two matrices of the MLP. `final` is the norm before the read-out, or None.
    """

    query: Float[Tensor, "*runs heads d_model d_k"]
    key: Float[Tensor, "*runs heads d_model d_k"]
    value: Float[Tensor, "*runs heads d_model d_v"]
    output: Float[Tensor, "*runs heads d_v d_model"]
    before_attention: Norm
    before_mlp: Norm
    rise: Float[Tensor, "*runs d_model width"]
    rise_bias: Float[Tensor, "*runs width"]
    fall: Float[Tensor, "*runs width d_model"]
    fall_bias: Float[Tensor, "*runs d_model"]
    final: Norm | None

    def by_name(self) -> dict[str, Tensor]:
        """All tensors in one flat dictionary: "query", …, "before_attention.gain", …"""
        flat: dict[str, Tensor] = {}
        for name, part in self._asdict().items():
            if isinstance(part, Norm):
                flat |= {f"{name}.gain": part.gain, f"{name}.bias": part.bias}
            elif part is not None:
                flat[name] = part
        return flat

    def with_tensors(self, tensors: Iterable[Tensor]) -> BlockWeights:
        """Weights of the same structure with other tensors, given in the order of `by_name`."""
        rest = iter(tensors)
        parts = [
            None if part is None else Norm(next(rest), next(rest)) if isinstance(part, Norm) else next(rest)
            for part in self
        ]
        return BlockWeights(*parts)  # type: ignore[arg-type]


def initial_weights(run: BlockRun) -> BlockWeights:
    """The initial weights of a run in float64. They depend on the run's seed and shape only."""
    h, d, width = run.heads, run.d_model, run.mlp_width
    rng = np.random.default_rng((int(BlockSeedKey.WEIGHTS), run.seed, h, d, run.key_width, width))

    def normal(*shape: int, fan_in: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape) * (run.initial_scale / math.sqrt(fan_in)))

    def norm() -> Norm:
        return Norm(torch.ones(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64))

    return BlockWeights(
        query=normal(h, d, run.key_width, fan_in=d),
        key=normal(h, d, run.key_width, fan_in=d),
        value=normal(h, d, run.value_width, fan_in=d),
        output=normal(h, run.value_width, d, fan_in=d),  # each output sums h·d_v = d_model numbers
        before_attention=norm(),
        before_mlp=norm(),
        rise=normal(d, width, fan_in=d),
        rise_bias=torch.zeros(width, dtype=torch.float64),
        fall=normal(width, d, fan_in=width),
        fall_bias=torch.zeros(d, dtype=torch.float64),
        final=norm() if run.final_norm else None,
    )


def stack_weights(each: Sequence[BlockWeights]) -> BlockWeights:
    """Join the weights of several runs of one shape; the run is the first axis."""
    stacked = zip(*[weights.by_name().values() for weights in each], strict=True)
    return each[0].with_tensors(map(torch.stack, stacked))


def encode(
    table: Float[Tensor, "runs rows d_model"],
    queries: Int[Tensor, "runs examples"],
    pairs: Int[Tensor, "runs examples context 2"],
) -> Float[Tensor, "runs examples positions d_model"]:
    """The inputs of the block, without positional encoding (Sec. 7.3).

    X = [E[a_1] + E[b_1], …, E[a_ℓ] + E[b_ℓ], E[NULL], E[q]] of every example; NULL is the last row of the table.
    """
    runs, rows, d_model = table.shape
    count, context = pairs.shape[1:3]
    first_row = rows * torch.arange(runs, device=table.device)[:, None, None]
    null = torch.full_like(queries, rows - 1)
    members = torch.cat([pairs.flatten(2), null[..., None], queries[..., None]], dim=2) + first_row
    # bags of two rows, and two bags of one row: embedding_bag sums them without a copy of all rows
    starts = torch.tensor([*range(0, 2 * context + 1, 2), 2 * context + 1], device=table.device)
    offsets = starts + (2 * context + 2) * torch.arange(runs * count, device=table.device)[:, None]
    sums = embedding_bag(members.flatten(), table.flatten(0, 1), offsets.flatten(), mode="sum")
    return sums.view(runs, count, context + 2, d_model)


def folded_logits(
    weights: BlockWeights,
    x: Float[Tensor, "runs examples positions d_model"],
    table: Float[Tensor, "runs rows d_model"],
    *,
    norm_epsilon: float,
) -> Float[Tensor, "runs examples rows"]:
    """The score of every row of the table as an answer, read at the last position.

    Attention, residual, MLP, residual, read-out by the table. The tests compare it with the usual form.
    """
    unit = layer_norm(x, x.shape[-1:], eps=norm_epsilon)  # a constant: it needs no gradient
    stream = x[:, :, -1] + einsum("rehv,rhvd->red", _head_values(weights, unit), weights.output)
    raised = gelu(_affine(_unit(stream, norm_epsilon), weights.before_mlp) @ weights.rise + weights.rise_bias[:, None])
    stream = stream + raised @ weights.fall + weights.fall_bias[:, None]
    if weights.final is not None:
        stream = _affine(_unit(stream, norm_epsilon), weights.final)
    return stream @ table.mT


def attention(
    weights: BlockWeights, unit: Float[Tensor, "runs examples positions d_model"]
) -> Float[Tensor, "runs examples heads positions"]:
    """The attention of the last position to every position, for each head.

    Args:
        weights: The weights of the runs.
        unit: The inputs after normalisation, before gain and bias.
    """
    norm, d_k = weights.before_attention, weights.key.shape[-1]
    queries = einsum("red,rhdk->rehk", _affine(unit[:, :, -1], norm), weights.query)
    probes = einsum("rehk,rhdk->rehd", queries, weights.key) * (norm.gain / math.sqrt(d_k))[:, None, None]
    return torch.softmax(probes @ unit.mT, dim=-1)


def _head_values(
    weights: BlockWeights, unit: Float[Tensor, "runs examples positions d_model"]
) -> Float[Tensor, "runs examples heads d_v"]:
    norm = weights.before_attention
    mixed = (attention(weights, unit) @ unit) * norm.gain[:, None, None] + norm.bias[:, None, None]
    return einsum("rehd,rhdv->rehv", mixed, weights.value)


def _unit(x: Float[Tensor, "runs examples d_model"], epsilon: float) -> Float[Tensor, "runs examples d_model"]:
    return layer_norm(x, x.shape[-1:], eps=epsilon)


def _affine(unit: Float[Tensor, "runs examples d_model"], norm: Norm) -> Float[Tensor, "runs examples d_model"]:
    return unit * norm.gain[:, None] + norm.bias[:, None]
