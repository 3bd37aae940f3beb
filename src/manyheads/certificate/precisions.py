"""Whether a certificate also holds for the scores that PyTorch computes in float32 and in bfloat16.

A certificate speaks of exact scores. PyTorch casts the rows, the weights and the threshold τ to a number type, and
rounds in every step. Here is a bound on the distance of its scores from the exact ones. It holds under these
assumptions:

- The cast rounds to nearest. float64 becomes bfloat16 by way of float32.
- A product of matrices adds up in any order. float32: every operation rounds to nearest (no TF32). bfloat16: sums are
  in float32, where an operation is off by at most 2^-22 of its result (a sum may truncate), and each element is rounded
  to bfloat16 once, at the end (`allow_bf16_reduced_precision_reduction` is off).
- Heads are added up in the type itself. softmax computes in float32 inside, with functions that are off by at most
  4 units, and rounds its result to the type once.
- Subnormal numbers may be replaced by zero, anywhere.

With u the type's unit, q the exact query, q̂ the query of the cast layer and q̃ the query as computed:
    ‖q̃ − q‖ ≤ ‖q̂ − q‖ + u·‖q̂‖ + (1 + u)·γ·‖|x||W|‖.
For float32 the first term is at most 2u·‖|x||W|‖. bfloat16 needs a better bound: the cast is known, so q̂ is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Float32, Float64
from numpy import ndarray

from manyheads.certificate.pairwise import row_scores, source_blocks
from manyheads.certificate.projection import Projection, row_blocks
from manyheads.layer.layer import Layer
from manyheads.layer.rules import gamma
from manyheads.problem.problem import Problem

Precision = Literal["float64", "float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
SINGLE = 2.0**-24  # u of float32
SMALLEST = 2.0**-126  # the smallest normal number of both types
LARGEST = 2.0**126  # no partial sum may be larger; both types reach nearly 2^128
FEW_ROWS, SHARE = 16, 64  # at most 16 sources, or 1/64 of them, have their pairs judged one by one
SLACK = 1 + 2.0**-20  # for the rounding in the bounds themselves, which are float64


@dataclass(frozen=True)
class NumberType:
    """A type of numbers of PyTorch.

    Attributes:
        name: Its name in PyTorch.
        unit: u, the relative error of rounding to nearest.
        sum_unit: The relative error of one operation within a product of matrices.
    """

    name: Precision
    unit: float
    sum_unit: float


FLOAT32 = NumberType("float32", SINGLE, SINGLE)
BFLOAT16 = NumberType("bfloat16", 2.0**-8, 2.0**-22)


@dataclass(frozen=True, eq=False)
class ReducedScores:
    """Bounds on the queries and keys that PyTorch computes in a number type.

    `query_sizes` ≥ ‖q̃_i‖ and ‖q_i‖; `query_errors` ≥ ‖q̃_i − q_i‖; the same for the keys.
    """

    type: NumberType
    key_width: int
    query_sizes: Float64[ndarray, "heads items"]
    key_sizes: Float64[ndarray, "heads items"]
    query_errors: Float64[ndarray, "heads items"]
    key_errors: Float64[ndarray, "heads items"]
    in_range: bool  # whether no number overflows

    def score_errors(self, source: int) -> tuple[Float64[ndarray, "heads items"], Float64[ndarray, "heads items"]]:
        """For every head and every target of a source, bounds on the error and on the size of the score."""
        a, alpha = self.query_sizes[:, source, None], self.query_errors[:, source, None]
        return self._bounds(a, alpha, self.key_sizes, self.key_errors)

    def row_errors(self) -> tuple[Float64[ndarray, "heads items"], Float64[ndarray, "heads items"]]:
        """The same for every source and its worst target."""
        b, beta = self.key_sizes.max(axis=1, keepdims=True), self.key_errors.max(axis=1, keepdims=True)
        return self._bounds(self.query_sizes, self.query_errors, b, beta)

    def _bounds(self, a: ndarray, alpha: ndarray, b: ndarray, beta: ndarray) -> tuple[ndarray, ndarray]:
        # |s̃ − q̃·k̃| ≤ u·|s̃| + γ·|q̃||k̃|, |q̃·k̃ − q·k| ≤ |q̃·(k̃ − k)| + |(q̃ − q)·k|
        unit, width = self.type.unit, self.key_width
        rounding = unit + (1 + unit) * gamma(width, self.type.sum_unit)
        lost = 4 * width * SMALLEST * (1 + a + b)
        errors = (rounding * a * b + a * beta + alpha * b + lost) * SLACK
        return errors, a * b * SLACK + errors


def proved_precisions(
    layer: Layer,
    problem: Problem,
    projection: Projection,
    longest: int | None,
    distances: Float64[ndarray, " items"],
) -> dict[str, bool]:
    """Whether PyTorch recognises the graph in each number type, for a layer that holds it.

    Args:
        layer: A layer whose certificate holds.
        problem: The graph and the rows.
        projection: The layer's queries and keys.
        longest: For the rule softmax: the greatest length of a context; None for rules blind to the context.
        distances: For each source a proved bound: the exact scores of all its pairs are further from the threshold.

    Returns:
        True where it is proved. False says nothing: the bounds may be too wide.
    """
    proved: dict[str, bool] = {}
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for type in (FLOAT32, BFLOAT16):
            # the bound for bfloat16 is wider and takes more work
            proved[type.name] = all(proved.values()) and _proves(
                layer, reduce_scores(type, layer, problem, projection), projection, longest, distances
            )
    return proved


def reduce_scores(type: NumberType, layer: Layer, problem: Problem, projection: Projection) -> ReducedScores:
    """Bounds on the queries and keys that PyTorch computes in a number type.

    Args:
        type: The number type.
        layer: The layer.
        problem: The problem, for its rows.
        projection: The layer's queries and keys of these rows.
    """
    rows = problem.rows
    longest_number = max(float(np.abs(part).max()) for part in (rows, layer.query, layer.key))
    # each of d products, d sums, d weights and d numbers of a row may be replaced by zero
    lost = 4 * layer.d_model * math.sqrt(layer.key_width) * SMALLEST * (1 + longest_number)
    a, alpha, query_terms = _side(
        type, layer.query, rows, projection.queries, projection.query_norms, projection.query_errors, lost
    )
    first = slice(None, None, layer.heads // layer.key_heads)  # the first head of each key head
    keys, key_norms, key_errors = projection.keys.swapaxes(1, 2), projection.key_norms, projection.key_errors
    *key_bounds, key_terms = _side(type, layer.key, rows, keys, key_norms[first], key_errors[first], lost)
    b, beta = (layer.by_head(bound) for bound in key_bounds)
    # by Cauchy and Schwarz every partial sum of q̃·k̃ is within a·b; heads are added up
    reach = float((a.max(axis=1) * b.max(axis=1)).sum()) + query_terms + key_terms + longest_number
    in_range = bool(4 * (reach + abs(layer.threshold)) < LARGEST)
    return ReducedScores(type, layer.key_width, a, b, alpha, beta, in_range)


def _side(
    type: NumberType,
    weights: Float[ndarray, "heads d_model key_width"],
    rows: Float[ndarray, "items d_model"],
    vectors: Float64[ndarray, "heads items key_width"],
    norms: Float64[ndarray, "heads items"],
    errors: Float64[ndarray, "heads items"],
    lost: float,
) -> tuple[Float64[ndarray, "heads items"], Float64[ndarray, "heads items"], float]:
    """The sizes and errors of the queries, or of the keys, and a bound on all partial sums of x·W."""
    d_model, unit = weights.shape[1], type.unit
    terms = errors / gamma(d_model) * SLACK  # ≥ ‖|x||W|‖, see `Projection`
    twice = (1 + unit) ** 2 * (1 + SINGLE) ** 2  # |x̂||Ŵ| ≤ twice·|x||W|
    cast = (twice - 1) * terms
    if type is BFLOAT16:  # the computed q̂ − q is off by the rounding errors of both: q̂ in float32, q in float64
        computed = _cast_distances(weights, rows, vectors) + errors + gamma(d_model + 2, SINGLE) * twice * terms + lost
        cast = np.minimum(cast, computed)
    exact = norms + errors
    in_sums = gamma(d_model, type.sum_unit) * twice * terms
    total = (cast + unit * (exact + cast) + (1 + unit) * in_sums + lost) * SLACK
    return (exact + total) * SLACK, total, float(terms.max()) * twice


def to_bfloat16(numbers: Float[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
    """The numbers as PyTorch casts them to bfloat16, in float32: the upper 16 bits, rounded to nearest, ties to even.

    Args:
        numbers: Finite numbers.

    >>> to_bfloat16(np.array([1.0, 1.0 + 2**-8, 1.0 + 2**-7])).tolist()
    [1.0, 1.0, 1.0078125]
    """
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def _cast_distances(
    weights: Float[ndarray, "heads d_model key_width"],
    rows: Float[ndarray, "items d_model"],
    vectors: Float64[ndarray, "heads items key_width"],
) -> Float64[ndarray, "heads items"]:
    """‖q̂ − q‖ of every head and item as computed; float32 is enough for a difference of the size of 2^-8·q."""
    cast_weights, distances = to_bfloat16(weights), np.empty(vectors.shape[:2])
    for start, stop in row_blocks(len(rows), weights.shape[1]):
        cast_rows = to_bfloat16(rows[start:stop])
        for head, matrix in enumerate(cast_weights):
            difference = cast_rows @ matrix - vectors[head, start:stop]
            distances[head, start:stop] = np.sqrt(np.einsum("ic,ic->i", difference, difference))
    return distances


def _proves(
    layer: Layer,
    reduced: ReducedScores,
    projection: Projection,
    longest: int | None,
    distances: Float64[ndarray, " items"],
) -> bool:
    """Whether every score as PyTorch computes it is on the same side of the cast threshold as the exact score."""
    if not reduced.in_range:
        return False
    unit, rule = reduced.type.unit, layer.rule
    cast = (unit + SINGLE) * (1 + unit) * abs(layer.threshold) + SMALLEST
    if longest is not None:
        return bool((distances > cast + softmax_error(reduced, longest)).all())
    # a row that NaN or an infinite bound leaves open counts as open
    open_rows = np.flatnonzero(~(distances > cast + rule.reduced_error_bound(*reduced.row_errors(), unit)))
    if len(open_rows) > max(FEW_ROWS, projection.items // SHARE):
        return False
    for block in source_blocks(open_rows, projection.items):
        # too close for the bound of the whole row: take each pair's own bound
        for row, scores in zip(block.tolist(), row_scores(rule, projection, block), strict=True):
            own = rule.error_bound(projection.score_errors(row))
            bounds = own + rule.reduced_error_bound(*reduced.score_errors(row), unit)
            if not (np.abs(scores - layer.threshold) > (cast + bounds) * SLACK).all():
                return False
    return True


def softmax_error(reduced: ReducedScores, longest: int) -> Float64[ndarray, " items"]:
    """For every source a bound on the error of its softmax scores in contexts of at most this length.

    An error ε of every logit of a head moves its share by at most ε/2. Within softmax, the difference to the largest
    logit is rounded, then the power of e, the sum of ℓ of them and the quotient: a relative error of the share.
    """
    unit, root = reduced.type.unit, math.sqrt(reduced.key_width)
    errors, sizes = reduced.row_errors()
    heads = len(errors)
    # the division by √d_k rounds twice; an export that divides W_Q instead rounds W_Q once more
    logits = (errors + (3 * unit + 4 * SINGLE) * sizes) / root + 4 * SINGLE * sizes / root + SMALLEST
    relative = gamma(longest + 16, SINGLE) + unit + longest * SMALLEST
    shares = heads * relative + gamma(heads, unit) * heads * (1 + relative)
    return (logits.sum(axis=0) / 2 + shares) * SLACK
