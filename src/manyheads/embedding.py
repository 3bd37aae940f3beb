"""Embeddings: one row of d_model numbers for each item, frozen while a layer is built or trained."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError


def one_hot(items: int) -> Float32[ndarray, "items items"]:
    """The identity: no compression, d_model = items."""
    return np.eye(items, dtype=np.float32)


def gaussian(items: int, d_model: int, *, seed: int) -> Float32[ndarray, "items d_model"]:
    """Rows drawn from N(0, I/d_model), then scaled to length one (the paper's Gaussian unit-norm embedding)."""
    if items < 1 or d_model < 1:
        raise InputError(f"an embedding needs items and d_model of at least 1, not {items} and {d_model}")
    rows = np.random.default_rng(seed).standard_normal((items, d_model))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
