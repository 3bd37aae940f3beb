"""Law fits: a line through the origin or an affine one, with intervals and both kinds of R²."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from numpy import ndarray
from scipy.special import stdtrit

from manyheads.capacity.point import CONFIDENCE
from manyheads.errors import InputError


@dataclass(frozen=True)
class Fit:
    """y ≈ slope · x + intercept by least squares, with 95 % intervals."""

    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    r_squared: float  # 1 − residuals² / Σ(y − ȳ)², the usual one
    r_squared_uncentred: float  # 1 − residuals² / Σy², what a fit through the origin often reports
    points: int

    def __call__(self, x: float) -> float:
        """The fitted value at x."""
        return self.slope * x + self.intercept


def fit_through_origin(x: Float[ndarray, " points"], y: Float[ndarray, " points"]) -> Fit:
    """Least squares for y = slope · x."""
    _enough(x, y, least=2)
    slope = float(x @ y / (x @ x))
    residuals = y - slope * x
    error = math.sqrt(float(residuals @ residuals) / (len(x) - 1) / float(x @ x))
    return Fit(slope, _interval(slope, error, len(x) - 1), 0.0, (0.0, 0.0), *_r_squared(y, residuals), len(x))


def fit_affine(x: Float[ndarray, " points"], y: Float[ndarray, " points"]) -> Fit:
    """Least squares for y = slope · x + intercept."""
    _enough(x, y, least=3)
    from scipy.stats import linregress  # takes longer to import than the command line

    line = linregress(x, y)
    residuals = y - line.slope * x - line.intercept
    freedom = len(x) - 2
    return Fit(
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
        raise InputError(f"a fit needs at least {least} points, not {len(x)}")
    if not x.any() or (least == 3 and (x == x[0]).all()):
        raise InputError("a fit needs points at different x")


def _interval(estimate: float, error: float, freedom: int) -> tuple[float, float]:
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return (estimate - half, estimate + half)


def _r_squared(y: Float[ndarray, " points"], residuals: Float[ndarray, " points"]) -> tuple[float, float]:
    unexplained = float(residuals @ residuals)
    centred, raw = float(((y - y.mean()) ** 2).sum()), float(y @ y)
    return (1 - unexplained / centred if centred else math.nan, 1 - unexplained / raw if raw else math.nan)
