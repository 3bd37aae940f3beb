"""Starts: the weights an attempt begins with: random ones, those of a failure shrunk, those of a success cut down."""

from __future__ import annotations

import numpy as np

from manyheads.fitting.descent import Weights

SCALE = 0.2  # of the scores' standard deviation: small, so that no head is committed to a relation by chance
THRESHOLD = 1.5
SHRUNK = 0.3  # of their size is left of weights that start again


def random_start(d_model: int, *, heads: int, key_width: int, seed: int) -> Weights:
    """Normal weights, for scores of standard deviation SCALE² on rows of length one."""
    rng = np.random.default_rng(seed)
    query, key = rng.standard_normal((2, heads, d_model, key_width)) * (SCALE * key_width**-0.25)
    return query, key, THRESHOLD


def shrunk_start(weights: Weights) -> Weights:
    """The weights of a failed attempt, smaller: all pairs cost again, but who holds which relation is half decided.

    Where many heads share the relations this succeeds where a random start hardly ever does (docs/fit.md).
    """
    query, key, threshold = weights
    return query * SHRUNK, key * SHRUNK, threshold * SHRUNK**2


def narrowed_start(weights: Weights, *, key_width: int) -> Weights:
    """Every head's form W_Q·W_Kᵀ cut down to its strongest directions: the best start for narrower heads."""
    query, key, threshold = weights
    left, strengths, right = np.linalg.svd(query @ key.swapaxes(1, 2))
    roots = np.sqrt(strengths[:, None, :key_width])
    return left[:, :, :key_width] * roots, right[:, :key_width].swapaxes(1, 2) * roots, threshold


def fewer_heads_start(weights: Weights) -> Weights:
    """All heads but the weakest, the one whose form is smallest."""
    query, key, threshold = weights
    forms = np.einsum("hdc,hdb,hec,heb->h", query, query, key, key)  # ‖W_Q·W_Kᵀ‖² of each head
    rest = np.delete(np.arange(len(query)), int(np.argmin(forms)))
    return query[rest], key[rest], threshold
