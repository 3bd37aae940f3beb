"""Laws: what training was seen to need, and the degrees of freedom that a layer has; estimates, not bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from manyheads.bounds.arguments import Given, Reals, positive
from manyheads.bounds.channel_cost import Shape
from manyheads.errors import InputError
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE

MAX_HEADS = 4096


def paper_key_budget(items: Given, relations: Given, d_model: Given, *, slope: float = PERMUTATION_SLOPE) -> Reals:
    """D_K* as the paper measured it: 1.19·m·log2 m/d (permutations, Fig. 3) or 0.46·m'·log2 m/d (r-regular, Eq. 32).

    `slope` is the registry's constant for the kind of graph (`problem.graph_kinds.paper_slope`).

    An empirical fit to F1 ≥ 0.99 after the paper's training, on m ≤ 4096; neither a lower nor an upper bound.
    """
    return slope * positive(relations, "relations") * np.log2(positive(items, "items")) / positive(d_model, "d_model")


def paper_heads(items: Given, d_model: Given) -> Reals:
    """h* ≈ 1.65·m/d_model − 6.64 (Fig. 10, R² = 0.824), at least 1."""
    return np.maximum(1.0, 1.65 * positive(items, "items") / positive(d_model, "d_model") - 6.64)


def constraint_share(positives: Given) -> Reals:
    """g*(f): degrees of freedom one needs a constraint when a fraction f of the constraints is positive.

    g*(f) = min over t of f·U(t) + (1 − f)·U(−t), U(t) = (1 + t²)Φ(t) + tφ(t) (laws.md, section 6).

    >>> [round(float(m * m * constraint_share(1 / m))) for m in (32, 64, 128, 256, 512)]
    [122, 297, 708, 1654, 3808]
    """
    f = np.asarray(positives, dtype=np.float64)
    if not ((f > 0) & (f < 1)).all():
        wrong = f[~((f > 0) & (f < 1))].flat[0]
        raise InputError(f"the fraction of positive constraints lies between 0 and 1, not at {wrong:g}")
    # f·U'(t) = (1 − f)·U'(−t): the left side rises with t, the right side falls. After 34 halvings t is off by 4e-9;
    # at its minimum g* is flat, so that the square of it counts
    low, high = np.full(f.shape, -38.0), np.full(f.shape, 38.0)
    for _ in range(34):
        t = (low + high) / 2
        falling = f * _ramp(t) < (1 - f) * _ramp(-t)
        low, high = np.where(falling, t, low), np.where(falling, high, t)
    return f * _square(t) + (1 - f) * _square(-t)


def constraint_positives(share: Given) -> Reals:
    """The inverse of `constraint_share`: the fraction f ≤ ½ of positive constraints that needs so much of freedom.

    At the best threshold t, f = U'(−t)/(U'(t) + U'(−t)), so both f and g* fall as t grows from 0.

    >>> round(float(constraint_positives(constraint_share(0.01))), 12)
    0.01
    """
    wanted = positive(share, "share")
    low, high = np.zeros(wanted.shape), np.full(wanted.shape, 38.0)
    for _ in range(60):
        t = (low + high) / 2
        f = _ramp(-t) / (_ramp(t) + _ramp(-t))
        too_much = f * _square(t) + (1 - f) * _square(-t) > wanted
        low, high = np.where(too_much, t, low), np.where(too_much, high, t)
    return np.where(wanted >= 0.5, 0.5, f)


def freedom_needed(items: Given, relations: Given, heads: Given) -> Reals:
    """m²·g*(m'/(h·m²)), the degrees of freedom that each of h heads needs for its share of the relations."""
    pairs = positive(items, "items") ** 2
    return pairs * constraint_share(positive(relations, "relations") / (positive(heads, "heads") * pairs))


def freedom_key_width(
    items: int, relations: int, d_model: int, heads: int, *, key_heads: int | None = None
) -> int | None:
    """The key width at which `heads` heads have as many degrees of freedom as their share of the relations needs.

    The smallest d_k with 2·d·d_k − d_k² ≥ m²·g*(m'/(h·m²)), or None where not even full rank has enough
    (laws.md, section 6: an estimate, neither a lower nor an upper bound). With fewer key heads, d_k follows from the
    freedom that `Shape` counts.

    >>> [freedom_key_width(m, m, d, h) for m, d, h in ((64, 16, 2), (128, 32, 1), (256, 32, 4), (512, 64, 2))]
    [8, 15, 11, 21]
    """
    needed = float(freedom_needed(items, relations, heads))
    if Shape(d_model, heads, d_model, key_heads).freedom < needed:
        return None
    low, high = 0, d_model  # the freedom rises with the width up to d_model
    while high - low > 1:
        middle = (low + high) // 2
        enough = Shape(d_model, heads, middle, key_heads).freedom >= needed
        low, high = (low, middle) if enough else (middle, high)
    return high


def freedom_split(
    items: int, relations: int, d_model: int, *, heads: Sequence[int] | None = None
) -> tuple[int, int] | None:
    """(heads, key_width) with the smallest key budget by the law, of those head counts; ties go to fewer heads.

    None where none of them, by default 1 to MAX_HEADS, has freedom enough.

    >>> [h * w for h, w in (freedom_split(64, 64, 16), freedom_split(256, 256, 32))]
    [15, 42]
    """
    counts = np.arange(1, MAX_HEADS + 1) if heads is None else np.sort(np.array(heads))
    needed = np.asarray(freedom_needed(items, relations, counts))
    counts, needed = counts[needed <= d_model**2], needed[needed <= d_model**2]
    if not counts.size:
        return None
    widths = np.maximum(1.0, np.ceil(d_model - np.sqrt(d_model**2 - needed)))  # 2·d·d_k − d_k² = needed, rounded up
    best = int(np.argmin(counts * widths))
    return int(counts[best]), int(widths[best])


def _square(t: Reals) -> Reals:
    """U(t) = E[(t + z)₊²] for a standard normal z."""
    return (1 + t * t) * ndtr(t) + t * _density(t)


def _ramp(t: Reals) -> Reals:
    """U'(t)/2 = E[(t + z)₊]."""
    return t * ndtr(t) + _density(t)


def _density(t: Reals) -> Reals:
    return np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
