"""Prediction: the key width at which training by the paper's protocol reaches F1 ≥ 0.99, for each number of heads.

The constants are a regression on measured thresholds: regular graphs on Gaussian rows, with the sizes of `CALIBRATED`.
The module that makes the page plan-check fits them to rows in docs/data. For other sizes the prediction is an
extrapolation: the degrees-of-freedom law, times the ratio of prediction to law at the nearest calibrated sizes.

One yardstick judges every split: the key width that `key_widths` asks for at its number of heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypedDict

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from manyheads.bounds import freedom_needed
from manyheads.errors import InputError
from manyheads.layer.rules import MAX, SOFTMAX, Rule, rule_named

# The logarithm of (key width that training needs / key width of the law) is a weighted sum of the features of
# `features`. Its standard deviation around the prediction is exp(SPREAD[0] + SPREAD[1]·share), where `share` is the
# share of the d_model² degrees of freedom of a full-rank head that each head needs; above STEEP, SPREAD[2] is added.
WEIGHTS = (
    *(-0.8627, 0.1279, 0.2925, 0.1301),
    *(-2.398, 0.1326, 17.8, 0.6867, -0.1488, -3.292),
    *(0.02256, 0.06829, 1.987, -0.02502, -0.4091),
)
SPREAD = (-3.132, 1.436, 0.08741)
RESERVES = np.linspace(0.6, 3.6, 31)  # standard deviations above the prediction; the best of them is recommended
WASTEFUL = 1.35  # a recommended key budget above this multiple of D_K* is too large
DOUBT = 1.3  # times the spread, where it is asked whether the chosen width is enough: single runs fail by chance
CROWDED = 0.008  # times m/d_model, at most STEEP: what ln(width) must have above the threshold to be enough
# errors of the prediction that are equally likely, in spreads
CHANCES = np.array([NormalDist().inv_cdf((number + 0.5) / 60) for number in range(60)])
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)  # head counts among which D_K* is looked for
SHARES = (0.02, 0.97)  # range of the shares in calibration
FULLEST = 0.7  # with a larger share the key width varies too much to be recommended
STEEP = 16  # above this m/d_model the protocol trains four times longer
BUDGET = (1.062, 0.08361)  # measured D_K* over the least predicted h·d_k, and the spread of its logarithm
SOFTMAX_RATIO = 2.28  # key budget of the rule softmax over that of max, in contexts of CONTEXT items
SOFTMAX_SPREAD = 0.15  # standard deviation of the logarithm of that ratio
CONTEXT = 16  # items in a context of every calibration run
CALIBRATED = {"items": (32, 512), "d_model": (12, 96), "degree": (1.0, 4.0)}
LAW_OFFSET = 2.0  # added to the law before a ratio is computed: for very small widths the law is not exact
NINE_OF_TEN = 1.645  # standard deviations on both sides of the mean that hold 9 of 10 normal values
MOST_HEADS = 1024


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The measured key budget D_K* that is likely.

    Attributes:
        key_budget: The prediction.
        low: Lower end of the interval that held 9 of 10 calibration problems.
        high: Upper end of that interval.
        is_extrapolated: Whether a size or the context length lies outside the calibration.
    """

    key_budget: float
    low: float
    high: float
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
class Alternative(Split):
    """Another split that training is predicted to reach, with as much safety as the recommended one.

    Attributes:
        heads: h, at least 1.
        key_width: d_k, at least 1.
        price: Additional key budget, as a share of the recommended one; negative if less is needed.
    """

    price: float


@dataclass(frozen=True, kw_only=True)
class KeyWidths:
    """The key width that training needs, for several numbers of heads; infinite where heads have too little freedom.

    Attributes:
        heads: The numbers of heads.
        shares: The degrees of freedom that each head needs, as a share of the d_model² of a full-rank head.
        likely: The prediction, not rounded.
        safe: The width that is recommended, not rounded: the prediction with a reserve. The reserve is the same number
            of standard deviations for every number of heads.
    """

    heads: Int64[ndarray, " counts"]
    shares: Float64[ndarray, " counts"]
    likely: Float64[ndarray, " counts"]
    safe: Float64[ndarray, " counts"]


class Sizes(TypedDict):
    """Sizes of a problem of the calibration."""

    items: int
    d_model: int
    degree: float


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
    widths = key_widths(items=items, relations=relations, d_model=d_model, rule=rule)
    centre = BUDGET[0] * float((widths.heads * widths.likely).min())
    spread = BUDGET[1] if rule_named(rule) is MAX else math.hypot(BUDGET[1], SOFTMAX_SPREAD)
    given = Sizes(items=items, d_model=d_model, degree=relations / items)
    return Prediction(
        key_budget=centre,
        low=centre * math.exp(-NINE_OF_TEN * spread),
        high=centre * math.exp(NINE_OF_TEN * spread),
        is_extrapolated=_nearest(**given) != given or context_length not in (None, CONTEXT),
    )


def key_widths(
    *, items: int, relations: int, d_model: int, rule: Rule | str = MAX, most_heads: int = MOST_HEADS
) -> KeyWidths:
    """The key width that training needs, for each number of heads.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        rule: How heads are joined, max or softmax.
        most_heads: The largest number of heads.

    Returns:
        The widths for 1 to `most_heads` heads.

    Raises:
        InputError: d_model is too small for the relations.
    """
    heads = np.arange(1, most_heads + 1)
    shares = np.asarray(freedom_needed(items=items, relations=relations, heads=heads)) / d_model**2
    if shares.min() > 1:
        raise _too_narrow(items=items, relations=relations, d_model=d_model)
    near = _nearest(items=items, d_model=d_model, degree=relations / items)
    known = np.clip(shares, *SHARES)
    ratios = features(**near, shares=known) @ WEIGHTS
    here, there = _law_widths(d_model, shares), _law_widths(near["d_model"], known)
    likely = there * np.exp(ratios) * (here + LAW_OFFSET) / (there + LAW_OFFSET)
    spreads = np.exp(SPREAD[0] + SPREAD[1] * known + SPREAD[2] * (near["items"] > STEEP * near["d_model"]))
    if rule_named(rule) is SOFTMAX:
        likely, spreads = likely * SOFTMAX_RATIO, np.hypot(spreads, SOFTMAX_SPREAD)
    every = (
        KeyWidths(heads=heads, shares=shares, likely=likely, safe=likely * np.exp(reserve * spreads))
        for reserve in RESERVES
    )
    excess = CROWDED * min(near["items"] / near["d_model"], STEEP)
    return max(every, key=lambda widths: _chance(widths, spreads, excess, d_model))  # the smallest of equal reserves


def _chance(widths: KeyWidths, spreads: Float64[ndarray, " counts"], excess: float, d_model: int) -> float:
    """The chance that the cheapest split of these safe widths is enough, and not wasteful.

    Too small a reserve fails; too large a reserve wastes key budget. Widths are whole numbers, so the best reserve
    differs from problem to problem: where a step of the width is large, it serves as a reserve.
    """
    chosen = split(widths, d_model=d_model)
    here, heads, likely = chosen.heads - 1, widths.heads, widths.likely
    places = sorted({count - 1 for count in COUNTS if count <= len(heads)} | {here})
    needed = likely[places] * np.exp(CHANCES[:, None] * spreads[places])
    least = (heads[places] * np.where(needed <= d_model, np.maximum(1.0, np.ceil(needed)), np.inf)).min(axis=1)
    is_enough = chosen.key_width >= likely[here] * np.exp(DOUBT * CHANCES * spreads[here] + excess)
    return float((is_enough & (chosen.key_budget <= WASTEFUL * least)).mean())


def features(
    *, items: int, d_model: int, degree: float, shares: Float64[ndarray, " counts"]
) -> Float64[ndarray, "counts features"]:
    """The features whose weights are WEIGHTS.

    Args:
        items: m.
        d_model: Width of the embedding.
        degree: Relations of each item.
        shares: Degrees of freedom that each head needs, as shares of the d_model² of a full-rank head; below 1.

    Returns:
        A row of 15 numbers for each share. Their weighted sum is the logarithm of the key width that training needs
        over that of the law.
    """
    m, d, r = math.log(items), math.log(d_model), math.log(degree)
    law = np.log(1 - np.sqrt(1 - shares))  # of the law's key width over d_model
    crowding, steep = items / d_model, items > STEEP * d_model
    here = (1.0, d**2, 1 / d_model, r, r * m, degree / d_model)
    crowded = (crowding, crowding * r, steep, steep * crowding * r, steep * m)
    columns = (law, law**2, law * d, shares * m, *(np.full_like(shares, value) for value in (*here, *crowded)))
    return np.stack(columns, axis=1)


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
    shares = np.asarray(freedom_needed(items=items, relations=relations, heads=heads)) / d_model**2
    if shares.min() > 1:
        raise _too_narrow(items=items, relations=relations, d_model=d_model)
    return float((heads * _law_widths(d_model, shares)).min())


def split(
    widths: KeyWidths,
    *,
    d_model: int,
    heads: int | None = None,
    key_budget: float = 1.0,
    multiple: int = 1,
    most_heads: int | None = None,
) -> Split:
    """The split with the least key budget, among the safe key widths.

    Args:
        widths: The key widths that training needs.
        d_model: Width of the embedding; no head is wider.
        heads: The number of heads, where it is given; None: the one with the least key budget.
        key_budget: Least D_K of the split.
        multiple: The key width is a multiple of this, as matrix hardware prefers.
        most_heads: Upper limit on the heads; more are taken only where no smaller number is enough.

    Returns:
        The split; of two that cost the same, the one with fewer heads.

    Raises:
        InputError: The given heads are too few.
    """
    wanted = np.maximum(widths.safe, key_budget / widths.heads)
    whole = multiple * np.maximum(1.0, np.ceil(wanted / multiple))
    possible = wanted <= d_model
    if not possible.any():  # the best there is: heads of full width, with enough freedom by the law
        possible, whole = widths.shares <= 1, np.minimum(whole, math.ceil(d_model / multiple) * multiple)
    if heads is not None:
        if not possible[heads - 1]:
            least = int(widths.heads[possible][0])
            few = "1 head is" if heads == 1 else f"{heads} heads are"
            raise InputError(f"{few} too few for these relations in d_model {d_model}: give {least} heads or more")
        return Split(heads=heads, key_width=int(whole[heads - 1]))
    allowed = widths.heads <= (most_heads or widths.heads[-1])
    for chosen in (possible & allowed & (widths.shares <= FULLEST), possible & allowed, possible):
        if chosen.any():
            place = int(np.where(chosen, widths.heads * whole, np.inf).argmin())
            break
    return Split(heads=int(widths.heads[place]), key_width=int(whole[place]))


def alternatives(
    recommended: Split, widths: KeyWidths, *, d_model: int, heads: int | None = None, key_budget: float = 1.0
) -> list[Alternative]:
    """Half and twice the recommended heads, and the best number of heads where the recommended one was given.

    Args:
        recommended: The split to compare with.
        widths: The key widths that training needs.
        d_model: Width of the embedding; no head is wider.
        heads: The number of heads, where it was given.
        key_budget: Least D_K of a split.

    Returns:
        The other splits by the same yardstick, cheapest first. Head counts whose heads are too full are absent.
    """
    counts = {recommended.heads // 2, 2 * recommended.heads} - {0}
    if heads is not None:
        counts.add(split(widths, d_model=d_model, key_budget=key_budget).heads)
    usable = (np.maximum(widths.safe, key_budget / widths.heads) <= d_model) & (widths.shares <= FULLEST)
    possible = {int(count) for count in widths.heads[usable]}
    found = [
        split(widths, d_model=d_model, heads=count, key_budget=key_budget)
        for count in sorted(counts & possible - {recommended.heads})
    ]
    return [
        Alternative(heads=one.heads, key_width=one.key_width, price=one.key_budget / recommended.key_budget - 1)
        for one in sorted(found, key=lambda one: one.key_budget)
    ]


def _nearest(*, items: int, d_model: int, degree: float) -> Sizes:
    """The calibrated sizes nearest to the given ones."""
    low, high = CALIBRATED["degree"]
    near = {
        name: int(min(max(size, CALIBRATED[name][0]), CALIBRATED[name][1]))
        for name, size in (("items", items), ("d_model", d_model))
    }
    return Sizes(items=near["items"], d_model=near["d_model"], degree=min(max(degree, low), high))


def _law_widths(d_model: int, shares: Float64[ndarray, " counts"]) -> Float64[ndarray, " counts"]:
    """The key widths of the degrees-of-freedom law, not rounded; infinite where a full-rank head is not enough."""
    return np.where(shares <= 1, d_model * (1 - np.sqrt(np.maximum(1 - shares, 0.0))), np.inf)


def _too_narrow(*, items: int, relations: int, d_model: int) -> InputError:
    return InputError(
        f"d_model {d_model} is too narrow for {relations} relations among {items} items: by the degrees-of-freedom law "
        f"not even {MOST_HEADS} heads of full width hold them"
    )
