"""Geometry: what a model's own weights look like, where the laws assume rows and heads like random ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.incoherence import IncoherenceProfile, incoherence

SAMPLED_ROWS = 2048  # of the embedding: every pair of them is looked at
SCORED_ROWS = 512  # tokens whose quarter of a million pairs each head scores
PERCENTILES = (1, 25, 50, 75, 99)


@dataclass(frozen=True, kw_only=True)
class EmbeddingGeometry:
    """How far an embedding is from random rows."""

    rows: int
    sampled: int
    mean_cosine: float  # 0 for random rows
    mean_share: float  # of the rows' squared length, what lies along their mean; about 1/rows for random ones
    effective_rank: float  # exp of the entropy of the spectrum of the rows' second moments; nearly d_model at random
    profile: IncoherenceProfile  # of the sampled rows, scaled to length 1
    random_rho: float  # what Gaussian rows of the same numbers have on average, for comparison


@dataclass(frozen=True, kw_only=True)
class HeadGeometry:
    """One head's form W_Q·W_Kᵀ and the raw scores it gives to pairs of tokens."""

    layer: int
    head: int
    effective_rank: float  # exp of the entropy of the squared singular values, at most key_width
    scores: tuple[float, ...]  # percentiles of x_i·W_Q·W_Kᵀ·x_j/√d_k over pairs of sampled tokens


def embedding_geometry(embedding: Float[ndarray, "items d_model"], *, block_size: int, seed: int) -> EmbeddingGeometry:
    """The geometry of the rows, of which so many are sampled as the pairs allow."""
    rows = sampled_rows(embedding, seed=seed, most=SAMPLED_ROWS)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not lengths.all():
        raise InputError("a row of the embedding is zero and has no direction")
    unit = rows / lengths
    count, d_model = unit.shape
    overlaps = unit @ unit.T
    mean = rows.mean(axis=0)
    spectrum = np.linalg.eigvalsh(rows.T @ rows)
    random = np.random.default_rng(seed).standard_normal((count, d_model))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    return EmbeddingGeometry(
        rows=len(embedding),
        sampled=count,
        mean_cosine=float((overlaps.sum() - count) / (count * (count - 1))),
        mean_share=float(count * (mean @ mean) / (rows**2).sum()),
        effective_rank=effective_rank(spectrum),
        profile=incoherence(unit.astype(np.float32), block_size=block_size),
        random_rho=incoherence(random.astype(np.float32), block_size=block_size).rho,
    )


def head_geometry(
    layer: int,
    query: Float[ndarray, "heads d_model key_width"],
    key: Float[ndarray, "key_heads d_model key_width"],
    rows: Float[ndarray, "n d_model"],
) -> Iterable[HeadGeometry]:
    """Every head of a layer, on rows as the layer reads them; key heads are shared by neighbouring query heads."""
    sharing = len(query) // len(key)
    x = rows.astype(np.float64)
    for head in range(len(query)):
        q, k = query[head].astype(np.float64), key[head // sharing].astype(np.float64)
        # the singular values of q·kᵀ are those of the product of their triangular factors
        values = np.linalg.svd(np.linalg.qr(q)[1] @ np.linalg.qr(k)[1].T, compute_uv=False)
        scores = (x @ q) @ (x @ k).T / np.sqrt(q.shape[1])
        spread = np.percentile(scores, PERCENTILES)
        yield HeadGeometry(
            layer=layer,
            head=head,
            effective_rank=effective_rank(values**2),
            scores=tuple(map(float, spread)),
        )


def sampled_rows(
    embedding: Float[ndarray, "items d_model"], *, seed: int, most: int = SCORED_ROWS
) -> Float64[ndarray, "n d_model"]:
    """All rows, or so many of them, each as likely as any other."""
    if len(embedding) <= most:
        return embedding.astype(np.float64)
    chosen = np.sort(np.random.default_rng(seed).choice(len(embedding), size=most, replace=False))
    return embedding[chosen].astype(np.float64)


def normalised(
    rows: Float64[ndarray, "n d_model"], weight: Float32[ndarray, " d_model"] | None, *, centred: bool
) -> Float64[ndarray, "n d_model"]:
    """Rows as a layer reads them behind its norm: RMS norm, or layer norm where they are centred first."""
    x = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)
    return x if weight is None else x * weight.astype(np.float64)


def effective_rank(spectrum: Float64[ndarray, " n"]) -> float:
    """exp of the entropy of a spectrum's shares (Roy & Vetterli 2007): k for k equal values.

    >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 6)
    2.0
    """
    shares = np.clip(spectrum, 0.0, None)
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
