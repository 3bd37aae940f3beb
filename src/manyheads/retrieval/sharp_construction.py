"""The explicit construction with h = D heads of width n = 2: head i is a sharp softmax over f_i (Theorem 2 in full).

Each token is embedded in 2·D coordinates, two for each head: u_i = high_i − f_i(x(t)) inside S_i and 0 outside, and the
mark g_i, 1 outside S_i and 0 inside. Head i scores β·(u_i − Λ·g_i). Therefore it attends to the smallest f_i, and
returns the mean u_i. The soft minimum is z̃_i = high_i − mean u_i.

**The error.** Let z = min over S_i of f_i, k = |S_i|, and s_t ≥ 0 be β·(f_i(x(t)) − z); for a place outside S_i,
s_t = β·(high_i − z). The weights are e^(−s_t), outside S_i times e^(−βΛ) =: λ. The minimum itself has s = 0 and weight
1. Therefore

    β·(z̃ − z) = Σ' w_t·s_t·e^(−s_t) / (1 + Σ' w_t·e^(−s_t)),    w_t = 1 inside S_i, λ outside,

where Σ' runs over the other places. It is at least 0. It is at most c if and only if Σ' w_t·(s_t − c)·e^(−s_t) ≤ c.
Each (s − c)·e^(−s) is largest at s = 1 + c, where it is e^(−1−c). Let W = Σ' w_t = k − 1 + λ·(T − k). The condition
holds for every sequence if W·e^(−1−c) ≤ c, that is c·e^c ≥ W/e. Hence

    0 ≤ z̃ − z ≤ c/β    with    c = LambertW(W/e).

Equality holds if all other places are exactly (1 + c)/β above the minimum: the bound is attained, and it is smaller
than the usual ln(1 + W)/β. Subtracting c/(2β) leaves an error of at most c/(2β) in both directions. An encoder that is
within δ of f_i (and is cut off at high_i by its ReLU) moves the minimum by at most δ. F0 with |∂F0/∂z_i| ≤ L_i turns
errors e_i into at most Σ L_i·e_i; an MLP within δ0 of F0 adds δ0. The length T enters only through c, which grows like
ln T − ln ln T.
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
class ErrorGuarantee:
    """Upper bounds of the construction's error over every sequence in the task's box.

    Attributes:
        error: A bound of |answer − y| in exact arithmetic.
        rounding: An estimate of the error that float64 adds.
        per_extremum: A bound of |z̃_i − z_i| for each i.
    """

    error: float
    rounding: float
    per_extremum: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class SharpHeads:
    """D heads of width 2 for a task.

    Attributes:
        task: The task.
        inverse_temperature: β, positive.
        penalty: Λ, which keeps the attention of each head inside its S_i.
        feature_error: δ, the largest difference between the encoder and f_i; 0 if the encoder is f_i itself.
        combination_error: δ0, the largest difference between the read-out and F0.
    """

    task: RetrievalTask
    inverse_temperature: float
    penalty: float = 1.0
    feature_error: float = 0.0
    combination_error: float = 0.0

    def __post_init__(self) -> None:
        for name in ("inverse_temperature", "penalty", "feature_error", "combination_error"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0) or (name == "inverse_temperature" and value == 0):
                allowed = "a positive number" if name == "inverse_temperature" else "a number from 0 on"
                raise InputError(f"{name} is {allowed}, not {value}")

    @cached_property
    def softness(self) -> Float64[ndarray, " features"]:
        """c of every head: its soft minimum is at most c/β above the minimum, and this bound is attained."""
        inside = self.task.members.sum(axis=1)
        leak = np.exp(-self.inverse_temperature * self.penalty)
        return softness(inside - 1 + leak * (self.task.length - inside))

    @cached_property
    def guarantee(self) -> ErrorGuarantee:
        """The bounds of the theorem above, in numbers.

        Raises:
            InputError: The task's combination has no steepness.
        """
        steepness = _steepness(self.task)
        each = self.softness / (2 * self.inverse_temperature) + self.feature_error
        error = float(np.sum(steepness * each)) + self.combination_error
        return ErrorGuarantee(error, self._rounding(steepness), tuple(each.tolist()))

    def soft_minima(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n features"]:
        """z̃_i − c/(2β), at most c/(2β) from the minimum z_i in both directions.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The soft minima, of shape (n, features).
        """
        task, beta = self.task, self.inverse_temperature
        high = np.array([feature.high for feature in task.features])
        below = np.where(task.members.T, np.maximum(high - task.values(x), 0.0), 0.0)  # as a ReLU computes it
        scores = beta * (below - self.penalty * ~task.members.T)
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        return high - (attention * below).sum(axis=1) - self.softness / (2 * beta)

    def answer(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        """F0 of the soft minima, each clipped to its feature's range. Clipping never increases the error.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The answers, of shape (n,).
        """
        low, high = np.array([(feature.low, feature.high) for feature in self.task.features]).T
        return np.asarray(self.task.combination.value(np.clip(self.soft_minima(x), low, high)), dtype=np.float64)

    def _rounding(self, steepness: Float64[ndarray, " features"]) -> float:
        """A first-order estimate with a safety factor: scores to (d + 4)·ε·β·size, sums over T tokens, the read-out."""
        size = np.array([max(abs(feature.low), abs(feature.high)) for feature in self.task.features]) * 2
        in_scores = (self.task.width + 4) * EPSILON * self.inverse_temperature * size
        # weights change by factors up to e^(±2·in_scores); the terms of their mean differ by c/β
        in_mean = 8 * in_scores * (self.softness / self.inverse_temperature)
        in_sums = (2 * self.task.length + self.task.width + 16) * EPSILON * size
        return float(np.sum(steepness * (in_mean + in_sums)) * 2)


def sharp_heads(task: RetrievalTask, *, error: float, penalty: float = 1.0) -> SharpHeads:
    """Build the construction with the smallest inverse temperature that guarantees an error.

    Args:
        task: The task; its combination must have a steepness.
        error: The largest allowed |answer − y|, positive.
        penalty: Λ, which keeps the attention of each head inside its S_i; at least 0.

    Returns:
        The heads; their `guarantee.error` is at most `error`.

    Raises:
        InputError: The error is not positive, or the combination has no steepness.

    >>> from manyheads.retrieval import max_and_min
    >>> round(sharp_heads(max_and_min(64), error=0.01).inverse_temperature, 1)
    230.7
    """
    if not (np.isfinite(error) and error > 0):
        raise InputError(f"the largest allowed error is a positive number, not {error}")
    # c falls as β grows, so β·error − Σ L_i·c_i(β)/2 rises: bisect between no leak and the largest leak
    low, high = (_inverse_temperature(task, error, leak) for leak in (0.0, 1.0))
    for _ in range(60):
        middle = (low + high) / 2
        enough = SharpHeads(task, middle, penalty).guarantee.error <= error
        low, high = (low, middle) if enough else (middle, high)
    return SharpHeads(task, high, penalty)


def softness(rivals: Float64[ndarray, " features"]) -> Float64[ndarray, " features"]:
    """LambertW(W/e): β times the largest bias of a soft minimum over one place and others of total weight W.

    >>> softness(np.array([0.0, 1.0, 127.0])).round(3)
    array([0.   , 0.278, 2.811])
    """
    return np.real(lambertw(rivals / np.e))


def _inverse_temperature(task: RetrievalTask, error: float, leak: float) -> float:
    inside = task.members.sum(axis=1)
    bias = float(np.sum(_steepness(task) * softness(inside - 1 + leak * (task.length - inside)))) / 2
    return max(bias / error, EPSILON)


def _steepness(task: RetrievalTask) -> Float64[ndarray, " features"]:
    if task.combination.steepness is None:
        raise InputError("a guarantee needs a bound of F0's derivatives: give the combination its steepness")
    return task.combination.steepness
