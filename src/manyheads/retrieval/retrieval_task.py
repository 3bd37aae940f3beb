"""RetrievalTask: D extrema of a sequence, each of a function of its own, and what is made of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray

from manyheads.bounds.head_bounds import is_covered
from manyheads.errors import InputError


class NotCovered(UserWarning):
    """The task is outside what the theorems speak of."""


@dataclass(frozen=True, eq=False)
class Feature:
    """f_i, whose smallest value is looked for, and a range that its values on the task's inputs lie in."""

    value: Callable[[Float64[ndarray, "*batch width"]], Float64[ndarray, "*batch"]]
    low: float
    high: float
    slope: Float64[ndarray, " width"] | None = None  # where f_i(x) = slope·x: then a small MLP is f_i exactly

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise InputError(
                f"a feature's range goes from a number to a larger one, not from {self.low} to {self.high}"
            )


@dataclass(frozen=True, eq=False)
class Combination:
    """F0, what is made of the D extrema, and how steep it is: |∂F0/∂z_i| at most, which only guarantees ask for."""

    value: Callable[[Float64[ndarray, "*batch things"]], Float64[ndarray, "*batch"]]
    steepness: Float64[ndarray, " things"] | None = None
    weights: Float64[ndarray, " things"] | None = None  # where F0(z) = weights·z


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """y = F0(z_1 … z_D), z_i = min over t ∈ S_i of f_i(x(t)), for sequences of T tokens in a box of R^d.

    The subsets S_i are places, counted from 0; without them every S_i is the whole sequence. One with fewer than T/4
    places is allowed, with a warning: the theorems do not cover it. A maximum of f is a minimum of −f.

    >>> spread = RetrievalTask(
    ...     features=(Feature(lambda x: x[..., 0], 0.0, 1.0), Feature(lambda x: -x[..., 0], -1.0, 0.0)),
    ...     combination=Combination(lambda z: -z[..., 1] - z[..., 0]),
    ...     length=3, width=1)
    >>> spread.targets(np.array([[[0.25], [0.5], [1.0]]]))
    array([0.75])
    """

    features: tuple[Feature, ...]
    combination: Combination
    length: int
    width: int
    subsets: tuple[Int64[ndarray, _], ...] | None = None
    box: tuple[float, float] = (0.0, 1.0)  # of every coordinate of every token

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InputError("a retrieval task has D ≥ 1 features, not 0")
        for name, value in (("length", self.length), ("width", self.width)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        if self.subsets is not None:
            _check_subsets(self.subsets, self.dimension, self.length)
        if self.caveat is not None:
            warnings.warn(self.caveat, NotCovered, stacklevel=3)

    @property
    def dimension(self) -> int:
        """D, how many things are retrieved."""
        return len(self.features)

    @property
    def caveat(self) -> str | None:
        """Why the theorems do not cover this task; None where their condition on the subsets is met."""
        sizes = self.members.sum(axis=1)
        short = np.flatnonzero(~np.asarray(is_covered(subset=sizes, length=self.length)))
        if not short.size:
            return None
        return (
            f"S_{short[0] + 1} has {sizes[short[0]]} of {self.length} places, less than the quarter that the theorems "
            "on head counts ask for: they do not cover this task"
        )

    @cached_property
    def members(self) -> Bool[ndarray, "things length"]:
        """Which places belong to which S_i."""
        among = np.ones((self.dimension, self.length), dtype=bool)
        if self.subsets is not None:
            among[:] = False
            for row, places in zip(among, self.subsets, strict=True):
                row[places] = True
        return among

    @cached_property
    def proper(self) -> tuple[int, ...]:
        """The features whose S_i is not the whole sequence."""
        return tuple(int(i) for i in np.flatnonzero(~self.members.all(axis=1)))

    def values(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n length things"]:
        """f_i(x(t)) of every token."""
        self._check_inputs(x)
        tokens = np.asarray(x, dtype=np.float64)
        found = [np.asarray(feature.value(tokens), dtype=np.float64) for feature in self.features]
        for number, values in enumerate(found, start=1):
            if values.shape != tokens.shape[:2]:
                raise InputError(f"f_{number} gives the shape {values.shape} for tokens of the shape {tokens.shape}")
        return np.stack(found, axis=-1)

    def retrieved(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n things"]:
        """z_i, the smallest value of each feature among its places."""
        return np.where(self.members.T, self.values(x), np.inf).min(axis=1)

    def targets(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        """y of each sequence."""
        return np.asarray(self.combination.value(self.retrieved(x)), dtype=np.float64)

    def tokens(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n length inputs"]:
        """What a network reads: x(t), and for each proper subset whether t is outside it, all it needs of positions."""
        self._check_inputs(x)
        outside = ~self.members[list(self.proper)].T
        marks = np.broadcast_to(outside.astype(np.float64), (len(x), self.length, len(self.proper)))
        return np.concatenate([np.asarray(x, dtype=np.float64), marks], axis=2)

    def _check_inputs(self, x: Float[ndarray, "n tokens numbers"]) -> None:
        if x.shape[1:] != (self.length, self.width):
            raise InputError(f"a sequence of this task has the shape {(self.length, self.width)}, not {x.shape[1:]}")


def _check_subsets(subsets: Sequence[Int64[ndarray, _]], dimension: int, length: int) -> None:
    if len(subsets) != dimension:
        raise InputError(f"{dimension} features need {dimension} subsets of places, not {len(subsets)}")
    for number, places in enumerate(subsets, start=1):
        if not len(places):
            raise InputError(f"S_{number} is empty: there is nothing to retrieve from")
        if places.min() < 0 or places.max() >= length:
            stray = places.max() if places.max() >= length else places.min()
            raise InputError(f"S_{number} has the place {stray}, and the places of a sequence are 0 to {length - 1}")
        if len(np.unique(places)) < len(places):
            raise InputError(f"S_{number} has a place twice")
