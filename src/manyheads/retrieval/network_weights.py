"""NetworkWeights: the weights of a retrieval network, initial weights, and the weights of the explicit construction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_run import RetrievalRun, RetrievalSeedKey
from manyheads.retrieval.sharp_construction import SharpHeads
from manyheads.tables import in_heads


class NetworkWeights(NamedTuple):
    """The weights of one run, or of several runs with the run as the first axis.

    The network has an encoder (`encode`, `embed`), a class token, L layers of h heads of width n, an MLP between two
    layers (`rise`, `fall`), and a read-out (`decide`, `answer`). It has no norm and no residual. `sharpness` is ln β of
    every head, and is trained too.
    """

    encode: Float[Tensor, "*runs inputs mlp"]
    encode_bias: Float[Tensor, "*runs mlp"]
    embed: Float[Tensor, "*runs mlp embedding"]
    embed_bias: Float[Tensor, "*runs embedding"]
    token: Float[Tensor, "*runs embedding"]
    query: Float[Tensor, "*runs layers heads embedding width"]
    key: Float[Tensor, "*runs layers heads embedding width"]
    value: Float[Tensor, "*runs layers heads embedding width"]
    output: Float[Tensor, "*runs layers heads width embedding"]
    sharpness: Float[Tensor, "*runs layers heads"]
    rise: Float[Tensor, "*runs between embedding mlp"]  # between = layers − 1
    rise_bias: Float[Tensor, "*runs between mlp"]
    fall: Float[Tensor, "*runs between mlp embedding"]
    fall_bias: Float[Tensor, "*runs between embedding"]
    decide: Float[Tensor, "*runs embedding readout"]
    decide_bias: Float[Tensor, "*runs readout"]
    answer: Float[Tensor, "*runs readout"]
    answer_bias: Float[Tensor, "*runs"]

    def with_tensors(self, tensors: Iterable[Tensor]) -> NetworkWeights:
        """Weights with other tensors, given in the same order."""
        return NetworkWeights(*tensors)

    def check(self) -> None:
        """Check that the widths of the heads add up to the embedding's.

        Raises:
            InputError: The sum of the widths is not E.
        """
        heads, embedding, width = self.query.shape[-3:]
        if heads * width != embedding:
            raise InputError(f"{in_heads(heads, width)} make up {heads * width} dimensions, not E = {embedding}")


# the last axes of each tensor that have the size E, h or n: stacking pads them, run_weights cuts them
_AXES = {
    "embed": ("", "E"), "embed_bias": ("E",), "token": ("E",),
    "query": ("h", "E", "n"), "key": ("h", "E", "n"), "value": ("h", "E", "n"), "output": ("h", "n", "E"),
    "sharpness": ("h",), "rise": ("E", ""), "fall": ("", "E"), "fall_bias": ("E",), "decide": ("E", ""),
}  # fmt: skip


def initial_weights(run: RetrievalRun) -> NetworkWeights:
    """The initial weights of a run in float64. They depend on the run's seed and shape only.

    They are normal, most of them with variance 1/fan-in.
    """
    h, n, E, N, L = run.heads, run.width, run.embedding, run.mlp_width, run.layers
    rng = np.random.default_rng((int(RetrievalSeedKey.WEIGHTS), run.seed, run.input_width, h, n, N, L))

    def normal(*shape: int, variance: float) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape) * math.sqrt(variance))

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64)

    return NetworkWeights(
        encode=normal(run.input_width, N, variance=2 / run.input_width),
        encode_bias=normal(N, variance=0.1),  # kinks away from the origin
        embed=normal(N, E, variance=1 / N),
        embed_bias=zeros(E),
        token=normal(E, variance=1.0),
        query=normal(L, h, E, n, variance=1 / E),
        key=normal(L, h, E, n, variance=1 / E),
        value=normal(L, h, E, n, variance=1 / E),
        output=normal(L, h, n, E, variance=1 / E),  # each output sums h·n = E numbers
        # The factor 1/√n is here, not in the keys: Adam's steps have one size, too large for keys smaller by 1/√n.
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


def sharp_weights(sharp: SharpHeads) -> NetworkWeights:
    """The explicit construction as a network of one layer of D heads of width 2 in float64, with E = 2·D.

    The MLPs are exact if f_i and F0 are linear: ReLU(high_i − f_i − (high_i − low_i)·g_i) is u_i inside S_i and 0
    outside, and GELU(z) − GELU(−z) = z. The encoder has D hidden units and one more for each restricted feature; the
    read-out has two. The network's error is at most the construction's guarantee.

    Args:
        sharp: The construction.

    Returns:
        The weights.

    Raises:
        InputError: f_i or F0 is not linear.
    """
    task, beta = sharp.task, sharp.inverse_temperature
    slopes = [feature.slope for feature in task.features if feature.slope is not None]
    combination = task.combination.weights
    if len(slopes) < task.dimension or combination is None:
        raise InputError("small MLPs are exact for linear f_i and F0 only: evaluate this construction by its functions")
    D, E, marks = task.dimension, 2 * task.dimension, len(task.restricted_features)
    high, low = (np.array([getattr(feature, end) for feature in task.features]) for end in ("high", "low"))
    encode, embed = np.zeros((task.width + marks, D + marks)), np.zeros((D + marks, E))
    encode[: task.width, :D] = -np.stack(slopes, axis=1)
    embed[range(D), range(0, E, 2)] = 1
    for number, feature in enumerate(task.restricted_features):
        encode[task.width + number, feature] = -(high[feature] - low[feature])
        encode[task.width + number, D + number] = 1
        embed[D + number, 2 * feature + 1] = 1
    query, key, value = np.zeros((3, 1, D, E, 2))
    query[0, :, 0] = (1, -sharp.penalty)
    for feature in range(D):
        key[0, feature, 2 * feature, 0] = key[0, feature, 2 * feature + 1, 1] = 1
        value[0, feature, 2 * feature, 0] = 1
    decide = np.zeros((E, 2))
    decide[::2] = np.outer(-combination, (1, -1))
    offset = float(combination @ (high - sharp.softness / (2 * beta)))
    arrays = {
        "encode": encode, "encode_bias": np.concatenate([high, np.zeros(marks)]),
        "embed": embed, "embed_bias": np.zeros(E), "token": np.eye(E)[0],
        "query": query, "key": key, "value": value, "output": value.swapaxes(2, 3).copy(),
        "sharpness": np.full((1, D), math.log(beta)),
        "rise": np.zeros((0, E, 0)), "rise_bias": np.zeros((0, 0)),
        "fall": np.zeros((0, 0, E)), "fall_bias": np.zeros((0, E)),
        "decide": decide, "decide_bias": np.array([offset, -offset]),
        "answer": np.array([1.0, -1.0]), "answer_bias": np.zeros(()),
    }  # fmt: skip
    return NetworkWeights(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def stack_weights(each: Sequence[NetworkWeights]) -> NetworkWeights:
    """Join the weights of several runs; the run is the first axis. Fewer or narrower heads are padded with zeros.

    The zeros stay zero in training. A padded weight occurs only in products with another padded weight (a row of W_V
    and the embedding's column before it, a head's W_V and its W_O, …). The gradient of each factor is a multiple of the
    other factor, hence 0, and Adam does not change a weight whose gradient is always 0. Therefore a run gives the same
    result by itself and beside larger ones.
    """
    heads, width = (max(one.query.shape[axis] for one in each) for axis in (-3, -1))
    embedding = max(one.query.shape[-2] for one in each)
    sizes = {"h": heads, "E": embedding, "n": width}
    return NetworkWeights(
        *(
            torch.stack([_padded(getattr(one, name), _AXES.get(name, ()), sizes) for one in each])
            for name in NetworkWeights._fields
        )
    )


def run_weights(weights: NetworkWeights, n: int, *, heads: int, width: int) -> NetworkWeights:
    """The weights of run n of several, without the padding."""
    sizes = {"h": heads, "E": heads * width, "n": width}
    return NetworkWeights(
        *(
            getattr(weights, name)[n][(..., *(slice(sizes.get(axis)) for axis in _AXES.get(name, ())))]
            for name in NetworkWeights._fields
        )
    )


def _padded(tensor: Tensor, axes: tuple[str, ...], sizes: dict[str, int]) -> Tensor:
    missing = [
        sizes.get(axis, size) - size for axis, size in zip(axes, tensor.shape[tensor.ndim - len(axes) :], strict=True)
    ]
    return torch.nn.functional.pad(tensor, [end for extra in reversed(missing) for end in (0, extra)])
