"""Weights: what a network for a retrieval task consists of, of one run or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.retrieval.seeds import Purpose


class Weights(NamedTuple):
    """Encoder, class token, L layers of h heads of width n, MLPs between them, read-out; no norm, no residual."""

    encode: Float[Tensor, "*runs inputs mlp"]
    encode_bias: Float[Tensor, "*runs mlp"]
    embed: Float[Tensor, "*runs mlp embedding"]
    embed_bias: Float[Tensor, "*runs embedding"]
    token: Float[Tensor, "*runs embedding"]
    query: Float[Tensor, "*runs layers heads embedding width"]
    key: Float[Tensor, "*runs layers heads embedding width"]
    value: Float[Tensor, "*runs layers heads embedding width"]
    output: Float[Tensor, "*runs layers heads width embedding"]
    sharpness: Float[Tensor, "*runs layers heads"]  # ln β of every head, free
    rise: Float[Tensor, "*runs between embedding mlp"]  # between = layers − 1
    rise_bias: Float[Tensor, "*runs between mlp"]
    fall: Float[Tensor, "*runs between mlp embedding"]
    fall_bias: Float[Tensor, "*runs between embedding"]
    decide: Float[Tensor, "*runs embedding readout"]
    decide_bias: Float[Tensor, "*runs readout"]
    answer: Float[Tensor, "*runs readout"]
    answer_bias: Float[Tensor, "*runs"]

    def rebuilt(self, tensors: Iterable[Tensor]) -> Weights:
        """Weights of the same make from other tensors, in the same order."""
        return Weights(*tensors)

    def check(self) -> None:
        """Refuse heads that do not make up the embedding."""
        heads, embedding, width = self.query.shape[-3:]
        if heads * width != embedding:
            raise InputError(f"{heads} heads of width {width} make up {heads * width} dimensions, not E = {embedding}")


# where E, h and n stand among the last axes of each tensor: what is cut or padded
_AXES = {
    "embed": ("", "E"), "embed_bias": ("E",), "token": ("E",),
    "query": ("h", "E", "n"), "key": ("h", "E", "n"), "value": ("h", "E", "n"), "output": ("h", "n", "E"),
    "sharpness": ("h",), "rise": ("E", ""), "fall": ("", "E"), "fall_bias": ("E",), "decide": ("E", ""),
}  # fmt: skip


def initial_weights(run: RetrievalRun) -> Weights:
    """The first weights of a run, in float64, from (seed, shape): normal, mostly of variance 1/fan-in."""
    h, n, E, N, L = run.heads, run.width, run.embedding, run.mlp_width, run.layers
    rng = np.random.default_rng((int(Purpose.WEIGHTS), run.seed, run.input_width, h, n, N, L))

    def normal(*shape: int, variance: float) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape) * math.sqrt(variance))

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64)

    return Weights(
        encode=normal(run.input_width, N, variance=2 / run.input_width),
        encode_bias=normal(N, variance=0.1),  # kinks away from the origin
        embed=normal(N, E, variance=1 / N),
        embed_bias=zeros(E),
        token=normal(E, variance=1.0),
        query=normal(L, h, E, n, variance=1 / E),
        key=normal(L, h, E, n, variance=1 / E),
        value=normal(L, h, E, n, variance=1 / E),
        output=normal(L, h, n, E, variance=1 / E),  # h·n = E numbers go into each
        # 1/√n belongs here: keys that much smaller would be thrown about by steps of one size for all weights
        sharpness=torch.full((L, h), run.initial_sharpness - math.log(n) / 2, dtype=torch.float64),
        rise=normal(L - 1, E, N, variance=1 / E),
        rise_bias=zeros(L - 1, N),
        fall=normal(L - 1, N, E, variance=1 / N),
        fall_bias=zeros(L - 1, E),
        decide=normal(E, N, variance=1 / E),
        decide_bias=zeros(N),
        answer=normal(N, variance=1 / N),
        answer_bias=zeros(),
    )


def side_by_side(each: Sequence[Weights]) -> Weights:
    """Weights of several runs, the run as the first axis; fewer or narrower heads are filled up with zeros.

    The zeros stay: what is padded appears in products of two padded factors only (a row of W_V and the embedding's
    column that feeds it, a head's W_V and its W_O, …), each factor's gradient is a multiple of the other, and Adam
    leaves what never has a gradient alone. So a run is the same alone and beside larger ones.
    """
    heads, width = (max(one.query.shape[axis] for one in each) for axis in (-3, -1))
    embedding = max(one.query.shape[-2] for one in each)
    sizes = {"h": heads, "E": embedding, "n": width}
    return Weights(
        *(
            torch.stack([_padded(getattr(one, name), _AXES.get(name, ()), sizes) for one in each])
            for name in Weights._fields
        )
    )


def cut(weights: Weights, place: int, *, heads: int, width: int) -> Weights:
    """One run's own weights, without what they were filled up with."""
    sizes = {"h": heads, "E": heads * width, "n": width}
    return Weights(
        *(
            getattr(weights, name)[place][(..., *(slice(sizes.get(axis)) for axis in _AXES.get(name, ())))]
            for name in Weights._fields
        )
    )


def _padded(tensor: Tensor, axes: tuple[str, ...], sizes: dict[str, int]) -> Tensor:
    missing = [
        sizes.get(axis, size) - size for axis, size in zip(axes, tensor.shape[tensor.ndim - len(axes) :], strict=True)
    ]
    return torch.nn.functional.pad(tensor, [end for extra in reversed(missing) for end in (0, extra)])
