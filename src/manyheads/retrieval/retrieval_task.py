"""RetrievalTask: the extrema of D functions over a sequence, and a function of these extrema as the target."""

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


class TheoremWarning(UserWarning):
    """The theorems on head counts do not cover this task."""


@dataclass(frozen=True, eq=False)
class Feature:
    """f_i, a function of one token. The task uses its smallest value over a sequence.

    Attributes:
        value: Maps tokens of shape (…, width) to values of shape (…).
        low: A lower bound of the values on the task's inputs.
        high: An upper bound of the values on the task's inputs.
        slope: The vector a for which f_i(x) = a·x, if f_i is linear. Then a small MLP can compute f_i exactly.
    """

    value: Callable[[Float64[ndarray, "*batch width"]], Float64[ndarray, "*batch"]]
    low: float
    high: float
    slope: Float64[ndarray, " width"] | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise InputError(
                f"a feature's range goes from a number to a larger one, not from {self.low} to {self.high}"
            )


@dataclass(frozen=True, eq=False)
class Combination:
    """F0, the function of the D extrema that is the target.

    Attributes:
        value: Maps extrema of shape (…, D) to values of shape (…).
        steepness: An upper bound of |∂F0/∂z_i| for each i. Only guarantees need it.
        weights: The vector w for which F0(z) = w·z, if F0 is linear.
    """

    value: Callable[[Float64[ndarray, "*batch features"]], Float64[ndarray, "*batch"]]
    steepness: Float64[ndarray, " features"] | None = None
    weights: Float64[ndarray, " features"] | None = None


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """y = F0(z_1 … z_D) with z_i = min over t ∈ S_i of f_i(x(t)), for sequences of T tokens. A maximum is a min of −f.

    Attributes:
        features: f_1 … f_D.
        combination: F0.
        length: T, the number of tokens of a sequence.
        width: d, the numbers of a token.
        subsets: S_1 … S_D, places counted from 0; None if every S_i is the whole sequence. The theorems ask for at
            least T/4 places in each: a smaller subset is allowed, with the warning `TheoremWarning`.
        box: The smallest and the largest value of every coordinate of a token.

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
    box: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InputError("a retrieval task has D ≥ 1 features, not 0")
        for name, value in (("length", self.length), ("width", self.width)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        if self.subsets is not None:
            _check_subsets(self.subsets, self.dimension, self.length)
        if self.caveat is not None:
            warnings.warn(self.caveat, TheoremWarning, stacklevel=3)

    @property
    def dimension(self) -> int:
        """D, the number of extrema."""
        return len(self.features)

    @property
    def caveat(self) -> str | None:
        """The reason why the theorems do not cover this task; None if every subset has at least T/4 places."""
        sizes = self.members.sum(axis=1)
        short = np.flatnonzero(~np.asarray(is_covered(subset=sizes, length=self.length)))
        if not short.size:
            return None
        return (
            f"S_{short[0] + 1} has {sizes[short[0]]} of {self.length} places, less than the quarter that the theorems "
            "on head counts ask for: they do not cover this task"
        )

    @cached_property
    def members(self) -> Bool[ndarray, "features length"]:
        """Whether each place belongs to each S_i."""
        inside = np.ones((self.dimension, self.length), dtype=bool)
        if self.subsets is not None:
            inside[:] = False
            for row, places in zip(inside, self.subsets, strict=True):
                row[places] = True
        return inside

    @cached_property
    def restricted_features(self) -> tuple[int, ...]:
        """The numbers of the features whose S_i is not the whole sequence."""
        return tuple(int(i) for i in np.flatnonzero(~self.members.all(axis=1)))

    def values(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n length features"]:
        """f_i(x(t)) of every token.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The values, of shape (n, length, features).

        Raises:
            InputError: The sequences have another length or width, or a feature does not give one number for each
                token.
        """
        self._check_inputs(x)
        tokens = np.asarray(x, dtype=np.float64)
        columns = [np.asarray(feature.value(tokens), dtype=np.float64) for feature in self.features]
        for number, values in enumerate(columns, start=1):
            if values.shape != tokens.shape[:2]:
                raise InputError(f"f_{number} gives the shape {values.shape} for tokens of the shape {tokens.shape}")
        return np.stack(columns, axis=-1)

    def minima(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n features"]:
        """z_i, the smallest value of each feature over its places.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The minima, of shape (n, features).
        """
        return np.where(self.members.T, self.values(x), np.inf).min(axis=1)

    def targets(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, " n"]:
        """y of each sequence.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The targets, of shape (n,).
        """
        return np.asarray(self.combination.value(self.minima(x)), dtype=np.float64)

    def tokens(self, x: Float[ndarray, "n length width"]) -> Float64[ndarray, "n length inputs"]:
        """The inputs of a network: x(t), and for each restricted feature a mark, 1 outside S_i and 0 inside.

        The marks are the only information on positions.

        Args:
            x: Sequences, of shape (n, length, width).

        Returns:
            The inputs, of shape (n, length, inputs).

        Raises:
            InputError: The sequences have another length or width.
        """
        self._check_inputs(x)
        outside = ~self.members[list(self.restricted_features)].T
        marks = np.broadcast_to(outside.astype(np.float64), (len(x), self.length, len(self.restricted_features)))
        return np.concatenate([np.asarray(x, dtype=np.float64), marks], axis=2)

    def _check_inputs(self, x: Float[ndarray, "n tokens numbers"]) -> None:
        if x.shape[1:] != (self.length, self.width):
            raise InputError(f"a sequence of this task has the shape {(self.length, self.width)}, not {x.shape[1:]}")


def sum_of_maxima(
    directions: Float64[ndarray, "features width"],
    length: int,
    *,
    box: tuple[float, float] = (0.0, 1.0),
    subsets: tuple[Int64[ndarray, _], ...] | None = None,
) -> RetrievalTask:
    """The task y = Σ_i max over t of a_iᵀx(t): f_i = −a_iᵀx and F0 = −Σ z_i.

    Args:
        directions: a_1 … a_D, one in each row.
        length: T, the number of tokens of a sequence.
        box: The smallest and the largest value of every coordinate of a token.
        subsets: The places of each maximum; None for all places.

    Returns:
        The task.

    Raises:
        InputError: A size is below 1, the box is empty, or the subsets do not fit.

    >>> sum_of_maxima(np.eye(2), 3).targets(np.array([[[0.1, 0.2], [0.5, 0.0], [0.3, 0.4]]]))
    array([0.9])
    """
    count, width = directions.shape
    features = tuple(linear_feature(-direction, box) for direction in directions)
    return RetrievalTask(features, linear_combination(-np.ones(count)), length, width, subsets, box)


def max_and_min(length: int, *, box: tuple[float, float] = (0.0, 1.0)) -> RetrievalTask:
    """The task y = max over t of x(t) + min over t of x(t), with D = 2 and d = 1.

    Args:
        length: T, the number of tokens of a sequence.
        box: The smallest and the largest value of a token.

    Returns:
        The task.

    Raises:
        InputError: The length is below 1, or the box is empty.
    """
    features = tuple(linear_feature(np.array([slope]), box) for slope in (-1.0, 1.0))
    return RetrievalTask(features, linear_combination(np.array([-1.0, 1.0])), length, 1, box=box)


def unit_directions(count: int, width: int, rng: np.random.Generator) -> Float64[ndarray, "count width"]:
    """Independent random directions, uniform on the sphere."""
    normal = rng.standard_normal((count, width))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def linear_feature(slope: Float64[ndarray, " width"], box: tuple[float, float]) -> Feature:
    """f(x) = slope·x, with its exact range on the box."""
    low, high = box
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"a box goes from a number to a larger one, not from {low} to {high}")
    ends = np.stack([slope * low, slope * high])
    return Feature(lambda x: x @ slope, float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum()), slope)


def linear_combination(weights: Float64[ndarray, " features"]) -> Combination:
    """F0(z) = weights·z."""
    return Combination(lambda z: z @ weights, np.abs(weights), weights)


def _check_subsets(subsets: Sequence[Int64[ndarray, _]], dimension: int, length: int) -> None:
    if len(subsets) != dimension:
        raise InputError(f"{dimension} features need {dimension} subsets of places, not {len(subsets)}")
    for number, places in enumerate(subsets, start=1):
        if not len(places):
            raise InputError(f"S_{number} is empty: it needs at least one place")
        if places.min() < 0 or places.max() >= length:
            stray = places.max() if places.max() >= length else places.min()
            raise InputError(f"S_{number} has the place {stray}, but the places of a sequence are 0 to {length - 1}")
        if len(np.unique(places)) < len(places):
            raise InputError(f"S_{number} has a place twice")
