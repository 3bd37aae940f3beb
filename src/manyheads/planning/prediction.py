"""Prediction: the key budget at which training by the paper's protocol reaches F1 ≥ 0.99, and its split into heads.

The constants are a regression on measured thresholds: regular graphs on Gaussian rows, with the sizes of `CALIBRATED`.
The module that makes the page plan-check fits them to rows in docs/data. For other sizes the prediction is an
extrapolation: the degrees-of-freedom law, times the ratio of prediction to law at the nearest calibrated sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyheads.bounds import Shape, freedom_needed
from manyheads.bounds.inverse import relations_by_freedom
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, SOFTMAX, Rule, rule_named

# ln D_K* is a weighted sum of features, fitted by least squares. `fill` is the share of the d_model² degrees of freedom
# of a full-rank head that all relations together need. Below ONE_HEAD_FILL[0] one head suffices, and the features of
# ROOMY count. Above ONE_HEAD_FILL[1] one head cannot hold all relations, and those of CROWDED count. Between the two
# values both count, with weights that are linear in ln fill.
ONE_HEAD_FILL = (0.5, 1.0)
ROOMY = (-1.987, 0.7526, 0.499, -4.6, 1.938, 12.82)  # weights of 1, ln m, ln degree, degree/d_model, fill, 1/m
# weights of 1, ln law, ln fill, m/d_model, (ln d_model)², dense = m/d_model·ln degree, (ln law)²
CROWDED = (2.273, -0.7309, 3.168, 0.02322, 0.3509, 0.06402, -0.1185)
STEEP = 16  # above this m/d_model the protocol trains four times longer, and the features of LONG are added
LONG = (-0.4627, -0.02385)  # weights of 1, dense
SPREAD = 0.069  # standard deviation of ln D_K* around the prediction, each problem predicted from all others
SAFE = (1.3, 2.1)  # standard deviations above the prediction that are recommended: with ROOMY, with CROWDED
SOFTMAX_RATIO = 2.2  # key budget of the rule softmax over that of max, in contexts of CONTEXT items
SOFTMAX_SPREAD = 0.125  # standard deviation of the logarithm of that ratio
CONTEXT = 16  # items in a context of every calibration run
CALIBRATED = {"items": (32, 512), "d_model": (12, 96), "degree": (1.0, 4.0)}
LAW_OFFSET = 2.0  # added to the law before a ratio is computed: for very small budgets the law is not exact
NINE_OF_TEN = 1.645  # standard deviations on both sides of the mean that hold 9 of 10 normal values

# Share of a full-rank head's freedom that each head needs, at the head counts that needed the least key budget in
# calibration. A head near full rank (share 1) uses its width badly; with a small share there are too many heads.
BEST_FILL = 0.42
GOOD_FILLS = (0.3, 0.5)
MOST_HEADS = 1024


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The measured key budget D_K* that is likely.

    Attributes:
        key_budget: The prediction.
        low: Lower end of the interval that held 9 of 10 calibration problems.
        high: Upper end of that interval.
        safe: The recommended key budget. Most problems succeed with this budget.
        is_extrapolated: Whether a size or the context length lies outside the calibration.
    """

    key_budget: float
    low: float
    high: float
    safe: float
    is_extrapolated: bool


@dataclass(frozen=True, kw_only=True)
class Split:
    """A key budget as a number of heads and their width.

    Attributes:
        heads: h, at least 1.
        key_width: d_k, at least 1.
    """

    heads: int
    key_width: int

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """The recommended key budget in another number of heads.

    Attributes:
        heads: Number of heads.
        key_width: Width of each head.
        relations: Relations that fit by the degrees-of-freedom law.
        loss: Share of relations lost against the recommended split; negative if more relations fit.
    """

    heads: int
    key_width: int
    relations: int
    loss: float


def predict(
    *, items: int, relations: int, d_model: int, rule: Rule | str = MAX, context_length: int | None = None
) -> Prediction:
    """Predict the key budget for graphs whose degrees are about even, on rows like random ones.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        rule: How heads are joined, max or softmax.
        context_length: Items in a context. It does not change the numbers: a length other than CONTEXT only marks the
            prediction as an extrapolation.

    Returns:
        The prediction with its interval.

    Raises:
        InputError: d_model is too small for the relations.
    """
    given = {"items": items, "d_model": d_model, "degree": relations / items}
    nearest = {name: min(max(given[name], low), high) for name, (low, high) in CALIBRATED.items()}
    near = {
        "items": int(nearest["items"]),
        "relations": round(nearest["items"] * nearest["degree"]),
        "d_model": int(nearest["d_model"]),
    }
    here = freedom_law(items=items, relations=relations, d_model=d_model)
    beyond = (here + LAW_OFFSET) / (freedom_law(**near) + LAW_OFFSET)
    centre, spread = beyond * math.exp(np.dot(ROOMY + CROWDED + LONG, features(**near))), SPREAD
    if rule_named(rule) is SOFTMAX:
        centre, spread = centre * SOFTMAX_RATIO, math.hypot(SPREAD, SOFTMAX_SPREAD)
    crowded = _crowding(**near)
    safe = (1 - crowded) * SAFE[0] + crowded * SAFE[1]
    return Prediction(
        key_budget=centre,
        low=centre * math.exp(-NINE_OF_TEN * spread),
        high=centre * math.exp(NINE_OF_TEN * spread),
        safe=centre * math.exp(safe * spread),
        is_extrapolated=nearest != given or context_length not in (None, CONTEXT),
    )


def features(*, items: int, relations: int, d_model: int) -> tuple[float, ...]:
    """The features whose weights are ROOMY, CROWDED and LONG, in this order.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.

    Returns:
        15 numbers; ln D_K* is their sum, each times its weight.

    Raises:
        InputError: d_model is too small for the relations.
    """
    sizes = {"items": items, "relations": relations, "d_model": d_model}
    fill, degree, crowded = _fill(**sizes), relations / items, _crowding(**sizes)
    roomy = (1.0, math.log(items), math.log(degree), degree / d_model, fill, 1 / items)
    law, dense = math.log(freedom_law(**sizes)), items / d_model * math.log(degree)
    many = (1.0, law, math.log(fill), items / d_model, math.log(d_model) ** 2, dense, law**2)
    long = (1.0, dense) if items > STEEP * d_model else (0.0, 0.0)
    return *((1 - crowded) * value for value in roomy), *(crowded * value for value in many), *long


def freedom_law(*, items: int, relations: int, d_model: int) -> float:
    """The smallest h·d_k with 2·d_model·d_k − d_k² ≥ m²·g*(m'/(h·m²)): the law with widths that need not be whole.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.

    Returns:
        The key budget, over 1 to MOST_HEADS heads.

    Raises:
        InputError: Not even MOST_HEADS heads of full width have enough degrees of freedom.
    """
    heads = np.arange(1, MOST_HEADS + 1)
    needed = np.asarray(freedom_needed(items=items, relations=relations, heads=heads))
    heads, needed = heads[needed <= d_model**2], needed[needed <= d_model**2]
    if not heads.size:
        raise InputError(
            f"d_model {d_model} is too narrow for {relations} relations among {items} items: by the "
            f"degrees-of-freedom law not even {MOST_HEADS} heads of full width hold them"
        )
    return float((heads * (d_model - np.sqrt(d_model**2 - needed))).min())


def fills(*, items: int, relations: int, d_model: int, most_heads: int = MOST_HEADS) -> dict[int, float]:
    """The degrees of freedom that each head needs, as a share of the d_model² of a full-rank head.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        most_heads: The largest head count.

    Returns:
        The share for each head count from 1 to `most_heads`.
    """
    heads = np.arange(1, most_heads + 1)
    shares = np.asarray(freedom_needed(items=items, relations=relations, heads=heads)) / d_model**2
    return dict(zip(heads.tolist(), shares.tolist(), strict=True))


def split(
    *, items: int, relations: int, d_model: int, key_budget: float, multiple: int = 1, most_heads: int | None = None
) -> Split:
    """The cheapest split with at least this key budget, among the head counts that were good in calibration.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding; no head is wider.
        key_budget: D_K that the split must reach.
        multiple: The key width is a multiple of this, as matrix hardware prefers.
        most_heads: Upper limit on the heads.

    Returns:
        The split.
    """
    shares = fills(items=items, relations=relations, d_model=d_model)
    good = [heads for heads, share in shares.items() if GOOD_FILLS[0] <= share <= GOOD_FILLS[1]]
    if not good:  # one head needs less than the range, or two neighbouring head counts lie on both sides of it
        good = [min(shares, key=lambda heads: (abs(shares[heads] - BEST_FILL), heads))]
    good = [heads for heads in good if heads * d_model >= key_budget] or [math.ceil(key_budget / d_model)]
    good = [heads for heads in good if most_heads is None or heads <= most_heads] or [most_heads or 1]
    choices = [Split(heads=heads, key_width=_width(key_budget / heads, multiple)) for heads in good]
    return min(choices, key=lambda choice: (choice.key_budget, abs(shares.get(choice.heads, 0.0) - BEST_FILL)))


def alternatives(recommended: Split, *, items: int, d_model: int) -> list[Alternative]:
    """The same key budget in half and in twice the heads, judged by the degrees-of-freedom law.

    Args:
        recommended: The split to compare with.
        items: m.
        d_model: Width of the embedding.

    Returns:
        One alternative for each of the two head counts; a single head has no half.
    """
    shapes = [
        Shape(d_model=d_model, heads=heads, key_width=max(1, recommended.key_budget // heads))
        for heads in (recommended.heads // 2, recommended.heads, 2 * recommended.heads)
        if heads >= 1
    ]
    relations = {shape: relations_by_freedom(shape, items=items) for shape in shapes}
    here = next(count for shape, count in relations.items() if shape.heads == recommended.heads)
    return [
        Alternative(
            heads=shape.heads,
            key_width=shape.key_width,
            relations=count,
            loss=1 - count / here if here else 0.0,
        )
        for shape, count in relations.items()
        if shape.heads != recommended.heads
    ]


def _crowding(*, items: int, relations: int, d_model: int) -> float:
    """The weight of CROWDED: 0 where one head suffices, 1 where one head cannot hold all relations."""
    low, high = map(math.log, ONE_HEAD_FILL)
    fill = _fill(items=items, relations=relations, d_model=d_model)
    return min(max((math.log(fill) - low) / (high - low), 0.0), 1.0)


def _fill(*, items: int, relations: int, d_model: int) -> float:
    return fills(items=items, relations=relations, d_model=d_model, most_heads=1)[1]


def _width(width: float, multiple: int) -> int:
    return max(multiple, -int(-width // multiple) * multiple)
