"""Contexts: what a softmax over random contexts leaves of a construction's scores, at any sharpness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from scipy.special import softmax

# Units: score/d_k, so that a head's owner gives its target about 1. The logits are β times that; as published β = √d_k.
Units = Float64[ndarray, "heads items items"]
Context = Int64[ndarray, " context"]
EXCESSES = range(5)  # β has to exceed ln ℓ (Lemma 8.2), and all above that only makes the other heads louder
SOFTMAX_FLOPS = 500  # what gathering a score and its exponential are worth, in operations of a matrix product


def draw_contexts(rng: np.random.Generator, *, items: int, length: int, count: int) -> list[Context]:
    """Uniform contexts of distinct items."""
    return [rng.choice(items, size=length, replace=False) for _ in range(count)]


def sharpnesses(length: int) -> list[float]:
    """The β worth trying for contexts of this length."""
    return [math.log(length) + excess for excess in EXCESSES]


def attention(units: Units, context: Context, sharpness: float) -> Float64[ndarray, "context context"]:
    """What each item of the context gets from each, all heads added up."""
    return softmax(sharpness * units[:, context[:, None], context[None, :]], axis=2).sum(axis=0)


def window(
    units: Units, related: Bool[ndarray, "items items"], contexts: Sequence[Context], sharpness: float
) -> tuple[float, float]:
    """The largest score of a false pair and the smallest of a true one, over the contexts."""
    low, high = -np.inf, np.inf
    for false, true in parted(units, related, contexts, sharpness):
        low, high = max(low, float(false.max(initial=-np.inf))), min(high, float(true.min(initial=np.inf)))
    return low, high


def parted(
    units: Units, related: Bool[ndarray, "items items"], contexts: Sequence[Context], sharpness: float
) -> Iterator[tuple[Float64[ndarray, " false"], Float64[ndarray, " true"]]]:
    """Every context's scores of false pairs and of true ones."""
    for context in contexts:
        true, scores = related[np.ix_(context, context)], attention(units, context, sharpness)
        yield scores[~true], scores[true]


def fewest_wrong(false: Float64[ndarray, " false"], true: Float64[ndarray, " true"]) -> int:
    """The pairs on the wrong side of the threshold that has the fewest of them there.

    >>> fewest_wrong(np.array([0.1, 0.4, 0.8]), np.array([0.5, 0.9, 0.3]))
    2
    """
    # below the k-th smallest true score: k missed, and every false pair that scores as much or more
    ends = np.append(np.sort(true), np.inf)
    exceeding = len(false) - np.searchsorted(np.sort(false), ends)
    return int((np.arange(len(ends)) + exceeding).min())
