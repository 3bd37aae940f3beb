"""Arguments and results of bounds: single numbers or arrays, broadcast against each other as in numpy."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from manyheads.errors import InputError

Given = int | float | np.generic | ndarray | list[int] | list[float]
Reals = Float64[ndarray, "..."] | np.float64
Wholes = Int64[ndarray, "..."] | np.int64
Truths = Bool[ndarray, "..."] | np.bool_


def positive(values: Given, name: str) -> Reals:
    """The values as float64.

    Args:
        values: Finite numbers above 0.
        name: Name of the argument, for the message.

    Returns:
        An array of the same shape.

    Raises:
        InputError: A value is not positive, or not finite.
    """
    try:
        array = np.asarray(values)
        array = np.full(array.shape, np.nan) if array.dtype.kind in "bSU" else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # words, or a whole number above 2^1023
        array = np.array(np.nan)
    wrong = array[~(np.isfinite(array) & (array > 0))]
    if wrong.size:
        raise InputError(f"{name} must be positive, not {wrong.flat[0]:g}")
    return array


def whole(values: Given, name: str) -> Wholes:
    """The values as int64.

    Args:
        values: Whole numbers below 2^63.
        name: Name of the argument, for the message.

    Returns:
        An array of the same shape.

    Raises:
        InputError: A value is not a whole number, or too large.
    """
    array = np.asarray(values)
    if array.dtype == object:  # the dtype that numpy chooses for whole numbers above 64 bits
        raise InputError(f"{name} must be whole numbers below 2^63")
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole numbers, not {array.dtype}")
    return array.astype(np.int64)
