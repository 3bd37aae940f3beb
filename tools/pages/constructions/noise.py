"""Noise: the score of a head as the sum of its signal and of the terms that the embedding's overlaps add (Sec. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy.special import softmax

from manyheads.layer.layer import Layer
from manyheads.problem.graph import Matching


@dataclass(frozen=True, eq=False)
class Terms:
    """The four terms of a score's mean over the signatures, or of its fluctuation around this mean.

    V are the sources of the head and T their targets. A term is zero outside the pairs of its shape.
    """

    signal: Float64[ndarray, "block block"]  # V × T: the score if XXᵀ were the identity
    n1: Float64[ndarray, "block items"]  # V × items: the query's own signature times those that leak into the key
    n2: Float64[ndarray, "items block"]  # items × T: signatures that leak into the query times the key's own
    n3: Float64[ndarray, "items items"]  # leaked signatures times leaked signatures


def decompose(
    embedding: Float[ndarray, "items d_model"], block: Matching, signatures: Float64[ndarray, "items key_width"]
) -> tuple[Terms, Terms]:
    """The mean and the fluctuation of one head's scores, for signatures of random signs.

    The eight terms add up to the scores. With E_V, E_T the unit columns of the block and δ = XXᵀ − I, a score is
    (E_V + δ_V)·W·Wᵀ·(E_T + δ_T)ᵀ, where the rows of W are the signatures of the targets. The mean of W·Wᵀ is d_k·I. So
    N1 and N2 have means as well as N3: d_k·δ_j(π(i)) and d_k·δ_i(π⁻¹(j)). The paper's proof takes them to be zero.

    Args:
        embedding: one row for each item.
        block: sources and targets of the head's relations, two arrays of equal length.
        signatures: one row for each item, entries +1 and −1.

    Returns:
        The terms of the mean, and the terms of the fluctuation.
    """
    x = embedding.astype(np.float64)
    sources, targets = block
    into_sources, into_targets = x @ x[sources].T, x @ x[targets].T
    own = np.arange(len(sources))
    into_sources[sources, own] -= 1.0
    into_targets[targets, own] -= 1.0

    words = signatures[targets]
    key_width = words.shape[1]
    mean = Terms(
        key_width * np.eye(len(sources)),
        key_width * into_targets.T,
        key_width * into_sources,
        key_width * (into_sources @ into_targets.T),
    )
    leaked_query, leaked_key = into_sources @ words, into_targets @ words
    fluctuation = Terms(
        words @ words.T - mean.signal,
        words @ leaked_key.T - mean.n1,
        leaked_query @ words.T - mean.n2,
        leaked_query @ leaked_key.T - mean.n3,
    )
    return mean, fluctuation


def background(layer: Layer, x: Float[ndarray, "n d_model"], owners: Int64[ndarray, " n"]) -> Float64[ndarray, "n n"]:
    """B_ij of Eq. 12 in one context: the attention from i to j, summed over all heads except the owner of i.

    Args:
        layer: a layer with the rule softmax.
        x: the rows of the items of the context.
        owners: for each item of the context, the head that holds its relation.
    """
    shares = softmax(layer.head_scores(x) / np.sqrt(layer.key_width), axis=2)
    return shares.sum(axis=0) - shares[owners, np.arange(len(x))]
