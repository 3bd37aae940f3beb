"""Noise: a head's score taken apart as in Sec. 5, into the signal and what the embedding's overlaps add to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy.special import softmax

from manyheads.construct.split import Block
from manyheads.layer.layer import Layer


@dataclass(frozen=True, eq=False)
class Terms:
    """One of the two halves of a score, its mean over the signatures or its fluctuation around it, in four terms.

    Each is zero outside the pairs it is listed for, with V the head's sources and T their targets.
    """

    signal: Float64[ndarray, "block block"]  # V × T: what a perfect inverse, XXᵀ = I, would leave
    n1: Float64[ndarray, "block items"]  # V × items: the query's own word meets the words that leak into the key
    n2: Float64[ndarray, "items block"]  # items × T: the words that leak into the query meet the key's own
    n3: Float64[ndarray, "items items"]  # leaked words meet leaked words


def decompose(
    embedding: Float[ndarray, "items d_model"], block: Block, signatures: Float64[ndarray, "items key_width"]
) -> tuple[Terms, Terms]:
    """The mean and the fluctuation of one head's scores, with signs for signatures; all eight terms add up to them.

    With E_V, E_T the unit columns of the block and δ = XXᵀ − I, a score is (E_V + δ_V)·W·Wᵀ·(E_T + δ_T)ᵀ, where the
    rows of W are the words of the targets. The mean of W·Wᵀ is d_k·I, so N1 and N2 have means as well as N3:
    d_k·δ_j(π(i)) and d_k·δ_i(π⁻¹(j)), which the paper's proof takes to be zero.
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
    """B_ij of Eq. 12 in one context: the attention that j gets from i in all heads but the one that owns i."""
    shares = softmax(layer.head_scores(x) / np.sqrt(layer.key_width), axis=2)
    return shares.sum(axis=0) - shares[owners, np.arange(len(x))]
