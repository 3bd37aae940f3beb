"""Arguments and results of bounds: numbers, alone or in arrays."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from manyheads.errors import InputError

# arguments broadcast against each other as in numpy; plain numbers give a number
Given = int | float | np.generic | ndarray | list[int] | list[float]
Reals = Float64[ndarray, "..."] | np.float64
Wholes = Int64[ndarray, "..."] | np.int64
Truths = Bool[ndarray, "..."] | np.bool_


def positive(values: Given, name: str) -> Reals:
    """The values as float64, each above 0 and finite."""
    array = np.asarray(values, dtype=np.float64)
    wrong = array[~(np.isfinite(array) & (array > 0))]
    if wrong.size:
        raise InputError(f"{name} must be positive, not {wrong.flat[0]:g}")
    return array


def whole(values: Given, name: str) -> Wholes:
    """The values as int64."""
    array = np.asarray(values)
    if array.dtype == object:  # what numpy makes of numbers that no machine word holds
        raise InputError(f"{name} must be whole numbers below 2^63")
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole numbers, not {array.dtype}")
    return array.astype(np.int64)
