"""Graph: which item relates to which, the thing an attention layer has to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from manyheads.errors import InputError


@dataclass(frozen=True, eq=False)
class Graph:
    """Directed relations between items 0 … items − 1, sorted by (source, target), none twice.

    >>> Graph(3, sources=np.array([2, 0]), targets=np.array([0, 1])).relations
    2
    """

    items: int
    sources: ndarray  # Int (relations,): checked below, with a sentence, not by the test run's type checker
    targets: ndarray
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        sources, targets = _indices(self.sources), _indices(self.targets)
        if self.items < 1:
            raise InputError(f"a graph needs at least one item, not {self.items}")
        if sources.shape != targets.shape:
            raise InputError(f"{sources.size} sources do not pair up with {targets.size} targets")
        for ends in (sources, targets):
            outside = ends[(ends < 0) | (ends >= self.items)]
            if outside.size:
                raise InputError(f"item {outside[0]} is not among the {self.items} items of the graph")
        order = np.lexsort((targets, sources))
        sources, targets = sources[order], targets[order]
        twice = np.flatnonzero((np.diff(sources) == 0) & (np.diff(targets) == 0))
        if twice.size:
            raise InputError(f"the relation {sources[twice[0]]} → {targets[twice[0]]} is given twice")
        if self.labels is not None and len(self.labels) != self.items:
            raise InputError(f"{len(self.labels)} labels do not name {self.items} items")
        for ends in (sources, targets):
            ends.flags.writeable = False
        object.__setattr__(self, "sources", sources)
        object.__setattr__(self, "targets", targets)

    @property
    def relations(self) -> int:
        """m', the number of relations."""
        return len(self.sources)

    @cached_property
    def out_degrees(self) -> Int[ndarray, " items"]:
        """How many relations start at each item."""
        return np.bincount(self.sources, minlength=self.items)

    @cached_property
    def in_degrees(self) -> Int[ndarray, " items"]:
        """How many relations end at each item."""
        return np.bincount(self.targets, minlength=self.items)

    @property
    def max_degree(self) -> int:
        """Δ, the largest in- or out-degree."""
        return int(max(self.out_degrees.max(), self.in_degrees.max()))

    @property
    def is_permutation(self) -> bool:
        """Whether every item has exactly one relation out and one in."""
        return self.relations == self.items and bool((self.out_degrees == 1).all() and (self.in_degrees == 1).all())

    @cached_property
    def row_starts(self) -> Int[ndarray, " items+1"]:
        """Where each source's relations begin: those of i are targets[row_starts[i]:row_starts[i + 1]]."""
        return np.concatenate([[0], np.cumsum(self.out_degrees)])

    def adjacency(self, start: int = 0, stop: int | None = None) -> Bool[ndarray, "rows items"]:
        """The dense rows start … stop − 1 of the adjacency matrix."""
        stop = self.items if stop is None else stop
        rows = np.zeros((stop - start, self.items), dtype=bool)
        low, high = self.row_starts[start], self.row_starts[stop]
        rows[self.sources[low:high] - start, self.targets[low:high]] = True
        return rows

    def name(self, item: int) -> str:
        """The item's label, or its number where there are none."""
        return self.labels[item] if self.labels is not None else str(item)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Graph)
            and (self.items, self.labels) == (other.items, other.labels)
            and np.array_equal(self.sources, other.sources)
            and np.array_equal(self.targets, other.targets)
        )

    def __hash__(self) -> int:
        return hash((self.items, self.sources.tobytes(), self.targets.tobytes(), self.labels))

    def with_labels(self, labels: Sequence[str]) -> Graph:
        """The same relations between named items."""
        return Graph(self.items, self.sources, self.targets, tuple(labels))


def permutation_graph(items: int, *, seed: int) -> Graph:
    """A uniformly random permutation: one relation out of and one into every item, fixed points allowed."""
    return Graph(items, np.arange(items), np.random.default_rng(seed).permutation(items))


def _indices(ends: ndarray | Sequence[int]) -> Int[ndarray, " relations"]:
    array = np.asarray(ends)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError("sources and targets are flat arrays of whole numbers")
    return array.astype(np.int64)
