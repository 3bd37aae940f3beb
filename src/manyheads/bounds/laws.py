"""Laws: the key budgets that training needed, and the degrees-of-freedom law. Estimates, not bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import erf, erfcx, ndtr

from manyheads.bounds.arguments import Given, Reals, positive
from manyheads.bounds.shape import Shape
from manyheads.errors import InputError
from manyheads.numbers import check_numbers

HEADS_SLOPE, HEADS_INTERCEPT = 1.65, -6.64  # of the paper's line h* ≈ slope·m/d_model + intercept (Fig. 10)
MAX_HEADS = 4096
NEWTON_STEPS = 2  # from a start that is off by 3e-4
THRESHOLDS = 1025  # values of t in the table of starts
LARGEST_THRESHOLD = 37.5  # where f is about 1e-310, the least number of float64
TINY = 1e-300
SQRT2 = float(np.sqrt(2.0))


def paper_key_budget(*, items: Given, relations: Given, d_model: Given, slope: float) -> Reals:
    """D_K* as the paper measured it: slope·m'·log2 m/d_model (Fig. 3 for permutations, Eq. 32 for r-regular graphs).

    An empirical fit to F1 ≥ 0.99 after the paper's training, on m ≤ 4096; neither a lower nor an upper bound.

    Args:
        items: m, at least 1.
        relations: m', at least 1.
        d_model: Width of the embedding.
        slope: `PERMUTATION_SLOPE` for permutations, `RELATION_SLOPE` for other graphs; `paper_slope`
            of `problem.graph_kinds` chooses it. There is no default: the two slopes differ by a factor of 2.6.

    Returns:
        The key budget, in key dimensions.

    Raises:
        InputError: A size is not positive.
    """
    needed = positive(slope, "slope") * positive(relations, "relations") * np.log2(positive(items, "items"))
    return needed / positive(d_model, "d_model")


def paper_heads(*, items: Given, d_model: Given) -> Reals:
    """h* ≈ 1.65·m/d_model − 6.64, the number of heads that the paper measured (Fig. 10, R² = 0.824), at least 1.

    Args:
        items: m, at least 1.
        d_model: Width of the embedding.

    Returns:
        The number of heads, not rounded.

    Raises:
        InputError: A size is not positive.
    """
    ratio = positive(items, "items") / positive(d_model, "d_model")
    return np.maximum(1.0, HEADS_SLOPE * ratio + HEADS_INTERCEPT)


def constraint_share(positives: Given) -> Reals:
    """g*(f), the degrees of freedom for each constraint when a fraction f of the constraints is positive.

    g*(f) = min over t of f·U(t) + (1 − f)·U(−t), where U(t) = (1 + t²)·Φ(t) + t·φ(t) = E[(t + z)₊²] for a standard
    normal z (docs/reference/laws.md, section 6). The relative error is below 1e-12.

    Args:
        positives: f, above 0 and below 1.

    Returns:
        g*, above 0 and at most ½; g*(f) = g*(1 − f).

    Raises:
        InputError: A fraction is not between 0 and 1.

    >>> [round(float(m * m * constraint_share(1 / m))) for m in (32, 64, 128, 256, 512)]
    [122, 297, 708, 1654, 3808]
    """
    f = np.asarray(positives, dtype=np.float64)
    if not ((f > 0) & (f < 1)).all():
        wrong = f[~((f > 0) & (f < 1))].flat[0]
        raise InputError(f"the fraction of positive constraints lies between 0 and 1, not at {wrong:g}")
    rare = np.minimum(f, 1 - f)  # the fraction 1 − f has the threshold −t and the same g*, so t ≥ 0 is enough
    log_odds = np.log1p(-rare) - np.log(rare)
    t = np.interp(log_odds, _LOG_ODDS, _THRESHOLDS)
    for _ in range(NEWTON_STEPS):
        ratio, ramp = _ramp_below(t)
        # the derivative of the log odds is φ/(E[(−t + z)₊]·E[(t + z)₊])
        t = _in_range(t - (_log_odds(t) - log_odds) * ratio * (t + ramp))
    # at the best t, f·E[(t + z)₊] = (1 − f)·E[(−t + z)₊]: with U(t) = t·E[(t + z)₊] + Φ(t) only the Φ remain
    below = ndtr(-t)
    return np.asarray(rare * (1 - below) + (1 - rare) * below)


def constraint_positives(share: Given) -> Reals:
    """The inverse of `constraint_share`: the fraction f ≤ ½ of positive constraints for which g*(f) is this share.

    The relative error is below 1e-12.

    Args:
        share: g*, above 0. With a share of ½ or more, every fraction has enough freedom.

    Returns:
        f, above 0 and at most ½; ½ where the share is ½ or more.

    Raises:
        InputError: A share is not positive.

    >>> round(float(constraint_positives(constraint_share(0.01))), 12)
    0.01
    """
    wanted = np.minimum(positive(share, "share"), 0.5)
    depth = _depth_of(wanted, 1 - 2 * wanted)
    t = np.interp(depth, _DEPTHS, _THRESHOLDS)
    for _ in range(NEWTON_STEPS):
        _, ramp = _ramp_below(t)
        total = t + 2 * ramp
        # d(depth²)/dt = −g'/g, where −g' = (U(t) − U(−t))·φ/total²
        falling = (t * total + erf(t / SQRT2)) * _density(t) / total**2
        here = _depth(t)
        slope = falling / (2 * np.maximum(_share(t), TINY))
        step = (here - depth) * here / np.maximum(slope, TINY)
        t = _in_range(t - step)
    _, ramp = _ramp_below(t)
    return np.asarray(ramp / (t + 2 * ramp))


def freedom_needed(*, items: Given, relations: Given, heads: Given) -> Reals:
    """m²·g*(m'/(h·m²)), the degrees of freedom that each of h heads needs for its share of the relations.

    Args:
        items: m.
        relations: m', below h·m².
        heads: h.

    Returns:
        Degrees of freedom of one head; a head of rank d_k has 2·d_model·d_k − d_k² of them (`Shape.freedom`).

    Raises:
        InputError: A size is not positive, or the heads have more relations than pairs.
    """
    pairs = positive(items, "items") ** 2
    return pairs * constraint_share(positive(relations, "relations") / (positive(heads, "heads") * pairs))


def freedom_key_width(
    *, items: int, relations: int, d_model: int, heads: int, key_heads: int | None = None
) -> int | None:
    """The smallest d_k with 2·d_model·d_k − d_k² ≥ m²·g*(m'/(h·m²)): each head has the freedom that its share needs.

    An estimate, neither a lower nor an upper bound (docs/reference/laws.md, section 6).

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        heads: h.
        key_heads: Key heads, where query heads share them (`Shape.freedom`); None: as many as heads.

    Returns:
        The key width, or None where not even heads of full rank have enough freedom.

    Raises:
        InputError: A size is not positive, or the key heads do not divide the heads.

    >>> freedom_key_width(items=512, relations=512, d_model=64, heads=2)
    21
    """
    check_numbers(items=items, relations=relations, d_model=d_model, heads=heads)
    needed = float(freedom_needed(items=items, relations=relations, heads=heads))
    if Shape(d_model=d_model, heads=heads, key_width=d_model, key_heads=key_heads).freedom < needed:
        return None
    low, high = 0, d_model  # the freedom rises with the width up to d_model
    while high - low > 1:
        middle = (low + high) // 2
        enough = Shape(d_model=d_model, heads=heads, key_width=middle, key_heads=key_heads).freedom >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high


def freedom_split(
    *, items: int, relations: int, d_model: int, heads: Sequence[int] | None = None
) -> tuple[int, int] | None:
    """The split with the smallest key budget by the degrees-of-freedom law; of equal budgets, the one with fewer heads.

    Args:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        heads: Head counts to choose from; None: 1 to MAX_HEADS.

    Returns:
        (heads, key_width), or None where no head count has enough freedom.

    Raises:
        InputError: A size is not positive.

    >>> freedom_split(items=64, relations=64, d_model=16)
    (3, 5)
    """
    counts = np.arange(1, MAX_HEADS + 1) if heads is None else np.sort(np.array(heads))
    needed = np.asarray(freedom_needed(items=items, relations=relations, heads=counts))
    counts, needed = counts[needed <= d_model**2], needed[needed <= d_model**2]
    if not counts.size:
        return None
    widths = np.maximum(1.0, np.ceil(d_model - np.sqrt(d_model**2 - needed)))  # 2·d·d_k − d_k² = needed, rounded up
    best = int(np.argmin(counts * widths))
    return int(counts[best]), int(widths[best])


# The best threshold t ≥ 0 is found by Newton's method. Two functions of t are inverted, both nearly smooth and
# monotone: the log odds ln((1 − f)/f), and the depth √(−ln(2·g*)), which is nearly linear in t. In a table of
# THRESHOLDS values the start is off by at most 3e-4; each step squares the error.


def _ramp_below(t: Reals) -> tuple[Reals, Reals]:
    """E[(−t + z)₊]/φ(t) and E[(−t + z)₊], for t ≥ 0; erfcx keeps the digits that φ(t) − t·Φ(−t) would lose."""
    ratio = 1 - t * np.sqrt(np.pi / 2) * erfcx(t / SQRT2)
    return ratio, _density(t) * ratio


def _log_odds(t: Reals) -> Reals:
    """ln((1 − f)/f) of the fraction f whose best threshold is t: the ratio of E[(t + z)₊] and E[(−t + z)₊]."""
    ratio, ramp = _ramp_below(t)
    return np.log(t + ramp) + t * t / 2 + np.log(np.sqrt(2 * np.pi)) - np.log(ratio)


def _share(t: Reals) -> Reals:
    """g* of the fraction whose best threshold is t."""
    _, ramp = _ramp_below(t)
    below = ndtr(-t)
    return (ramp * (1 - below) + (t + ramp) * below) / (t + 2 * ramp)


def _depth(t: Reals) -> Reals:
    """√(−ln(2·g*)) of the fraction whose best threshold is t; 1 − 2·g* has a form without cancellation."""
    _, ramp = _ramp_below(t)
    return _depth_of(_share(t), t * erf(t / SQRT2) / (t + 2 * ramp))


def _depth_of(share: Reals, rest: Reals) -> Reals:
    """√(−ln(2·share)), from rest = 1 − 2·share where the share is near ½."""
    return np.sqrt(np.where(share > 0.25, -np.log1p(-np.minimum(rest, 0.5)), -np.log(2 * np.maximum(share, TINY))))


def _in_range(t: Reals) -> Reals:
    return np.clip(t, 0.0, LARGEST_THRESHOLD)


def _density(t: Reals) -> Reals:
    return np.exp(-t * t / 2) / np.sqrt(2 * np.pi)


_THRESHOLDS = np.linspace(0.0, LARGEST_THRESHOLD, THRESHOLDS)
_LOG_ODDS, _DEPTHS = _log_odds(_THRESHOLDS), _depth(_THRESHOLDS)
