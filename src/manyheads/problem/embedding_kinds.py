"""Embedding kinds: the generators of embeddings, their one registry, and the words that name them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.numbers import check_number, check_numbers, require_memory
from manyheads.problem.kind_words import Parameter, Value, form_of, parse_values, seed_word, split_words, value_word


def one_hot(items: int) -> Float32[ndarray, "items items"]:
    """The identity: no compression, d_model = items.

    Args:
        items: m, at least 1.

    Returns:
        Rows of shape (items, items).

    Raises:
        InputError: There are no items.
    """
    _check_sizes(items, items, number=4)
    return np.eye(items, dtype=np.float32)


def gaussian(items: int, d_model: int, *, seed: int) -> Float32[ndarray, "items d_model"]:
    """Rows drawn from N(0, I/d_model), then scaled to length one (the paper's Gaussian unit-norm embedding).

    Args:
        items: m, at least 1.
        d_model: Width of a row, at least 1.
        seed: The seed of the random generator.

    Returns:
        Rows of shape (items, d_model), each of length 1.

    Raises:
        InputError: A size is below 1.
    """
    _check_sizes(items, d_model, seed=seed)
    rows = np.random.default_rng(seed).standard_normal((items, d_model))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def sparse_binary(
    items: int, d_model: int, *, seed: int, density: float | None = None
) -> Float32[ndarray, "items d_model"]:
    """Entries are 1 with probability `density`, else 0 (Corollary B.7). A row of zeros is drawn again.

    The default density is p_B = ln(items)/d_model, at most ½. At the density c·ln(items)/d_model about items^(1−c) rows
    are zero; at the default about one row is. No layer can recognise an item with a zero row, hence the second draw.

    Args:
        items: m, at least 1.
        d_model: Width of a row, at least 1.
        seed: The seed of the random generator.
        density: The probability of a 1, from 1/(2·d_model) to 1; None: p_B.

    Returns:
        Rows of shape (items, d_model), none of them zero.

    Raises:
        InputError: A size is below 1, or the density is out of its range.
    """
    _check_sizes(items, d_model, seed=seed, density=density)
    if density is None:
        density = min(0.5, max(1.0, math.log(items)) / d_model)
    if not 0.5 / d_model <= density <= 1:
        raise InputError(
            f"the density must lie between 1/(2·d_model) = {0.5 / d_model:g}, below which most rows are zero, and 1, "
            f"not {density:g}"
        )
    rng = np.random.default_rng(seed)
    rows = rng.random((items, d_model)) < density
    while (zero := np.flatnonzero(~rows.any(axis=1))).size:
        rows[zero] = rng.random((len(zero), d_model)) < density
    return rows.astype(np.float32)


def _check_sizes(items: int, d_model: int, *, seed: int = 0, density: float | None = None, number: int = 20) -> None:
    """Refuse sizes outside their ranges, and rows that would not fit into the memory at so many bytes a number."""
    check_number("generator_seed", seed, said="seed")
    check_numbers(items=items, d_model=d_model, density=density)
    require_memory(number * items * d_model, f"an embedding of {items:,} items with d_model {d_model:,}")


D_MODEL = Parameter("d_model")


@dataclass(frozen=True)
class EmbeddingKind:
    """A kind of embedding: how it is written, drawn and named in pictures.

    Attributes:
        name: The first word, e.g. "gaussian".
        draw: Called with items, the parameters' values in their order, and `seed`; returns the rows.
        label: The kind's name in pictures.
        parameters: The numbers after the name. Where d_model is among them, it is the first; else the width is the
            number of items.
    """

    name: str
    draw: Callable[..., Float32[ndarray, "items d_model"]]
    label: str
    parameters: tuple[Parameter, ...] = (D_MODEL,)

    @property
    def form(self) -> str:
        """How it is written, e.g. gaussian:D_MODEL."""
        return form_of(self.name, self.parameters)


@dataclass(frozen=True)
class EmbeddingFamily:
    """All embeddings of one kind and width, from which a seed draws one for a number of items, e.g. gaussian:16."""

    kind: EmbeddingKind
    values: tuple[Value, ...] = ()

    def draw(self, items: int, *, seed: int) -> Float32[ndarray, "items d_model"]:
        """The rows that this seed draws for this number of items."""
        return self.kind.draw(items, *self.values, seed=seed)

    def d_model(self, items: int) -> int:
        """The width of the rows of an embedding with this number of items."""
        return int(self.values[0]) if D_MODEL in self.kind.parameters else items

    def seed_words(self, items: int) -> tuple[int, ...]:
        """The sizes. With the seed, they are the key of the random generator."""
        return (items, *map(seed_word, self.values))

    def __str__(self) -> str:
        return ":".join([self.kind.name, *map(value_word, self.values)])

    def __reduce__(self) -> tuple[object, ...]:
        return embedding_family, (str(self),)  # a kind's functions cannot be pickled, its words can


EMBEDDING_KINDS: dict[str, EmbeddingKind] = {}


def register_embedding_kind(kind: EmbeddingKind) -> None:
    """Make a kind of embedding known to every command.

    Args:
        kind: The kind.

    Raises:
        InputError: The name is taken or has a colon.
    """
    if kind.name in EMBEDDING_KINDS or ":" in kind.name:
        raise InputError(f"a kind of embedding '{kind.name}' cannot be registered: the name is taken or has a colon")
    EMBEDDING_KINDS[kind.name] = kind


def embedding_family(words: str) -> EmbeddingFamily:
    """The family that words such as gaussian:16 or one-hot name.

    Raises:
        InputError: The kind is unknown, or the numbers after it are not those of its form.
    """
    forms = [kind.form for kind in EMBEDDING_KINDS.values()]
    kind, rest = split_words(words, EMBEDDING_KINDS, what="embedding", forms=forms)
    return EmbeddingFamily(kind, parse_values(words, rest, kind.parameters, form=kind.form))


for _kind in (
    EmbeddingKind("one-hot", lambda items, *, seed: one_hot(items), "one-hot rows", parameters=()),
    EmbeddingKind("gaussian", gaussian, "Gaussian rows"),
    EmbeddingKind("sparse-binary", sparse_binary, "sparse binary rows"),
):
    register_embedding_kind(_kind)
