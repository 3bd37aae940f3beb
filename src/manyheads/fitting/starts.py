"""Starts of an attempt: random weights, the shrunk weights of a failure, the reduced weights of a larger layer."""

from __future__ import annotations

import numpy as np

from manyheads.fitting.descent import Weights

SCALE = 0.2  # √ of the scores' standard deviation; small, so that chance assigns no relation to a head
THRESHOLD = 1.5
SHRUNK = 0.3  # factor on the weights of a failed attempt


def random_start(d_model: int, *, heads: int, key_width: int, seed: int) -> Weights:
    """Normal weights, for scores of standard deviation SCALE² on rows of length one."""
    rng = np.random.default_rng(seed)
    query, key = rng.standard_normal((2, heads, d_model, key_width)) * (SCALE * key_width**-0.25)
    return query, key, THRESHOLD


def shrunk_start(weights: Weights) -> Weights:
    """The weights of a failed attempt, multiplied by SHRUNK.

    All pairs cost again, but the heads keep a preference for the relations that they held. With many heads this often
    succeeds where a random start hardly ever does (docs/results/fit.md).
    """
    query, key, threshold = weights
    return query * SHRUNK, key * SHRUNK, threshold * SHRUNK**2


def narrowed_start(weights: Weights, *, key_width: int) -> Weights:
    """Narrower heads: every head's form W_Q·W_Kᵀ reduced to its strongest singular directions."""
    query, key, threshold = weights
    left, strengths, right = np.linalg.svd(query @ key.swapaxes(1, 2))
    roots = np.sqrt(strengths[:, None, :key_width])
    return left[:, :, :key_width] * roots, right[:, :key_width].swapaxes(1, 2) * roots, threshold


def fewer_heads_start(weights: Weights) -> Weights:
    """One head less: the head whose form W_Q·W_Kᵀ has the smallest norm is removed."""
    query, key, threshold = weights
    forms = np.einsum("hdc,hdb,hec,heb->h", query, query, key, key)  # ‖W_Q·W_Kᵀ‖² of each head
    rest = np.delete(np.arange(len(query)), int(np.argmin(forms)))
    return query[rest], key[rest], threshold
