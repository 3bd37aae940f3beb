"""Assemble: from blocks of relations and their signatures to the weights of a layer, by approximate de-embedding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.construct.split import Block
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, Rule

Head = tuple[Float64[ndarray, "d_model key_width"], Float64[ndarray, "d_model key_width"]]


def de_embed(
    embedding: Float[ndarray, "items d_model"],
    block: Block,
    signatures: Float64[ndarray, "items key_width"],
    *,
    mu: float = 1.0,
) -> Head:
    """One head's W_Q = X_inv·W'_Q and W_K = X_inv·W'_K, with X_inv = Xᵀ/μ.

    The templates W' live in one-hot space, a row for each item, and are zero outside the block: row i of W'_Q is the
    signature of i's target for i ∈ V_k, row j of W'_K that of j for j ∈ T_k. So only the block's own rows are
    multiplied, |V_k|·d_model·d_k steps a head and m·d_model·d_k in all; nothing of size m×m is ever made.
    """
    sources, targets = block
    words = signatures[targets]
    return embedding[sources].astype(np.float64).T @ words / mu, embedding[targets].astype(np.float64).T @ words / mu


def assemble(heads: Sequence[Head], *, threshold: float, rule: Rule = MAX) -> Layer:
    """The heads as one layer, its weights in single precision: a certificate judges them as they are stored."""
    shape = (len(heads), *heads[0][0].shape)
    query, key = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for k, (head_query, head_key) in enumerate(heads):
        query[k], key[k] = head_query, head_key
    return Layer(query, key, threshold, rule)
