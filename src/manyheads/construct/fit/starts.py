"""Starts: the weights an attempt begins with."""

from __future__ import annotations

import numpy as np

from manyheads.construct.fit.descent import Weights

SCALE = 0.2  # of the scores' standard deviation: small, so that no head is committed to a relation by chance
THRESHOLD = 1.5


def random_start(d_model: int, *, heads: int, key_width: int, seed: int, attempt: int) -> Weights:
    """Normal weights, for scores of standard deviation SCALE² on rows of length one."""
    rng = np.random.default_rng([seed, attempt])
    query, key = rng.standard_normal((2, heads, d_model, key_width)) * (SCALE * key_width**-0.25)
    return query, key, THRESHOLD
