"""Laws across problems: D_K* against m'·log m/d_model and h* against m'/d_model, as the paper fits them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.capacity.regression import Fit, fit_affine, fit_through_origin


@dataclass(frozen=True)
class Measured:
    """One problem and its measured capacity."""

    items: int
    relations: int
    d_model: int
    key_budget: int
    heads: int


@dataclass(frozen=True)
class Law:
    """A fitted law in words: `quantity` ≈ slope · `against` (+ intercept)."""

    quantity: str
    against: str
    through_origin: bool
    fit: Fit


# Both logarithms: the paper writes log, its numbers fit log2 (claims 3 and 4).
AGAINST: tuple[tuple[str, str, Callable[[Measured], float]], ...] = (
    ("D_K*", "m'·log2 m/d_model", lambda one: one.relations * math.log2(one.items) / one.d_model),
    ("D_K*", "m'·ln m/d_model", lambda one: one.relations * math.log(one.items) / one.d_model),
    ("h*", "m'/d_model", lambda one: one.relations / one.d_model),
)


def fit_laws(measured: Sequence[Measured]) -> list[Law]:
    """Each law through the origin and affine; none where the problems are too few or all alike."""
    laws = []
    for quantity, against, law in AGAINST:
        x = np.array([law(one) for one in measured])
        y = np.array([float(one.key_budget if quantity == "D_K*" else one.heads) for one in measured])
        if len(set(x.tolist())) >= 3:
            laws += [Law(quantity, against, True, fit_through_origin(x, y))]
            laws += [Law(quantity, against, False, fit_affine(x, y))]
    return laws
