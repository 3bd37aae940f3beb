"""Linear maps of an embedding that are folded into a layer's weights.

A query is x·W_Q. A layer fitted to the rows x·A, with weights V, scores every pair as the layer with W_Q = A·V_Q and
W_K = A·V_K scores the rows x themselves: (x·A)·V = x·(A·V). So whitening, and projecting a direction out, cost
nothing once the weights are found. Centring, x − mean, is affine and cannot be folded: a layer has no bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer

Map = Literal["none", "whiten", "project", "project+whiten"]
DOMINANT = 4.0  # whitening helps if the strongest direction is this many times as strong as in random rows
LEVEL = 10.0  # rows longer than this, or shorter than its inverse, are scaled
SHRINK = 1e-3  # this part of the mean strength is added to every direction, so that weak directions stay weak


def linear_map(embedding: Float[ndarray, "items d_model"], name: Map) -> Float64[ndarray, "d_model d_model"]:
    """The d_model × d_model matrix A of a map by its name.

    `whiten` is (XᵀX/m + λ)^(−½): the mapped rows x·A have the same strength in all directions. `project` is I − uuᵀ
    with the mean row's direction u. Both are scaled so that the mapped rows have length one in the mean.

    Args:
        embedding: X, rows of shape (items, d_model), not all zero.
        name: "none", "whiten", "project" or "project+whiten".

    Returns:
        A, of shape (d_model, d_model).

    Raises:
        InputError: The name is unknown, or every row is zero.
    """
    rows = embedding.astype(np.float64)
    matrix = np.eye(rows.shape[1])
    if name not in ("none", "whiten", "project", "project+whiten"):
        raise InputError(f"unknown map '{name}': choose from auto, none, whiten, project, project+whiten")
    if name.startswith("project"):
        mean = rows.mean(axis=0)
        length = float(np.linalg.norm(mean))
        if length > 0:
            matrix -= np.outer(mean, mean) / length**2
    if name.endswith("whiten"):
        matrix = matrix @ _inverse_root(rows @ matrix)
    lengths = np.linalg.norm(rows @ matrix, axis=1)
    if not lengths.any():
        raise InputError("every row of the embedding is zero")
    return matrix / np.sqrt(np.mean(lengths**2))


def levelling_map(embedding: Float[ndarray, "items d_model"]) -> Float64[ndarray, "d_model d_model"] | None:
    """For the map `none`: the scaling to a mean length of one, or None if the rows have nearly this length.

    The random starts and the rates of a fit suit rows of about length one.
    """
    length = float(np.sqrt(np.mean(np.square(embedding, dtype=np.float64).sum(axis=1))))
    return None if length == 0 or 1 / LEVEL <= length <= LEVEL else linear_map(embedding, "none")


def suitable_map(embedding: Float[ndarray, "items d_model"]) -> Map:
    """The map that helps an embedding: `whiten` if one direction dominates (DOMINANT), else `none`.

    Args:
        embedding: Rows of shape (items, d_model).

    Returns:
        The name of the map.
    """
    rows = embedding.astype(np.float64)
    strengths = np.linalg.eigvalsh(rows.T @ rows)
    edge = (1 + np.sqrt(rows.shape[1] / len(rows))) ** 2  # the largest strength of random rows (Marchenko and Pastur)
    return "whiten" if strengths[-1] > DOMINANT * edge * strengths.mean() else "none"


def map_rows(
    embedding: Float[ndarray, "items d_model"], matrix: Float64[ndarray, "d_model d_model"]
) -> Float64[ndarray, "items d_model"]:
    """The rows x·A.

    Args:
        embedding: Rows x of shape (items, d_model).
        matrix: A, of shape (d_model, d_model).

    Returns:
        The mapped rows in float64, of shape (items, d_model).
    """
    return embedding.astype(np.float64) @ matrix


def fold(layer: Layer, matrix: Float64[ndarray, "d_model d_model"]) -> Layer:
    """The layer that scores rows x as the given layer scores the mapped rows x·A.

    Args:
        layer: A layer for the mapped rows.
        matrix: A, of shape (d_model, d_model).

    Returns:
        The layer with the weights A·W_Q and A·W_K in float64.
    """
    query, key = (matrix @ weights.astype(np.float64) for weights in (layer.query, layer.key))
    return replace(layer, query=query, key=key)


def unfold(layer: Layer, matrix: Float64[ndarray, "d_model d_model"]) -> Layer:
    """The layer that scores the rows x·A as the given layer scores x, as exactly as A can be inverted."""
    query, key = (np.linalg.lstsq(matrix, _flat(weights), rcond=None)[0] for weights in (layer.query, layer.key))
    query, key = (part.reshape(layer.d_model, -1, layer.key_width).swapaxes(0, 1) for part in (query, key))
    return replace(layer, query=query, key=key)


def _flat(weights: Float[ndarray, "heads d_model key_width"]) -> Float64[ndarray, "d_model _"]:
    return weights.astype(np.float64).swapaxes(0, 1).reshape(weights.shape[1], -1)


def _inverse_root(rows: Float64[ndarray, "items d_model"]) -> Float64[ndarray, "d_model d_model"]:
    """(XᵀX/m + λ)^(−½), and zero on directions in which no row points at all."""
    strengths, directions = np.linalg.eigh(rows.T @ rows / len(rows))
    strengths = np.maximum(strengths, 0.0)
    mean = float(strengths.mean())
    present = strengths > mean * 1e-12
    roots = np.where(present, 1 / np.sqrt(strengths + SHRINK * mean), 0.0)
    return (directions * roots) @ directions.T
