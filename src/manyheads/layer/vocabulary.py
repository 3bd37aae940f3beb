"""Vocabulary: a layer's items by their names, and what attends to what among them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.layer.layer import Layer

MARKS = ("", "Ġ", "▁", " ")  # how tokenisers write that a word begins here


@dataclass(frozen=True)
class Attention:
    """A pair whose score exceeds the threshold, by the margin; the head contributes most."""

    source: int
    target: int
    score: float
    margin: float
    head: int


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A layer, the rows of all items it may meet, and their names."""

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
        """The item's label, or its number where there are none."""
        return str(item) if self.labels is None else self.labels[item]

    def items(self, words: Sequence[str]) -> list[int]:
        """The words' items in their order, none twice; a word that has none is refused with the nearest that do."""
        found: dict[int, None] = {}
        for word in words:
            known = [self._numbers[mark + word] for mark in MARKS if mark + word in self._numbers]
            if not known:
                raise InputError(f"there is no item {word!r}{self._nearest(word)}")
            found.update(dict.fromkeys(known))
        return list(found)

    def within(self, items: Sequence[int]) -> list[Attention]:
        """What attends to what in the context of these items, the widest margins first."""
        return self._passing(self.layer.head_scores(self.embedding[list(items)]), items, items)

    def all_from(self, sources: Sequence[int]) -> list[Attention]:
        """All items that the sources attend to, whatever the context."""
        self._require_context_blind()
        heads = self._queries[:, list(sources)] @ self._keys.swapaxes(1, 2)
        return self._passing(heads, sources, range(len(self.embedding)))

    def all_to(self, targets: Sequence[int]) -> list[Attention]:
        """All items that attend to the targets, whatever the context."""
        self._require_context_blind()
        heads = self._queries @ self._keys[:, list(targets)].swapaxes(1, 2)
        return self._passing(heads, range(len(self.embedding)), targets)

    def _passing(
        self, heads: Float64[ndarray, "heads n k"], sources: Sequence[int], targets: Sequence[int]
    ) -> list[Attention]:
        rule, key_width = self.layer.rule, self.layer.key_width
        scores = rule.join(heads, key_width=key_width)
        margins = scores - self.layer.threshold
        strongest = rule.contributions(heads, key_width=key_width).argmax(axis=0)
        found = [
            Attention(int(sources[p]), int(targets[q]), float(scores[p, q]), float(margins[p, q]), int(strongest[p, q]))
            for p, q in zip(*np.nonzero(margins > 0), strict=True)
        ]
        return sorted(found, key=lambda one: -one.margin)

    def _require_context_blind(self) -> None:
        if not self.layer.rule.context_blind:
            raise InputError(
                f"under {self.layer.rule} what an item attends to depends on the context: give all of its items"
            )

    def _nearest(self, word: str) -> str:
        near = difflib.get_close_matches(word, [name.lstrip("Ġ▁ ") for name in self._numbers], n=3)
        return f": did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else ""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.name(item): item for item in range(len(self.embedding))}

    @cached_property
    def _queries(self) -> Float64[ndarray, "heads items key_width"]:
        return self.embedding.astype(np.float64) @ self.layer.query.astype(np.float64)

    @cached_property
    def _keys(self) -> Float64[ndarray, "heads items key_width"]:
        return self.embedding.astype(np.float64) @ self.layer.key.astype(np.float64)
