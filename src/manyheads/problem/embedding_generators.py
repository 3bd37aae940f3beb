"""Generators of embeddings: one row of d_model numbers for each item; the seed decides the rows."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError


def one_hot(items: int) -> Float32[ndarray, "items items"]:
    """The identity: no compression, d_model = items."""
    _check_sizes(items, items)
    return np.eye(items, dtype=np.float32)


def gaussian(items: int, d_model: int, *, seed: int) -> Float32[ndarray, "items d_model"]:
    """Rows drawn from N(0, I/d_model), then scaled to length one (the paper's Gaussian unit-norm embedding)."""
    _check_sizes(items, d_model)
    rows = np.random.default_rng(seed).standard_normal((items, d_model))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def sparse_binary(
    items: int, d_model: int, *, seed: int, density: float | None = None
) -> Float32[ndarray, "items d_model"]:
    """Entries 1 with probability `density`, else 0 (Corollary B.7); a row of zeros is drawn again.

    The default density is p_B = ln(items)/d_model, at most ½. At c·ln(items)/d_model about items^(1−c) rows would be
    zero, so at the default about one. No layer can recognise an item with a zero row, hence the second draw.
    """
    _check_sizes(items, d_model)
    if density is None:
        density = min(0.5, max(1.0, math.log(items)) / d_model)
    if not 0.5 / d_model <= density <= 1:
        raise InputError(
            f"the density must lie between 1/(2·d_model) = {0.5 / d_model:g}, below which most rows are zero, and 1, "
            f"not {density:g}"
        )
    rng = np.random.default_rng(seed)
    rows = rng.random((items, d_model)) < density
    while (zero := np.flatnonzero(~rows.any(axis=1))).size:
        rows[zero] = rng.random((len(zero), d_model)) < density
    return rows.astype(np.float32)


def _check_sizes(items: int, d_model: int) -> None:
    if items < 1 or d_model < 1:
        raise InputError(f"an embedding needs items and d_model of at least 1, not {items} and {d_model}")
