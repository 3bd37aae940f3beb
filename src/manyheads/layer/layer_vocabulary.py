"""Vocabulary: the items of a layer by their names, and the pairs among them that it recognises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer
from manyheads.problem.embedding import Embedding, near_names, places_of, with_nearest


@dataclass(frozen=True)
class RecognisedPair:
    """A pair whose score exceeds the threshold.

    Attributes:
        source: The item that attends.
        target: The item that it attends to.
        score: The layer's score of the pair.
        margin: The score minus the threshold.
        head: The head that contributes most to the score.
    """

    source: int
    target: int
    score: float
    margin: float
    head: int


def layer_rows(layer: Layer, embedding: Embedding) -> Embedding:
    """The rows of a layer's items with their names.

    Args:
        layer: The layer.
        embedding: The rows of its items; or more rows with names, of which those of the layer's labels are taken.

    Returns:
        A row for each item. All rows, if the layer has no labels.

    Raises:
        InputError: The rows are not as many as the labels, and they have no names, or a label has no row.
    """
    if layer.labels is None or len(layer.labels) == embedding.items:
        return replace(embedding, names=embedding.names or layer.labels)
    if embedding.names is None:
        raise InputError(
            f"the layer names {len(layer.labels):,} items but the embedding has {embedding.items:,} rows without "
            "names: give --labels with the names of all rows"
        )
    return embedding.select(layer.labels)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A layer with the rows of all items, and their names.

    Args:
        layer: The layer.
        embedding: The rows of the items, as wide as the layer reads.
        labels: The items' names in the order of the rows, or None.

    Raises:
        InputError: The width of the rows or the number of labels is wrong.
    """

    layer: Layer
    embedding: Float[ndarray, "items d_model"]
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        rows, width = self.embedding.shape
        if width != self.layer.d_model:
            raise InputError(f"the layer reads rows of {self.layer.d_model} numbers but the embedding has {width}")
        if self.labels is not None and len(self.labels) != rows:
            raise InputError(f"{len(self.labels)} labels do not name the {rows} rows of the embedding")

    def name(self, item: int) -> str:
        """The item's label, or its number if there are no labels."""
        return str(item) if self.labels is None else self.labels[item]

    def items(self, words: Sequence[str]) -> list[int]:
        """The items of words, in the order of the words and none twice.

        Raises:
            InputError: Some words have no item. The message names them, and the nearest words that have one.
        """
        places = {word: places_of(word, self._numbers) for word in map(str, words)}
        missing = [word for word, known in places.items() if not known]
        if len(missing) > 1:
            raise InputError(
                f"{len(missing)} of {len(words)} words are no items: {with_nearest(missing, self._numbers)}"
            )
        if missing:
            raise InputError(f"there is no item {missing[0]!r}{self._nearest(missing[0])}")
        return list(dict.fromkeys(item for known in places.values() for item in known))

    def within(self, items: Sequence[int]) -> list[RecognisedPair]:
        """The recognised pairs in the context of these items, widest margins first."""
        return self._passing(self.layer.head_scores(self.embedding[list(items)]), items, items)

    def all_from(self, sources: Sequence[int]) -> list[RecognisedPair]:
        """The recognised pairs of these sources with any item, in every context.

        Raises:
            InputError: The layer's rule looks at the context.
        """
        self._require_context_blind()
        heads = self._queries[:, list(sources)] @ self._keys.swapaxes(1, 2)
        return self._passing(heads, sources, range(len(self.embedding)))

    def all_to(self, targets: Sequence[int]) -> list[RecognisedPair]:
        """The recognised pairs of any item with these targets, in every context.

        Raises:
            InputError: The layer's rule looks at the context.
        """
        self._require_context_blind()
        heads = self._queries @ self._keys[:, list(targets)].swapaxes(1, 2)
        return self._passing(heads, range(len(self.embedding)), targets)

    def _passing(
        self, heads: Float64[ndarray, "heads n k"], sources: Sequence[int], targets: Sequence[int]
    ) -> list[RecognisedPair]:
        rule, key_width = self.layer.rule, self.layer.key_width
        scores = rule.join(heads, key_width=key_width)
        margins = scores - self.layer.threshold
        strongest = rule.contributions(heads, key_width=key_width).argmax(axis=0)
        found = [
            RecognisedPair(
                int(sources[p]), int(targets[q]), float(scores[p, q]), float(margins[p, q]), int(strongest[p, q])
            )
            for p, q in zip(*np.nonzero(margins > 0), strict=True)
        ]
        return sorted(found, key=lambda one: -one.margin)

    def _require_context_blind(self) -> None:
        if not self.layer.rule.context_blind:
            raise InputError(
                f"under {self.layer.rule} the attention of an item depends on the context: give all its items"
            )

    def _nearest(self, word: str) -> str:
        near = near_names([word], self._numbers)[word]
        return f": did you mean {' or '.join(map(repr, near))}?" if near else ""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.name(item): item for item in range(len(self.embedding))}

    @cached_property
    def _queries(self) -> Float64[ndarray, "heads items key_width"]:
        return self.embedding.astype(np.float64) @ self.layer.query.astype(np.float64)

    @cached_property
    def _keys(self) -> Float64[ndarray, "heads items key_width"]:
        return self.layer.by_head(self.embedding.astype(np.float64) @ self.layer.key.astype(np.float64))
