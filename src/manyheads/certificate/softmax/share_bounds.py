"""Sound bounds under softmax: every head meets its own worst context, so no single context can be worse."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray
from scipy.special import expit

from manyheads.certificate.projection import Projection
from manyheads.layer.rules import UNIT


def softmax_rounding(projection: Projection, length: int) -> float:
    """How far any computed score or bound can lie from the exact one, in contexts of at most this length.

    An error ε on every logit of a head moves its share p of the attention by at most 2p(1−p)·ε ≤ ε/2. To the error of
    the logits themselves come about ℓ + 8 roundings on the way through logarithms and exponentials of numbers up to
    the largest logit, and as many on the way through sums and quotients, none of which exceeds a few times h.
    """
    heads, root = projection.heads, np.sqrt(projection.key_width)
    largest = projection.query_norms * projection.key_norms.max(axis=1, keepdims=True) / root
    logit_error = projection.row_errors() / root + 4 * UNIT * largest
    on_the_way = (length + 8) * UNIT * (2 * largest + np.log(projection.items) + 8)
    arithmetic = 8 * heads * (length + heads + 16) * UNIT
    return float((logit_error + on_the_way).sum(axis=0).max() / 2 * projection.slack + arithmetic)


def score_bounds(
    logits: Float64[ndarray, "heads rows items"], sources: Int[ndarray, " rows"], free: int, *, largest: bool
) -> Float64[ndarray, "rows items"]:
    """Bounds on the score of every pair over all contexts with `free` items besides the source and another target.

    The largest rivals of each head give a lower bound, the smallest an upper bound.
    """
    rows = np.arange(len(sources))
    rivals = extreme_sums(logits, sources, free, largest=largest)
    with_source = np.logaddexp(rivals, logits[:, rows, sources][:, :, None])  # the source's own logit is forced …
    with_source[:, rows, sources] = rivals[:, rows, sources]  # … and is the pair's own where it is its own target
    return expit(logits - with_source).sum(axis=0)


def extreme_sums(
    logits: Float64[ndarray, "heads rows items"], sources: Int[ndarray, " rows"], free: int, *, largest: bool
) -> Float64[ndarray, "heads rows items"]:
    """For every target the log Σ exp of the `free` largest (or smallest) logits, its own and the source's left out.

    Where the target is the source itself, one more item is free.
    """
    rows = np.arange(len(sources))
    order = -logits if largest else logits.copy()
    order[:, rows, sources] = np.inf  # never among the chosen: at least free + 1 other items exist
    chosen = np.argpartition(order, free, axis=2)[:, :, : free + 1]  # the last of them is the runner-up
    values = np.take_along_axis(logits, chosen, axis=2)
    before = np.logaddexp.accumulate(values, axis=2)
    after = np.logaddexp.accumulate(values[:, :, ::-1], axis=2)[:, :, ::-1]

    nothing = np.full((*values.shape[:2], 1), -np.inf)
    sums = np.repeat(before[:, :, free - 1 : free] if free else nothing, logits.shape[2], axis=2)
    # a target among the chosen leaves its place to the runner-up: what stands before it and what stands after it
    without = np.logaddexp(np.concatenate([nothing, before], axis=2)[:, :, :free], after[:, :, 1:])
    np.put_along_axis(sums, chosen[:, :, :free], without, axis=2)
    sums[:, rows, sources] = before[:, :, free]
    return sums
