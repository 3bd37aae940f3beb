"""TINY: a retrieval run that trains in milliseconds; curved: a task whose features and combination are not linear."""

from __future__ import annotations

import numpy as np

from manyheads.retrieval import Combination, Feature, RetrievalRun, RetrievalTask

TINY = RetrievalRun(
    dimension=2, length=5, heads=2, seed=0, head_width=3, mlp_width=6, input_width=2, training_examples=60,
    validation_examples=30, batch=16, steps=20, validate_every=8, warm_up=4,
)  # fmt: skip
SQUARES = Combination(lambda z: z[..., 0] ** 2 + np.sin(z[..., 1]), steepness=np.array([2.0, 1.0]))


def curved(length: int, subsets: tuple[np.ndarray, ...] | None = None) -> RetrievalTask:
    """Two quadratic features with their minima inside the box, and an F0 that is not linear."""
    bowls = (
        Feature(lambda x: ((x - 0.3) ** 2).sum(-1), 0.0, 1.0),
        Feature(lambda x: (x[..., 0] - 0.6) ** 2 - 0.5 * x[..., 1] + 0.5, 0.0, 1.0),
    )
    return RetrievalTask(bowls, SQUARES, length, 2, subsets)
