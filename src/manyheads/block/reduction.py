"""Principal components: a table of fewer dimensions that keeps as much of its rows' spread as so many can."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float32
from numpy import ndarray


def principal(table: Float[ndarray, "rows width"], d_model: int) -> Float32[ndarray, "rows d_model"]:
    """The centred rows in the directions of their largest spread, NULL's row treated as all others.

    A direction's sign is chosen so that its largest component is positive; nothing is rescaled.
    """
    centred = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # the widest spread last
    kept = directions[:, ::-1][:, :d_model]
    largest = np.abs(kept).argmax(axis=0)
    kept = kept * np.sign(kept[largest, np.arange(d_model)])
    return np.ascontiguousarray(centred @ kept, dtype=np.float32)
