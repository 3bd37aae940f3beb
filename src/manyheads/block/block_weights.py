"""Weights: what a block learns, of one run or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.block.block_run import BlockRun
from manyheads.block.matching_task import Purpose


class Norm(NamedTuple):
    """The affine part of a layer norm."""

    gain: Float[Tensor, "*runs d_model"]
    bias: Float[Tensor, "*runs d_model"]


class Weights(NamedTuple):
    """A pre-LN block; queries, keys, values and their output have no biases."""

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
    final: Norm | None  # before the read-out, where there is one

    def named(self) -> dict[str, Tensor]:
        """All of them, flat: "query", …, "before_attention.gain", …"""
        flat: dict[str, Tensor] = {}
        for name, part in self._asdict().items():
            if isinstance(part, Norm):
                flat |= {f"{name}.gain": part.gain, f"{name}.bias": part.bias}
            elif part is not None:
                flat[name] = part
        return flat

    def rebuilt(self, tensors: Iterable[Tensor]) -> Weights:
        """Weights of the same make from other tensors, in the order that `named` has."""
        rest = iter(tensors)
        parts = [
            None if part is None else Norm(next(rest), next(rest)) if isinstance(part, Norm) else next(rest)
            for part in self
        ]
        return Weights(*parts)  # type: ignore[arg-type]


def initial_weights(run: BlockRun) -> Weights:
    """The first weights of a run, in float64, from (seed, shape)."""
    h, d, width = run.heads, run.d_model, run.mlp_width
    rng = np.random.default_rng((int(Purpose.WEIGHTS), run.seed, h, d, run.key_width, width))

    def normal(*shape: int, fan_in: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape) * (run.initial_scale / math.sqrt(fan_in)))

    def norm() -> Norm:
        return Norm(torch.ones(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64))

    return Weights(
        query=normal(h, d, run.key_width, fan_in=d),
        key=normal(h, d, run.key_width, fan_in=d),
        value=normal(h, d, run.value_width, fan_in=d),
        output=normal(h, run.value_width, d, fan_in=d),  # h·d_v = d_model numbers go into each
        before_attention=norm(),
        before_mlp=norm(),
        rise=normal(d, width, fan_in=d),
        rise_bias=torch.zeros(width, dtype=torch.float64),
        fall=normal(width, d, fan_in=width),
        fall_bias=torch.zeros(d, dtype=torch.float64),
        final=norm() if run.final_norm else None,
    )


def side_by_side(each: Sequence[Weights]) -> Weights:
    """Weights of several runs of one shape, the run as the first axis."""
    stacked = zip(*[weights.named().values() for weights in each], strict=True)
    return each[0].rebuilt(map(torch.stack, stacked))
