"""The tasks of the paper's examples: a sum of maxima, and the largest plus the smallest token."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.retrieval.retrieval_task import Combination, Feature, RetrievalTask


def sum_of_maxima(
    directions: Float64[ndarray, "things width"],
    length: int,
    *,
    box: tuple[float, float] = (0.0, 1.0),
    subsets: tuple[Int64[ndarray, _], ...] | None = None,
) -> RetrievalTask:
    """y = Σ_i max over t of a_iᵀx(t), the rows of `directions` being a_i: f_i = −a_iᵀx and F0 = −Σ z_i."""
    things, width = directions.shape
    features = tuple(linear_feature(-direction, box) for direction in directions)
    return RetrievalTask(features, linear_combination(-np.ones(things)), length, width, subsets, box)


def max_and_min(length: int, *, box: tuple[float, float] = (0.0, 1.0)) -> RetrievalTask:
    """y = max over t of x(t) + min over t of x(t), the smallest example: D = 2, d = 1."""
    features = tuple(linear_feature(np.array([slope]), box) for slope in (-1.0, 1.0))
    return RetrievalTask(features, linear_combination(np.array([-1.0, 1.0])), length, 1, box=box)


def unit_directions(things: int, width: int, rng: np.random.Generator) -> Float64[ndarray, "things width"]:
    """Independent directions, uniform on the sphere."""
    drawn = rng.standard_normal((things, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def linear_feature(slope: Float64[ndarray, " width"], box: tuple[float, float]) -> Feature:
    """f(x) = slope·x, with its exact range on the box."""
    low, high = box
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"a box goes from a number to a larger one, not from {low} to {high}")
    ends = np.stack([slope * low, slope * high])
    return Feature(lambda x: x @ slope, float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum()), slope)


def linear_combination(weights: Float64[ndarray, " things"]) -> Combination:
    """F0(z) = weights·z."""
    return Combination(lambda z: z @ weights, np.abs(weights), weights)
