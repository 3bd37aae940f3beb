"""Latent keys: the keys of all heads are made from one latent of each item (multi-head latent attention, MLA)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.layer.rules import Rule


@dataclass(frozen=True, eq=False)
class LatentKeys:
    """The three matrices of latent attention: head k has queries x·W_Q^k and keys (x·W_D)·W_U^k.

    A cache stores the latent x·W_D, r numbers for each token. The same scores have two forms as a `Layer`: `expanded`
    has a key head W_D·W_U^k for each head, `absorbed` has one key head W_D that all heads share, and the queries
    W_Q^k·W_U^kᵀ of rank at most d_k.

    Attributes:
        query: W_Q, of shape (heads, d_model, key_width).
        up: W_U, of shape (heads, latent, key_width).
        down: W_D, of shape (d_model, latent).
        threshold: τ.
        rule: How heads are joined.

    Raises:
        InputError: The latent is wider than d_model.
    """

    query: Float64[ndarray, "heads d_model key_width"]
    up: Float64[ndarray, "heads latent key_width"]
    down: Float64[ndarray, "d_model latent"]
    threshold: float
    rule: Rule

    def __post_init__(self) -> None:
        require_latent(d_model=len(self.down), latent=self.down.shape[1])

    @classmethod
    def of(cls, layer: Layer, *, latent: int, key_width: int) -> LatentKeys:
        """The nearest latent keys of a layer: each head's form W_Q·W_Kᵀ reduced to rank d_k, then all keys to rank r.

        Args:
            layer: A layer of any shape. Its scores are reproduced if it is a form of latent keys of these widths.
            latent: r, the width of the latent, from 1 to d_model.
            key_width: d_k.

        Returns:
            The three matrices.

        Raises:
            InputError: The latent is wider than d_model.
        """
        require_latent(d_model=layer.d_model, latent=latent)
        query, key = (weights.astype(np.float64) for weights in (layer.query, layer.head_keys))
        left, strengths, right = np.linalg.svd(query @ key.swapaxes(1, 2))
        # the raw scores are divided by a number that depends on the width (`Rule.divisor`)
        strengths = strengths * (layer.rule.divisor(key_width) / layer.rule.divisor(layer.key_width))
        roots = np.sqrt(strengths[:, None, :key_width])
        down, up = latent_factors(right[:, :key_width].swapaxes(1, 2) * roots, latent)
        return cls(left[:, :, :key_width] * roots, up, down, layer.threshold, layer.rule)

    @property
    def weights(self) -> int:
        """The numbers in W_Q, W_U and W_D together."""
        return int(self.query.size + self.up.size + self.down.size)

    def expanded(self) -> Layer:
        """The layer in which each head has keys of its own, of width d_k."""
        return Layer(self.query, self.down @ self.up, self.threshold, self.rule)

    def absorbed(self) -> Layer:
        """The layer in which all heads share one key head of width r: W_U goes into the queries.

        Softmax divides scores by the root of the key width. The queries are scaled so that the logits stay the same.
        """
        widths = self.rule.divisor(self.down.shape[1]) / self.rule.divisor(self.query.shape[2])
        query = self.query @ self.up.swapaxes(1, 2) * widths
        return Layer(query, self.down[None], self.threshold, self.rule)


def require_latent(*, d_model: int, latent: int) -> None:
    """Refuse a latent that is wider than the rows.

    Args:
        d_model: Width of the rows.
        latent: r.

    Raises:
        InputError: The latent is wider than d_model.
    """
    if latent > d_model:
        raise InputError(
            f"a latent of width {latent:,} is wider than d_model {d_model:,}: all keys can be made from a latent of "
            f"width d_model"
        )


def latent_factors(
    key: Float64[ndarray, "heads d_model key_width"], latent: int
) -> tuple[Float64[ndarray, "d_model latent"], Float64[ndarray, "heads latent key_width"]]:
    """W_D and W_U whose products are nearest to the keys; both share the singular values evenly.

    Args:
        key: The keys of each head.
        latent: r, at most d_model.

    Returns:
        W_D and W_U. Where the heads together are narrower than r, the last columns of W_D are zero.
    """
    heads, d_model, width = key.shape
    stacked = key.swapaxes(0, 1).reshape(d_model, heads * width)
    left, strengths, right = np.linalg.svd(stacked, full_matrices=False)
    kept = min(latent, len(strengths))
    roots = np.sqrt(strengths[:kept])
    down, up = np.zeros((d_model, latent)), np.zeros((latent, heads * width))
    down[:, :kept], up[:kept] = left[:, :kept] * roots, roots[:, None] * right[:kept]
    return down, up.reshape(latent, heads, width).swapaxes(0, 1)
