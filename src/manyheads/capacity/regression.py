"""Regressions with intervals and both kinds of R², and the laws across problems as the paper states them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import stdtrit

from manyheads.capacity.thresholds import CONFIDENCE
from manyheads.errors import InputError


@dataclass(frozen=True)
class Regression:
    """y ≈ slope · x + intercept by least squares, with 95 % intervals.

    Attributes:
        slope: The slope.
        slope_interval: The 95 % interval of the slope.
        intercept: The intercept; 0 for a line through the origin.
        intercept_interval: The 95 % interval of the intercept.
        r_squared: 1 − residuals²/Σ(y − ȳ)², the usual R².
        r_squared_uncentred: 1 − residuals²/Σy², often reported for a line through the origin.
        points: The number of points.
    """

    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    r_squared: float
    r_squared_uncentred: float
    points: int

    def __call__(self, x: float) -> float:
        """The value of the line at x."""
        return self.slope * x + self.intercept


def regression_through_origin(x: Float[ndarray, " points"], y: Float[ndarray, " points"]) -> Regression:
    """Least squares for y = slope · x.

    Args:
        x: At least 2 numbers, not all zero.
        y: As many numbers.

    Returns:
        The regression, with intercept 0.

    Raises:
        InputError: The numbers of x and y differ, there are fewer than 2 points, or every x is zero.
    """
    _enough(x, y, least=2)
    slope = float(x @ y / (x @ x))
    residuals = y - slope * x
    error = math.sqrt(float(residuals @ residuals) / (len(x) - 1) / float(x @ x))
    return Regression(slope, _interval(slope, error, len(x) - 1), 0.0, (0.0, 0.0), *_r_squared(y, residuals), len(x))


def affine_regression(x: Float[ndarray, " points"], y: Float[ndarray, " points"]) -> Regression:
    """Least squares for y = slope · x + intercept.

    Args:
        x: At least 3 numbers, not all equal.
        y: As many numbers.

    Returns:
        The regression.

    Raises:
        InputError: The numbers of x and y differ, there are fewer than 3 points, or all x are equal.
    """
    _enough(x, y, least=3)
    from scipy.stats import linregress  # takes longer to import than the command line

    line = linregress(x, y)
    residuals = y - line.slope * x - line.intercept
    freedom = len(x) - 2
    return Regression(
        float(line.slope),
        _interval(float(line.slope), float(line.stderr), freedom),
        float(line.intercept),
        _interval(float(line.intercept), float(line.intercept_stderr), freedom),
        *_r_squared(y, residuals),
        len(x),
    )


def _enough(x: Float[ndarray, " points"], y: Float[ndarray, " points"], *, least: int) -> None:
    if len(x) != len(y):
        raise InputError(f"{len(x)} values of x do not pair up with {len(y)} of y")
    if len(x) < least:
        raise InputError(f"a regression needs at least {least} points, not {len(x)}")
    if not x.any() or (least == 3 and (x == x[0]).all()):
        raise InputError("a regression needs points at different x")


def _interval(estimate: float, error: float, freedom: int) -> tuple[float, float]:
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return (estimate - half, estimate + half)


def _r_squared(y: Float[ndarray, " points"], residuals: Float[ndarray, " points"]) -> tuple[float, float]:
    unexplained = float(residuals @ residuals)
    centred, raw = float(((y - y.mean()) ** 2).sum()), float(y @ y)
    return (1 - unexplained / centred if centred else math.nan, 1 - unexplained / raw if raw else math.nan)


@dataclass(frozen=True)
class MeasuredProblem:
    """One problem and its measured capacity.

    Attributes:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        key_budget: D_K*, the smallest key budget that works.
        heads: h*, the head count at D_K*.
    """

    items: int
    relations: int
    d_model: int
    key_budget: int
    heads: int


@dataclass(frozen=True)
class MeasuredLaw:
    """A law by regression: `quantity` ≈ slope · `against` (+ intercept).

    Attributes:
        quantity: The name of the quantity y.
        against: The name of the quantity x.
        through_origin: Whether the line goes through the origin.
        regression: The numbers of the line.
    """

    quantity: str
    against: str
    through_origin: bool
    regression: Regression


# Both logarithms: the paper writes log, its numbers fit log2 (claims 3 and 4).
AGAINST: tuple[tuple[str, str, Callable[[MeasuredProblem], float]], ...] = (
    ("D_K*", "m'·log2 m/d_model", lambda one: one.relations * math.log2(one.items) / one.d_model),
    ("D_K*", "m'·ln m/d_model", lambda one: one.relations * math.log(one.items) / one.d_model),
    ("h*", "m'/d_model", lambda one: one.relations / one.d_model),
)


def law_regressions(measured: Sequence[MeasuredProblem]) -> list[MeasuredLaw]:
    """The laws across problems: D_K* against m'·log m/d_model and h* against m'/d_model.

    Args:
        measured: Problems with their capacities.

    Returns:
        Each law through the origin and affine; none if fewer than three problems differ in the law's variable.
    """
    laws = []
    for quantity, against, law in AGAINST:
        x = np.array([law(one) for one in measured])
        y = np.array([float(one.key_budget if quantity == "D_K*" else one.heads) for one in measured])
        if len(set(x.tolist())) >= 3:
            laws += [MeasuredLaw(quantity, against, True, regression_through_origin(x, y))]
            laws += [MeasuredLaw(quantity, against, False, affine_regression(x, y))]
    return laws
