"""Judge most pairs in float32, with a proved bound on the error; float64 scores only the pairs that stay undecided.

q̂ and k̂ are the queries and keys as computed in float64, scaled by powers of two so that no number exceeds 1. Scaling
is exact. c and d are q̂ and k̂ cast to float32. With u = 2^-24, a = ‖q̂‖, b = ‖k̂‖ and any order of summation,
    |fl32(c·d) − c·d| ≤ γ·|c||d|,   |c·d − q̂·k̂| ≤ (2u + u²)·a·b,   |fl64(q̂·k̂) − q̂·k̂| ≤ γ64·a·b.
The rule joins these errors of the heads into a bound B on the difference between a pair's scores in float32 and in
float64. So a pair is decided if its float32 score is further from the threshold than B plus its float64 rounding bound.
If the float32 scores of two pairs differ by more than 2B, their order is the same in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float32, Float64, Int
from numpy import ndarray

from manyheads._native import PairJudge
from manyheads.certificate.projection import TINY, Projection, row_blocks
from manyheads.certificate.row_evidence import RowEvidence
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, SUM, UNIT, Rule, gamma
from manyheads.machine import cores
from manyheads.problem.graph import Graph

ADDS_HEADS: Mapping[Rule, bool] = {MAX: False, SUM: True}  # the rules of the native pass, and whether they add
SINGLE = 2.0**-24  # u of float32
SMALLEST = 2.0**-126  # the error of a float32 operation that underflows is smaller, also where subnormals become zero
SLACK = 1 + 2.0**-20  # for the rounding in the bounds themselves, which are float64
THREAD = 1 << 24  # multiply-adds for each thread: with fewer, another thread costs more time than it saves


def judge_mixed(
    layer: Layer,
    graph: Graph,
    projection: Projection,
    bounds: Float64[ndarray, " items"],
    rows: RowEvidence,
    progress: Callable[[int], None],
) -> Int[ndarray, " open"]:
    """Judge the pairs of each source on all cores, and write the rows of the sources that float32 can decide.

    Args:
        layer: The layer.
        graph: The relations.
        projection: The layer's queries and keys.
        bounds: For each source a bound on the rounding errors of its float64 scores.
        rows: Receives the results.
        progress: Called with the number of sources that were judged.

    Returns:
        The other sources, in order. Their pairs need float64.
    """
    items = graph.items
    if layer.rule not in ADDS_HEADS:
        return np.arange(items)
    query_power, key_power = _power(projection.queries), _power(projection.keys)
    power = query_power + key_power
    error, size = score_error(layer.rule, projection, query_power, key_power)
    threshold = float(np.ldexp(layer.threshold, -power))
    # the distance τ − score is rounded: two scores count as equal if their distances may round to one number
    error = np.where(size > 0, error + 4 * UNIT * (abs(threshold) + size), 0)
    reach = (error + np.ldexp(2 * bounds, -power)) * SLACK + SMALLEST
    below, above = _rounded(threshold - reach, -np.inf), _rounded(threshold + reach, np.inf)
    # 2B, and up to B for the rounding of the difference between a float32 score and this width
    width = _rounded(3 * error, np.inf)

    work = items * items * layer.query_budget
    judge = PairJudge(
        projection.queries, projection.keys, math.ldexp(1, -query_power), math.ldexp(1, -key_power), layer.threshold,
        ADDS_HEADS[layer.rule], graph.row_starts, graph.targets, max(1, min(cores(), work // THREAD)),
    )  # fmt: skip
    left: list[ndarray] = []
    judged = 0
    for start, stop in row_blocks(items, max(1, work // items >> 19)):
        part = slice(start, stop)
        low, high, least, *counts, is_open = judge.judge(start, below[part], above[part], width[part], 2 * bounds[part])
        rows.set_clear(part, bounds[part], low, high, least, *(count.astype(np.int64) for count in counts))
        left.append(start + np.flatnonzero(is_open))
        judged += stop - start - len(left[-1])
        progress(judged)
    return np.concatenate(left)


def score_error(
    rule: Rule, projection: Projection, query_power: int, key_power: int
) -> tuple[Float64[ndarray, " items"], Float64[ndarray, " items"]]:
    """For each source a bound on |float32 score − float64 score| over all targets, and on the size of the scores.

    Args:
        rule: A rule of ADDS_HEADS.
        projection: The queries and keys.
        query_power: The queries were divided by 2 to this power.
        key_power: The same for the keys.

    Returns:
        Both in the scale of the float32 scores. The bound is at least 2u times the size.
    """
    width, heads = projection.key_width, projection.heads
    a = np.ldexp(projection.query_norms, -query_power)
    b = np.ldexp(projection.key_norms, -key_power).max(axis=1, keepdims=True)
    size = a * b * projection.slack
    cast, sums = (2 + SINGLE) * SINGLE, gamma(width, SINGLE) * (1 + SINGLE) ** 2
    lost = 16 * (width + heads) * SMALLEST
    single = (cast + sums) * size + lost
    double = gamma(width + heads) * size + np.ldexp((width + 8) * TINY, -query_power - key_power)
    both = rule.reduced_error_bound(single, size + single, SINGLE) + rule.error_bound(double)
    return both * SLACK, size.sum(axis=0)


def _power(numbers: Float64[ndarray, "heads n k"]) -> int:
    """An exponent e such that no number, divided by 2^e, exceeds 1."""
    largest = max(float(numbers.max()), -float(numbers.min()))
    return max(math.frexp(largest)[1], -1000)


def _rounded(numbers: Float64[ndarray, " n"], towards: float) -> Float32[ndarray, " n"]:
    """The numbers in float32, rounded towards −∞ or ∞; NaN, from bounds that overflow, becomes that infinity."""
    single = numbers.astype(np.float32)
    wrong = single > numbers if towards < 0 else single < numbers
    moved = np.where(wrong, np.nextafter(single, np.float32(towards)), single)
    return np.where(np.isnan(numbers), np.float32(towards), moved)
