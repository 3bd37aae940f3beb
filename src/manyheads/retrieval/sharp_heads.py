"""The explicit construction for h = D heads of width n = 2: head i is a sharp softmax over f_i (Theorem 2 made whole).

Each token is embedded in 2·D coordinates, two a head: u_i = high_i − f_i(x(t)) within S_i and 0 outside it, and the
mark g_i, 1 outside S_i and 0 within. Head i scores β·(u_i − Λ·g_i), so that it attends to the smallest f_i, and returns
the mean u_i; the soft minimum is z̃_i = high_i − that mean.

**How far off is it?** Let z = min over S_i of f_i, k = |S_i|, and s_t ≥ 0 be β·(f_i(x(t)) − z), for a place outside
β·(high_i − z). The weights are e^(−s_t), outside S_i times e^(−βΛ) =: λ. The minimum itself has s = 0 and weight 1, so

    β·(z̃ − z) = Σ' w_t·s_t·e^(−s_t) / (1 + Σ' w_t·e^(−s_t)),    w_t = 1 within S_i, λ outside,

over the other places. It is at least 0. It is at most c if and only if Σ' w_t·(s_t − c)·e^(−s_t) ≤ c. Each
(s − c)·e^(−s) is largest at s = 1 + c, where it is e^(−1−c), so with W = Σ' w_t = k − 1 + λ·(T − k) the condition holds
for every sequence once W·e^(−1−c) ≤ c, that is c·e^c ≥ W/e. Hence

    0 ≤ z̃ − z ≤ c/β    with    c = LambertW(W/e),

with equality where all others are exactly (1 + c)/β above the minimum: the bound is attained, and below the usual
ln(1 + W)/β. Taking c/(2β) off leaves an error of at most c/(2β) to either side. An encoder that is within δ of f_i (and
cut off at high_i, by its ReLU) moves the minimum by at most δ, and F0 with |∂F0/∂z_i| ≤ L_i turns errors e_i into at
most Σ L_i·e_i; an MLP within δ0 of F0 adds δ0. The length T enters through c alone, which grows like ln T − ln ln T.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray
from scipy.special import lambertw

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_task import RetrievalTask

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Guarantee:
    """How far the construction may be off, over every sequence in the task's box."""

    error: float  # |answer − y| at most, in exact arithmetic
    rounding: float  # what float64 may add
    per_thing: tuple[float, ...]  # |z̃_i − z_i| at most


@dataclass(frozen=True, eq=False)
class SharpHeads:
    """D heads of width 2 for a task, at one inverse temperature β; Λ = `penalty` keeps them within their S_i."""

    task: RetrievalTask
    inverse_temperature: float
    penalty: float = 1.0
    feature_error: float = 0.0  # δ: how far the encoder is from f_i, where it is not f_i itself
    combination_error: float = 0.0  # δ0: how far the read-out is from F0

    def __post_init__(self) -> None:
        for name in ("inverse_temperature", "penalty", "feature_error", "combination_error"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0) or (name == "inverse_temperature" and value == 0):
                wanted = "a positive number" if name == "inverse_temperature" else "a number from 0 on"
                raise InputError(f"{name} is {wanted}, not {value}")

    @cached_property
    def softness(self) -> Float64[ndarray, " things"]:
        """c of every head: its soft minimum is at most c/β too large, and can be."""
        inside = self.task.members.sum(axis=1)
        leak = np.exp(-self.inverse_temperature * self.penalty)
        return softness(inside - 1 + leak * (self.task.length - inside))

    @cached_property
    def guarantee(self) -> Guarantee:
        """The theorem above, in numbers."""
        steepness = self.task.combination.steepness
        if steepness is None:
            raise InputError("a guarantee needs to know how steep F0 is: give its steepness")
        each = self.softness / (2 * self.inverse_temperature) + self.feature_error
        error = float(np.sum(steepness * each)) + self.combination_error
        return Guarantee(error, self._rounding(steepness), tuple(each.tolist()))

    def retrieved(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n things"]:
        """z̃_i, centred: off by at most c/(2β) to either side."""
        task, beta = self.task, self.inverse_temperature
        high = np.array([feature.high for feature in task.features])
        below = np.where(task.members.T, np.maximum(high - task.values(x), 0.0), 0.0)  # as a ReLU leaves it
        scores = beta * (below - self.penalty * ~task.members.T)
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        return high - (attention * below).sum(axis=1) - self.softness / (2 * beta)

    def answer(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        """F0 of the soft minima, each put back into its feature's range, which takes it no further from the truth."""
        low, high = np.array([(feature.low, feature.high) for feature in self.task.features]).T
        return np.asarray(self.task.combination.value(np.clip(self.retrieved(x), low, high)), dtype=np.float64)

    def _rounding(self, steepness: Float64[ndarray, " things"]) -> float:
        """A first-order estimate with room to spare: scores to (d + 4)·ε·β·size, sums over T tokens, the read-out."""
        size = np.array([max(abs(feature.low), abs(feature.high)) for feature in self.task.features]) * 2
        in_scores = (self.task.width + 4) * EPSILON * self.inverse_temperature * size
        # weights change by factors up to e^(±2·in_scores), and with them a mean whose terms are c/β apart
        moved = 8 * in_scores * (self.softness / self.inverse_temperature)
        summed = (2 * self.task.length + self.task.width + 16) * EPSILON * size
        return float(np.sum(steepness * (moved + summed)) * 2)


def sharp_heads(task: RetrievalTask, *, error: float, penalty: float = 1.0) -> SharpHeads:
    """The construction at the smallest inverse temperature whose guarantee is this error."""
    if not (np.isfinite(error) and error > 0):
        raise InputError(f"an error to stay below is a positive number, not {error}")
    # c falls as β grows, so β·error − Σ L_i·c_i(β)/2 rises: bisect between no leak and nothing but leak
    low, high = (_inverse_temperature(task, error, leak) for leak in (0.0, 1.0))
    for _ in range(60):
        middle = (low + high) / 2
        enough = SharpHeads(task, middle, penalty).guarantee.error <= error
        low, high = (low, middle) if enough else (middle, high)
    return SharpHeads(task, high, penalty)


def softness(rivals: Float64[ndarray, " things"]) -> Float64[ndarray, " things"]:
    """LambertW(W/e): β times the largest bias of a soft minimum over one place and others of total weight W.

    >>> softness(np.array([0.0, 1.0, 127.0])).round(3)
    array([0.   , 0.278, 2.811])
    """
    return np.real(lambertw(rivals / np.e))


def _inverse_temperature(task: RetrievalTask, error: float, leak: float) -> float:
    steepness = task.combination.steepness
    if steepness is None:
        raise InputError("a guarantee needs to know how steep F0 is: give its steepness")
    inside = task.members.sum(axis=1)
    bias = float(np.sum(steepness * softness(inside - 1 + leak * (task.length - inside)))) / 2
    return max(bias / error, EPSILON)
