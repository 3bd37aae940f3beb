"""Model audit: the relations that a layer of a real model can hold by its shape, and how random its weights look.

The audit is about one layer, with frozen rows like random ones and the rule max. A layer of a model reads other rows at
every depth, attends by softmax, and other layers hold relations too. So the audit states what the shape of a layer
allows, not what the model knows. `measure_weights` measures how far the model's rows and heads are from random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float32, Float64
from numpy import ndarray

from manyheads.bounds import Architecture, BitsPerWeight, Neighbour, bits_per_weight, neighbours
from manyheads.bounds.inverse import relations_by_bits, relations_by_freedom, relations_by_paper
from manyheads.bounds.shape import equal_splits
from manyheads.errors import InputError
from manyheads.files.model_files import read_model_weights
from manyheads.numbers import check_numbers
from manyheads.planning.advice import BITS
from manyheads.planning.architectures import find_architecture
from manyheads.planning.sharing import LayerCost, layer_cost
from manyheads.problem.incoherence import IncoherenceProfile, incoherence_profile
from manyheads.tables import Shown, Summary, in_heads, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 0.05  # a split that holds at most this share of relations less than the best split counts as near it
REACH = "one layer alone, on frozen rows like random ones, rule max: what the shape allows, not what the model knows"
SAMPLED_ROWS = 2048  # all pairs among this number of rows of the embedding are measured
SCORED_ROWS = 512  # tokens; each head scores their 262,144 pairs
PERCENTILES = (1, 25, 50, 75, 99)


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit(Shown):
    """The relations that one layer of an architecture holds.

    Attributes:
        architecture: The model's sizes; all its layers have the same shape.
        items: m.
        by_bits: More relations are impossible with 16-bit weights.
        by_freedom: Relations by the degrees-of-freedom law.
        by_paper: Relations by the paper's empirical law for graphs that are no permutations.
        bits_per_weight: Of a layer that holds a graph with `by_freedom` relations.
        best_heads: Head count with the same query budget that holds the most relations by the law.
        by_best_split: Relations that `best_heads` heads hold by the law.
        without_sharing: Relations by the law if every query head had its own keys.
        cost: Weights, cached numbers and degrees of freedom, and what shared keys lose by measured prices.
        neighbours: The formulas of other papers at this shape.
    """

    architecture: Architecture
    items: int
    by_bits: int
    by_freedom: int
    by_paper: int
    bits_per_weight: BitsPerWeight
    best_heads: int
    by_best_split: int
    without_sharing: int
    cost: LayerCost
    neighbours: tuple[Neighbour, ...]

    @property
    def is_near_best(self) -> bool:
        """Whether the split, with own keys for each head, holds at most NEAR less than the best split of its budget."""
        return self.without_sharing >= (1 - NEAR) * self.by_best_split

    @property
    def sharing_loss(self) -> float:
        """The share of relations that is lost because heads share keys, by the law."""
        return 1 - self.by_freedom / self.without_sharing if self.without_sharing else 0.0

    def summary(self) -> Summary:
        """The shape of a layer, and the relations that it holds by each law."""
        model, shape = self.architecture, self.architecture.shape
        rows: list[tuple[str, object]] = [
            ("layer", f"{shape.words()}, d_model {shape.d_model}"),
            ("cache", f"{shape.key_budget:,} numbers for each token"),
            ("impossible", f"more than {self.by_bits:,} relations among {self.items:,} items"),
            ("likely", f"{self.by_freedom:,} relations; {self.by_paper:,} by the paper's law"),
            ("best split", in_heads(self.best_heads, shape.query_budget // self.best_heads)),
            ("near the best split", "yes" if self.is_near_best else "no"),
            ("reach", REACH),
        ]
        return summary(f"audit of {model.name}, {model.layers} layers", rows)

    def picture(self) -> Figure:
        """The relations that a layer holds by the law, for every split of the same query budget."""
        from manyheads.drawing.plan import draw_splits
        from manyheads.planning.answers import split_curve

        return draw_splits(split_curve(self))


@dataclass(frozen=True, kw_only=True)
class EmbeddingGeometry:
    """How far an embedding is from random rows.

    Attributes:
        rows: Number of rows.
        sampled: Number of measured rows.
        mean_cosine: Mean cosine of two rows; 0 for random rows.
        mean_share: Share of the rows' squared length along their mean; about 1/rows for random rows.
        effective_rank: Effective rank of the rows' second moments; nearly d_model for random rows.
        profile: Incoherence of the measured rows, scaled to length 1.
        random_rho: ρ of Gaussian rows of the same sizes, for comparison.
    """

    rows: int
    sampled: int
    mean_cosine: float
    mean_share: float
    effective_rank: float
    profile: IncoherenceProfile
    random_rho: float


@dataclass(frozen=True, kw_only=True)
class HeadGeometry:
    """One head's form W_Q·W_Kᵀ and its raw scores of pairs of tokens.

    Attributes:
        layer: Number of the layer, from 0.
        head: Number of the head, from 0.
        effective_rank: Effective rank of the squared singular values of the form, at most key_width.
        scores: PERCENTILES of x_i·W_Q·W_Kᵀ·x_j/√d_k over the pairs of sampled tokens.
    """

    layer: int
    head: int
    effective_rank: float
    scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class WeightGeometry:
    """Measurements of a model's weights.

    Attributes:
        embedding: Geometry of the embedding.
        heads: Geometry of every head of every layer, in the order of layers and heads.
    """

    embedding: EmbeddingGeometry
    heads: tuple[HeadGeometry, ...]


def audit(architecture: Architecture | str | Path, *, items: int | None = None, context_length: int = 1024) -> Audit:
    """The relations that one layer of an architecture holds by each law.

    Args:
        architecture: The model's sizes, or its name or file (`architectures.find_architecture`).
        items: m; None stands for the vocabulary.
        context_length: Items in a context, for the formulas of other papers.

    Returns:
        The audit.

    Raises:
        InputError: The name or file is not known, or there are fewer than 2 items, or too many.

    >>> audit("gpt2").is_near_best
    True
    """
    if not isinstance(architecture, Architecture):
        architecture = find_architecture(architecture)
    check_numbers(items=items, context_length=context_length)
    count = architecture.vocabulary if items is None else items
    if count is None:
        raise InputError(f"{architecture.name} does not say its vocabulary: give the number of items, --items")
    shape = architecture.shape
    splits = equal_splits(shape.unshared)
    held = {split.heads: relations_by_freedom(split, items=count) for split in splits}
    best = max(held, key=lambda heads: (held[heads], -heads))
    likely = relations_by_freedom(shape, items=count)
    return Audit(
        architecture=architecture,
        items=count,
        by_bits=relations_by_bits(shape, items=count, bits=BITS),
        by_freedom=likely,
        by_paper=relations_by_paper(shape, items=count),
        bits_per_weight=bits_per_weight(f"random:{count}:{likely}", weights=shape.parameters),
        best_heads=best,
        by_best_split=held[best],
        without_sharing=held[shape.heads],
        cost=layer_cost(shape, items=count),
        neighbours=tuple(neighbours(shape, context_length=context_length)),
    )


def measure_weights(
    architecture: Architecture, path: str | Path, *, seed: int, progress: Callable[[int, int], None] | None = None
) -> WeightGeometry:
    """Measure the embedding and every head of every layer of a model.

    Args:
        architecture: Sizes of the model.
        path: The model's weights (.safetensors, .gguf).
        seed: Seed of the tokens whose pairs are measured.
        progress: Called with the number of measured parts and the number of all parts: the embedding and each layer.

    Returns:
        The measurements.

    Raises:
        InputError: The file cannot be read, or does not fit the architecture.
    """
    weights = read_model_weights(path, architecture)
    rows = sampled_rows(weights.embedding, seed=seed)
    report = progress or (lambda done, total: None)
    report(0, len(weights.layers) + 1)
    embedding = embedding_geometry(weights.embedding, matching_size=architecture.key_width, seed=seed)
    heads: list[HeadGeometry] = []
    for number, layer in enumerate(weights.layers):
        report(number + 1, len(weights.layers) + 1)
        x = normalised(rows, layer.norm, centred=layer.centred)
        heads += head_geometry(number, layer.query, layer.key, x)
    return WeightGeometry(embedding=embedding, heads=tuple(heads))


def embedding_geometry(
    embedding: Float[ndarray, "items d_model"], *, matching_size: int, seed: int
) -> EmbeddingGeometry:
    """Measure the rows of an embedding, at most SAMPLED_ROWS of them.

    Args:
        embedding: One row for each item; none of the measured rows is zero.
        matching_size: Matching size of the incoherence profile.
        seed: Seed of the sample and of the random rows.

    Returns:
        The geometry.

    Raises:
        InputError: A measured row is zero.
    """
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
        profile=incoherence_profile(unit.astype(np.float32), matching_size=matching_size),
        random_rho=incoherence_profile(random.astype(np.float32), matching_size=matching_size).rho,
    )


def head_geometry(
    layer: int,
    query: Float[ndarray, "heads d_model key_width"],
    key: Float[ndarray, "key_heads d_model key_width"],
    rows: Float[ndarray, "n d_model"],
) -> Iterable[HeadGeometry]:
    """Measure every head of a layer.

    Args:
        layer: Number of the layer.
        query: W_Q of each query head.
        key: W_K of each key head; neighbouring query heads share one.
        rows: Rows as the layer reads them, after its norm.

    Yields:
        The geometry of each query head.
    """
    sharing = len(query) // len(key)
    x = rows.astype(np.float64)
    for head in range(len(query)):
        q, k = query[head].astype(np.float64), key[head // sharing].astype(np.float64)
        # the singular values of q·kᵀ are those of the product of their triangular factors
        values = np.linalg.svd(np.linalg.qr(q)[1] @ np.linalg.qr(k)[1].T, compute_uv=False)
        scores = (x @ q) @ (x @ k).T / np.sqrt(q.shape[1])
        spread = np.percentile(scores, PERCENTILES)
        rank = effective_rank(values**2)
        yield HeadGeometry(layer=layer, head=head, effective_rank=rank, scores=tuple(map(float, spread)))


def sampled_rows(
    embedding: Float[ndarray, "items d_model"], *, seed: int, most: int = SCORED_ROWS
) -> Float64[ndarray, "n d_model"]:
    """Draw at most `most` rows without replacement, in their order.

    Args:
        embedding: One row for each item.
        seed: Seed of the draw.
        most: The largest number of rows.

    Returns:
        The rows as float64.
    """
    if len(embedding) <= most:
        return embedding.astype(np.float64)
    chosen = np.sort(np.random.default_rng(seed).choice(len(embedding), size=most, replace=False))
    return embedding[chosen].astype(np.float64)


def normalised(
    rows: Float64[ndarray, "n d_model"], weight: Float32[ndarray, " d_model"] | None, *, centred: bool
) -> Float64[ndarray, "n d_model"]:
    """Rows as a layer reads them, after its norm.

    Args:
        rows: Rows of the embedding.
        weight: The norm's weight; None for a norm without one.
        centred: Whether the norm subtracts the mean first: layer norm, otherwise RMS norm.

    Returns:
        The normalised rows.
    """
    x = rows - rows.mean(axis=1, keepdims=True) if centred else rows
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)
    return x if weight is None else x * weight.astype(np.float64)


def effective_rank(spectrum: Float64[ndarray, " n"]) -> float:
    """The exponential of the entropy of a spectrum's shares (Roy & Vetterli 2007): k for k equal values.

    Args:
        spectrum: Values, at least one of them positive; negative ones count as 0.

    Returns:
        A number from 1 to the number of values.

    >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 6)
    2.0
    """
    shares = np.clip(spectrum, 0.0, None)
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
