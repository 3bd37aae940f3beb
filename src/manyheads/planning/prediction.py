"""Prediction: the key budget at which training by the paper's protocol reaches F1 ≥ 0.99, and how sure that is.

The degrees-of-freedom law, corrected by what training was seen to need on problems of its own (`make_plan_check.py
calibrate` in docs/, rows in docs/data/plan-calibration.csv): regular graphs on Gaussian rows, m 32–512, d_model 12–96,
degrees 1–4. Outside that range it is an extrapolation, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.bounds import freedom_needed
from manyheads.errors import InputError
from manyheads.training.limits import LONG as LONG_STEPS
from manyheads.training.limits import step_limit

# ln D_K* = ln(law + 2) + A + B·ln m + C·ln d + E/d + F·max(0, ln fill), a least-squares fit; law and fill as below
A, B, C, E, F = -2.37, 0.094, 0.430, 12.14, 0.295
ADDED = 2.0
SPREAD = 0.095  # standard deviation of what is left, each problem predicted from all others
LONG = 0.63  # where m/d_model > 16 or m > 512 the protocol trains four times longer, and so much of it is enough
SOFTMAX = 2.2  # the rule softmax, contexts of 16, takes so many times the key budget of max
SOFTMAX_SPREAD = 0.15
CALIBRATED = {"items": (32, 512), "d_model": (12, 96), "degree": (1.0, 4.0)}
SAFE = 1.6  # spreads above the prediction: what is recommended
MOST_HEADS = 1024


@dataclass(frozen=True)
class Prediction:
    """D_K* as it is likely to be measured, with the interval that held nine of ten calibration problems."""

    key_budget: float
    low: float
    high: float
    safe: float  # what is recommended: most problems succeed with so much
    is_extrapolated: bool


def predict(items: int, relations: int, d_model: int, *, rule: str = "max") -> Prediction:
    """The prediction for a graph of m' relations whose degrees are about even, on rows like random ones."""
    law = freedom_law(items, relations, d_model)
    fill = float(freedom_needed(items, relations, 1)) / d_model**2
    # beyond the calibrated sizes the correction stays what it is at their edge: the law alone extrapolates
    m, d = _clamped(items, "items"), _clamped(d_model, "d_model")
    correction = A + B * math.log(m) + C * math.log(d) + E / d + F * max(0.0, math.log(fill))
    centre, spread = (law + ADDED) * math.exp(correction), SPREAD
    if step_limit(items, d_model) >= LONG_STEPS:
        centre *= LONG
    if rule == "softmax":
        centre, spread = centre * SOFTMAX, math.hypot(SPREAD, SOFTMAX_SPREAD)
    given = {"items": items, "d_model": d_model, "degree": relations / items}
    return Prediction(
        key_budget=centre,
        low=centre * math.exp(-1.645 * spread),
        high=centre * math.exp(1.645 * spread),
        safe=centre * math.exp(SAFE * spread),
        is_extrapolated=any(not low <= given[name] <= high for name, (low, high) in CALIBRATED.items()),
    )


def _clamped(value: int, name: str) -> float:
    low, high = CALIBRATED[name]
    return float(min(max(value, low), high))


def freedom_law(items: int, relations: int, d_model: int) -> float:
    """The smallest h·d_k with 2·d·d_k − d_k² ≥ m²·g*(m'/(h·m²)), d_k any positive number: the law without rounding."""
    heads = np.arange(1, MOST_HEADS + 1)
    needed = np.asarray(freedom_needed(items, relations, heads))
    heads, needed = heads[needed <= d_model**2], needed[needed <= d_model**2]
    if not heads.size:
        raise InputError(
            f"d_model {d_model} is too narrow for {relations} relations among {items} items: by the "
            f"degrees-of-freedom law not even {MOST_HEADS} heads of full width hold them"
        )
    return float((heads * (d_model - np.sqrt(d_model**2 - needed))).min())
