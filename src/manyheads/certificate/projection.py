"""Projection: every item's query and key of every head in float64, with bounds on their rounding errors."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from manyheads._native import multiply
from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import gamma
from manyheads.numbers import require_memory

# 2^-1074: an operation with a subnormal result has an error of at most half of it. Written by its bits, because
# 2.0**-1074 would be 0 on a thread that replaces subnormal numbers by zero
(TINY,) = struct.unpack("<d", (1).to_bytes(8, "little"))
NORMAL = sys.float_info.min  # 2^-1022: replacing a subnormal number by zero makes a smaller error
LEAST_WEIGHT = 2.0**-900  # a layer with smaller weights is projected on the thread of the caller
SMALL_SQUARE = 2.0**-900  # underflow does not change a sum of squares that is larger
BLOCK = 1 << 18  # numbers in one block of rows; they fit into the cache


def require_subnormals() -> None:
    """Refuse to compute a bound on a thread that replaces subnormal numbers by zero.

    Raises:
        InputError: The processor flushes subnormal results, or reads subnormal numbers as zero.
    """
    if not (NORMAL * 0.5 > 0 and TINY * 2**60 > 0):
        raise InputError(
            "this thread replaces subnormal numbers by zero (torch.set_flush_denormal?), so that no rounding bound "
            "holds: turn that off"
        )


def row_blocks(rows: int, width: int) -> Iterator[tuple[int, int]]:
    """The ranges start … stop that cut the rows into blocks of about BLOCK numbers."""
    step = max(1, BLOCK // width)
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


@dataclass(frozen=True, eq=False)
class Projection:
    """Queries and keys as computed, q̂ and k̂, with bounds on their distances from the exact q and k.

    a_i = ‖q̂_i‖ and b_j = ‖k̂_j‖ are `query_norms` and `key_norms`; α_i ≥ ‖q̂_i − q_i‖ and β_j ≥ ‖k̂_j − k_j‖ are
    `query_errors` and `key_errors`. Each has one number for each head and item. Heads that share keys read the same k̂,
    which is stored once.
    """

    queries: Float64[ndarray, "heads items key_width"]
    keys: Float64[ndarray, "key_heads key_width items"]
    query_norms: Float64[ndarray, "heads items"]
    key_norms: Float64[ndarray, "heads items"]
    query_errors: Float64[ndarray, "heads items"]
    key_errors: Float64[ndarray, "heads items"]
    d_model: int

    @property
    def heads(self) -> int:
        """h, the number of heads."""
        return int(self.queries.shape[0])

    @property
    def items(self) -> int:
        """m, the number of items."""
        return int(self.queries.shape[1])

    @property
    def key_width(self) -> int:
        """d_k, the width of one head."""
        return int(self.queries.shape[2])

    def head_keys(self, head: int) -> Float64[ndarray, "key_width items"]:
        """The keys that a head reads."""
        return self.keys[head * len(self.keys) // self.heads]

    @property
    def slack(self) -> float:
        """A factor for the rounding in the bounds themselves: norms, |X||W| and a few products."""
        return 1 + gamma(4 * (self.d_model + self.key_width) + 64)

    def score_errors(self, source: int) -> Float64[ndarray, "heads items"]:
        """For every head and every target of a source a bound on |q̂·k̂ as computed − q·k|."""
        a, alpha = self.query_norms[:, source, None], self.query_errors[:, source, None]
        return self._bound(a, alpha, self.key_norms, self.key_errors)

    def row_errors(self) -> Float64[ndarray, "heads items"]:
        """The same bound for every source and its worst target: quick, but loose if one key is very long."""
        b, beta = self.key_norms.max(axis=1, keepdims=True), self.key_errors.max(axis=1, keepdims=True)
        return self._bound(self.query_norms, self.query_errors, b, beta)

    @property
    def reach(self) -> float:
        """A number that is finite only if no score, no difference of two scores and no partial sum overflows.

        By Cauchy and Schwarz every partial sum of q̂·k̂ is within a·b; heads are added up, logits subtracted.
        """
        return 4 * float((self.query_norms.max(axis=1) * self.key_norms.max(axis=1)).sum())

    def logits(self, sources: Int[ndarray, " rows"]) -> Float64[ndarray, "heads rows items"]:
        """The logits of every head's softmax: the sources' scores with every target over √d_k."""
        queries = self.queries[:, sources]
        logits = np.empty((self.heads, queries.shape[1], self.items))
        for head in range(self.heads):
            multiply(queries[head], self.head_keys(head), out=logits[head])
        logits /= np.sqrt(self.key_width)
        return logits

    def _bound(self, a: ndarray, alpha: ndarray, b: ndarray, beta: ndarray) -> ndarray:
        # |fl(q̂·k̂) − q̂·k̂| ≤ γ·a·b, |q̂·k̂ − q·k| ≤ |q̂·(k̂ − k)| + |(q̂ − q)·k|; γ_(d_k + h) leaves room for adding h heads
        rounding = gamma(self.key_width + self.heads)
        return (rounding * a * b + a * beta + alpha * (b + beta)) * self.slack + (self.key_width + 8) * TINY


def project(layer: Layer, embedding: Float[ndarray, "items d_model"]) -> Projection:
    """The layer's queries and keys of every item. Blocks of rows avoid a second copy of the embedding."""
    # float64 queries, keys and weights, and the keys in float32 (`judge_mixed`)
    needed = (8 * layer.query_budget + 12 * layer.key_budget) * (len(embedding) + layer.d_model)
    require_memory(needed, f"a certificate for a query budget of {layer.query_budget:,} and {len(embedding):,} items")
    queries = np.empty((layer.heads, len(embedding), layer.key_width))
    keys = np.empty((layer.key_heads, layer.key_width, len(embedding)))
    query_norms, query_errors = _side(layer.query, embedding, queries)
    key_norms, key_errors = _side(layer.key, embedding, keys.swapaxes(1, 2))
    return Projection(
        queries=queries,
        keys=keys,
        query_norms=query_norms,
        key_norms=layer.by_head(key_norms),
        query_errors=query_errors,
        key_errors=layer.by_head(key_errors),
        d_model=layer.d_model,
    )


def _side(
    weights: Float[ndarray, "heads d_model key_width"],
    embedding: Float[ndarray, "items d_model"],
    vectors: Float64[ndarray, "heads items key_width"],
) -> tuple[Float64[ndarray, "heads items"], Float64[ndarray, "heads items"]]:
    """Write the queries, or the keys, of all items. Returns their norms and bounds on their errors."""
    heads, d_model, key_width = weights.shape
    matrix = weights.astype(np.float64).swapaxes(0, 1).reshape(d_model, heads * key_width)
    magnitude = np.abs(matrix)
    # the threads of BLAS may replace subnormal numbers by zero; this thread does not (`require_subnormals`)
    is_tiny = bool(magnitude.any() and magnitude[magnitude > 0].min() < LEAST_WEIGHT)
    product = _on_this_thread if is_tiny else np.matmul
    norms, errors = np.empty((2, heads, len(embedding)))
    for start, stop in row_blocks(len(embedding), d_model):
        x = embedding[start:stop].astype(np.float64)
        size = np.abs(x)
        # |fl(xW) − xW| ≤ γ_d·|x||W|, plus `lost` for each product, sum and weight that underflows
        lost = TINY if is_tiny else NORMAL * (2 + size.max())
        error = gamma(d_model) * product(size, magnitude) + 2 * (d_model + key_width) * lost
        block = product(x, matrix).reshape(-1, heads, key_width)
        vectors[:, start:stop] = block.swapaxes(0, 1)
        norms[:, start:stop] = _lengths(block).T
        errors[:, start:stop] = _lengths(error.reshape(-1, heads, key_width)).T
    return norms, errors


def _lengths(vectors: Float64[ndarray, "rows heads key_width"]) -> Float64[ndarray, "rows heads"]:
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ihc,ihc->ih", vectors, vectors)
    lengths = np.sqrt(squares)
    far = ~((squares > SMALL_SQUARE) & (squares < 1 / SMALL_SQUARE))
    lengths[far] = np.hypot.reduce(vectors[far], axis=1)  # slow, but without overflow and underflow
    return lengths


def _on_this_thread(left: Float64[ndarray, "n k"], right: Float64[ndarray, "k m"]) -> Float64[ndarray, "n m"]:
    out = np.empty((len(left), right.shape[1]))
    multiply(left, right.copy(), out=out)  # the weights of several heads of width 1 have gaps between their numbers
    return out
