"""The construction as weights of the very network that is trained, where f_i and F0 are linear and MLPs can be exact.

ReLU(high_i − f_i − (high_i − low_i)·g_i) is u_i within S_i, where it is not negative, and 0 outside; GELU(z) − GELU(−z)
is z. So D hidden units (one more for each proper subset) encode, and two read out, without any approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.retrieval import plain
from manyheads.retrieval.network_weights import Weights
from manyheads.retrieval.retrieval_task import RetrievalTask
from manyheads.retrieval.sharp_heads import SharpHeads


def network(sharp: SharpHeads) -> Weights:
    """One layer of D heads of width 2 in float64, E = 2·D; its error is the construction's guarantee."""
    task, beta = sharp.task, sharp.inverse_temperature
    slopes = [feature.slope for feature in task.features if feature.slope is not None]
    combination = task.combination.weights
    if len(slopes) < task.dimension or combination is None:
        raise InputError("small MLPs are exact for linear f_i and F0 only: evaluate this construction by its functions")
    D, E, marks = task.dimension, 2 * task.dimension, len(task.proper)
    high, low = (np.array([getattr(feature, end) for feature in task.features]) for end in ("high", "low"))
    encode, embed = np.zeros((task.width + marks, D + marks)), np.zeros((D + marks, E))
    encode[: task.width, :D] = -np.stack(slopes, axis=1)
    embed[range(D), range(0, E, 2)] = 1
    for number, thing in enumerate(task.proper):
        encode[task.width + number, thing] = -(high[thing] - low[thing])
        encode[task.width + number, D + number] = 1
        embed[D + number, 2 * thing + 1] = 1
    query, key, value = np.zeros((3, 1, D, E, 2))
    query[0, :, 0] = (1, -sharp.penalty)
    for thing in range(D):
        key[0, thing, 2 * thing, 0] = key[0, thing, 2 * thing + 1, 1] = 1
        value[0, thing, 2 * thing, 0] = 1
    decide = np.zeros((E, 2))
    decide[::2] = np.outer(-combination, (1, -1))
    at_rest = float(combination @ (high - sharp.softness / (2 * beta)))
    made = {
        "encode": encode, "encode_bias": np.concatenate([high, np.zeros(marks)]),
        "embed": embed, "embed_bias": np.zeros(E), "token": np.eye(E)[0],
        "query": query, "key": key, "value": value, "output": value.swapaxes(2, 3).copy(),
        "sharpness": np.full((1, D), math.log(beta)),
        "rise": np.zeros((0, E, 0)), "rise_bias": np.zeros((0, 0)),
        "fall": np.zeros((0, 0, E)), "fall_bias": np.zeros((0, E)),
        "decide": decide, "decide_bias": np.array([at_rest, -at_rest]),
        "answer": np.array([1.0, -1.0]), "answer_bias": np.zeros(()),
    }  # fmt: skip
    return Weights(**{name: torch.from_numpy(array) for name, array in made.items()})


def answers_of(
    weights: Weights, task: RetrievalTask
) -> Callable[[Float64[ndarray, "n length width"]], Float64[ndarray, " n"]]:
    """What a network of these weights says about sequences of a task; weights whose heads do not fit are refused."""
    weights.check()

    def answer(x: Float64[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        with torch.no_grad():
            return plain.answers(weights, torch.from_numpy(task.tokens(x))).numpy()

    return answer
