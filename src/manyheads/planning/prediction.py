"""Prediction: the key budget at which training by the paper's protocol reaches F1 ≥ 0.99, and how sure that is.

Fitted to what training was seen to need (`make_plan_check.py` in docs/, rows in docs/data: regular graphs on Gaussian
rows, m 32–512, d_model 12–96, degrees 1–4). Beyond those sizes the degrees-of-freedom law alone extrapolates: what is
said keeps the ratio to it that it has at their edge, and is marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.bounds import freedom_needed
from manyheads.errors import InputError
from manyheads.planning.split import MOST_HEADS, fills

# ln D_K* is a sum of these times `features`, by least squares. `fill`, the freedom that all relations need in one head
# as a share of d_model², tells which count: up to half one head does, from 1 on it cannot; between, both in part.
ROOM = (0.5, 1.0)
ROOMY = (-1.987, 0.7526, 0.499, -4.6, 1.938, 12.82)  # of 1, ln m, ln degree, degree/d, fill, 1/m
# of 1, ln law, ln fill, m/d, (ln d)², dense = m/d·ln degree, (ln law)²
CROWDED = (2.273, -0.7309, 3.168, 0.02322, 0.3509, 0.06402, -0.1185)
STEEP = 16  # where m/d_model is larger the protocol trains four times longer, and this is added:
LONG = (-0.4627, -0.02385)  # of 1, dense
SPREAD = 0.069  # standard deviation of what is left, each problem predicted from all others
SAFE = (1.3, 2.1)  # spreads above the prediction, with room and crowded: what is recommended
SOFTMAX = 2.2  # the rule softmax, contexts of 16, takes so many times the key budget of max
SOFTMAX_SPREAD = 0.125
CONTEXT = 16  # items in a context, in every run that was fitted to
CALIBRATED = {"items": (32, 512), "d_model": (12, 96), "degree": (1.0, 4.0)}
ADDED = 2.0  # to the law, before ratios to it are taken: below a width of 1 it means little


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """D_K* as it is likely to be measured, with the interval that held nine of ten calibration problems."""

    key_budget: float
    low: float
    high: float
    safe: float  # what is recommended: most problems succeed with so much
    is_extrapolated: bool


def predict(
    *, items: int, relations: int, d_model: int, rule: str = "max", context_length: int | None = None
) -> Prediction:
    """The prediction for a graph of m' relations whose degrees are about even, on rows like random ones.

    The length of contexts does not enter it: another than CONTEXT only marks it as an extrapolation.
    """
    given = {"items": items, "d_model": d_model, "degree": relations / items}
    edge = {name: min(max(given[name], low), high) for name, (low, high) in CALIBRATED.items()}
    near = {
        "items": int(edge["items"]),
        "relations": round(edge["items"] * edge["degree"]),
        "d_model": int(edge["d_model"]),
    }
    beyond = (freedom_law(items=items, relations=relations, d_model=d_model) + ADDED) / (freedom_law(**near) + ADDED)
    centre, spread = beyond * math.exp(np.dot(ROOMY + CROWDED + LONG, features(**near))), SPREAD
    if rule == "softmax":
        centre, spread = centre * SOFTMAX, math.hypot(SPREAD, SOFTMAX_SPREAD)
    crowded = _crowded(**near)
    safe = (1 - crowded) * SAFE[0] + crowded * SAFE[1]
    return Prediction(
        key_budget=centre,
        low=centre * math.exp(-1.645 * spread),
        high=centre * math.exp(1.645 * spread),
        safe=centre * math.exp(safe * spread),
        is_extrapolated=edge != given or context_length not in (None, CONTEXT),
    )


def features(*, items: int, relations: int, d_model: int) -> tuple[float, ...]:
    """What the constants are multiplied with."""
    fill, degree, crowded = (
        _fill(items=items, relations=relations, d_model=d_model),
        relations / items,
        _crowded(items=items, relations=relations, d_model=d_model),
    )
    roomy = (1.0, math.log(items), math.log(degree), degree / d_model, fill, 1 / items)
    law, dense = (
        math.log(freedom_law(items=items, relations=relations, d_model=d_model)),
        items / d_model * math.log(degree),
    )
    many = (1.0, law, math.log(fill), items / d_model, math.log(d_model) ** 2, dense, law**2)
    long = (1.0, dense) if items > STEEP * d_model else (0.0, 0.0)
    return *((1 - crowded) * one for one in roomy), *(crowded * one for one in many), *long


def _crowded(*, items: int, relations: int, d_model: int) -> float:
    """From 0, where one head does, to 1, where it cannot."""
    low, high = map(math.log, ROOM)
    return min(max((math.log(_fill(items=items, relations=relations, d_model=d_model)) - low) / (high - low), 0.0), 1.0)


def _fill(*, items: int, relations: int, d_model: int) -> float:
    return fills(items=items, relations=relations, d_model=d_model, most_heads=1)[1]


def freedom_law(*, items: int, relations: int, d_model: int) -> float:
    """The smallest h·d_k with 2·d·d_k − d_k² ≥ m²·g*(m'/(h·m²)), d_k any positive number: the law without rounding."""
    heads = np.arange(1, MOST_HEADS + 1)
    needed = np.asarray(freedom_needed(items=items, relations=relations, heads=heads))
    heads, needed = heads[needed <= d_model**2], needed[needed <= d_model**2]
    if not heads.size:
        raise InputError(
            f"d_model {d_model} is too narrow for {relations} relations among {items} items: by the "
            f"degrees-of-freedom law not even {MOST_HEADS} heads of full width hold them"
        )
    return float((heads * (d_model - np.sqrt(d_model**2 - needed))).min())
