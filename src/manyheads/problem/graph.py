"""Graph: directed relations between items, which an attention layer has to hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from manyheads.errors import InputError, require_texts
from manyheads.numbers import ITEMS, check_number, require_memory
from manyheads.tables import Shown, Summary, counted, data_frame, summary

Matching = tuple[Int[ndarray, " _"], Int[ndarray, " _"]]  # the sources and the targets of relations, in one order
MOST_ITEMS = int(ITEMS.most)
SHOWN_RELATIONS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Shown):
    """Directed relations between items 0 … items − 1, sorted by (source, target), none twice.

    Attributes:
        items: m, the number of items, from 1 to MOST_ITEMS.
        sources: The source of each relation, in any order.
        targets: The target of each relation, in the same order.
        labels: The items' names, all different, or None.

    Raises:
        InputError: An item is outside the graph, a relation is given twice, or the labels do not name the items.

    >>> Graph(3, sources=np.array([2, 0]), targets=np.array([0, 1])).relations
    2
    """

    items: int
    sources: ndarray  # Int (relations,): checked below, with a sentence, not by the test run's type checker
    targets: ndarray
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        sources, targets = _indices(self.sources), _indices(self.targets)
        object.__setattr__(self, "items", check_number("items", self.items, said="the number of items of a graph"))
        if self.labels is not None:
            require_texts(self.labels, "labels")
            if len(self.labels) != self.items:
                raise InputError(f"{len(self.labels)} labels do not name {self.items} items")
            label, uses = Counter(self.labels).most_common(1)[0]
            if uses > 1:
                raise InputError(f"the label '{label}' names {uses} items")
        if sources.shape != targets.shape:
            raise InputError(f"{sources.size} sources do not pair up with {targets.size} targets")
        for ends in (sources, targets):
            outside = ends[(ends < 0) | (ends >= self.items)]
            if outside.size:
                raise InputError(f"item {outside[0]} is not among the {self.items} items of the graph")
        codes = np.sort(sources * self.items + targets)
        sources, targets = np.divmod(codes, self.items)
        twice = np.flatnonzero(np.diff(codes) == 0)
        if twice.size:
            source, target = (self.name(ends[twice[0]]) for ends in (sources, targets))
            raise InputError(f"the relation {source} → {target} is given twice")
        object.__setattr__(self, "sources", _read_only(sources))
        object.__setattr__(self, "targets", _read_only(targets))

    @property
    def relations(self) -> int:
        """m', the number of relations."""
        return len(self.sources)

    @cached_property
    def out_degrees(self) -> Int[ndarray, " items"]:
        """The number of relations out of each item."""
        return self._degrees(self.sources)

    @cached_property
    def in_degrees(self) -> Int[ndarray, " items"]:
        """The number of relations into each item."""
        return self._degrees(self.targets)

    @property
    def max_degree(self) -> int:
        """Δ, the largest in- or out-degree."""
        if self.items <= 4 * self.relations:
            return int(max(self.out_degrees.max(), self.in_degrees.max()))
        # few relations among very many items: no array with a number for each item
        return max(int(np.unique(ends, return_counts=True)[1].max(initial=0)) for ends in (self.sources, self.targets))

    @property
    def is_permutation(self) -> bool:
        """Whether every item has exactly one relation out and one in."""
        return self.relations == self.items and bool((self.out_degrees == 1).all() and (self.in_degrees == 1).all())

    @property
    def has_loops(self) -> bool:
        """Whether some item relates to itself."""
        return bool((self.sources == self.targets).any())

    @cached_property
    def row_starts(self) -> Int[ndarray, " starts"]:
        """The first relation of each source: the targets of i are targets[row_starts[i]:row_starts[i + 1]]."""
        return _read_only(np.concatenate([[0], np.cumsum(self.out_degrees)]))

    def adjacency(self, start: int = 0, stop: int | None = None) -> Bool[ndarray, "rows items"]:
        """The dense rows start … stop − 1 of the adjacency matrix.

        Args:
            start: The first row.
            stop: The row after the last; None: items.

        Returns:
            True for a relation, of shape (stop − start, items).
        """
        stop = self.items if stop is None else stop
        require_memory((stop - start) * self.items, f"an adjacency matrix of {stop - start:,} × {self.items:,} pairs")
        rows = np.zeros((stop - start, self.items), dtype=bool)
        low, high = self.row_starts[start], self.row_starts[stop]
        rows[self.sources[low:high] - start, self.targets[low:high]] = True
        return rows

    def name(self, item: SupportsIndex) -> str:
        """The item's label, or its number if the graph has no labels.

        Args:
            item: The number of the item.

        Returns:
            The name.
        """
        return self.labels[item] if self.labels is not None else str(item)

    @cached_property
    def fingerprint(self) -> str:
        """16 digits of the SHA-256 of items and relations, without the labels."""
        numbers = np.array([self.items, *self.sources, *self.targets], dtype="<i8")
        return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Graph)
            and (self.items, self.labels) == (other.items, other.labels)
            and np.array_equal(self.sources, other.sources)
            and np.array_equal(self.targets, other.targets)
        )

    def __hash__(self) -> int:
        return hash((self.items, self.sources.tobytes(), self.targets.tobytes(), self.labels))

    def summary(self) -> Summary:
        """The sizes, and the first relations by name."""
        ends = zip(self.sources[:SHOWN_RELATIONS], self.targets[:SHOWN_RELATIONS], strict=True)
        first = [f"{self.name(source)} → {self.name(target)}" for source, target in ends]
        rest = self.relations - len(first)
        title = f"graph of {counted(self.items, 'item')}, {counted(self.relations, 'relation')}"
        return summary(
            title,
            [
                ("kind", "permutation" if self.items <= 4 * self.relations and self.is_permutation else None),
                ("largest degree", self.max_degree),
                ("items", "named" if self.labels is not None else "numbered"),
                *(("relation", one) for one in first),
                ("…", f"{rest:,} more" if rest else None),
            ],
        )

    def to_frame(self) -> Any:
        """The relations as a pandas data frame with the columns source and target, by name if items have names.

        Raises:
            InputError: pandas is not installed.
        """
        pairs = zip(self.sources.tolist(), self.targets.tolist(), strict=True)
        named = self.labels is not None
        return data_frame(
            {"source": self.name(i) if named else i, "target": self.name(j) if named else j} for i, j in pairs
        )

    def _degrees(self, ends: Int[ndarray, " relations"]) -> Int[ndarray, " items"]:
        require_memory(16 * self.items, f"the degrees of {self.items:,} items")
        return _read_only(np.bincount(ends, minlength=self.items))

    def with_labels(self, labels: Sequence[str]) -> Graph:
        """The same relations between named items.

        Args:
            labels: One name for each item, all different.

        Returns:
            A new graph.

        Raises:
            InputError: The labels do not name the items.
        """
        return Graph(self.items, self.sources, self.targets, tuple(labels))


def graph_from_networkx(graph: Any) -> Graph:
    """The relations of a networkx graph.

    Nodes that are not the numbers 0 … m − 1 become labels. An undirected edge becomes two relations.

    Args:
        graph: A networkx Graph or DiGraph.

    Returns:
        The graph.

    Raises:
        InputError: The argument is no such graph, or it has no nodes, or two parallel edges.
    """
    if not hasattr(graph, "is_directed"):
        raise InputError(f"the graph is a graph of networkx, not {type(graph).__name__}")
    nodes = list(graph.nodes)
    return _from_edges(nodes, nodes, list(graph.edges()), directed=graph.is_directed())


def graph_from_rustworkx(graph: Any) -> Graph:
    """The relations of a rustworkx graph.

    Node weights that are not the numbers 0 … m − 1 become labels. If all node weights are None, there are no labels. An
    undirected edge becomes two relations.

    Args:
        graph: A rustworkx PyGraph or PyDiGraph.

    Returns:
        The graph.

    Raises:
        InputError: The argument is no such graph, or it has no nodes, two parallel edges, or a label twice.
    """
    if not hasattr(graph, "node_indices"):
        raise InputError(f"the graph is a graph of rustworkx, not {type(graph).__name__}")
    return _from_edges(
        list(graph.node_indices()), graph.nodes(), list(graph.edge_list()), directed=hasattr(graph, "in_degree")
    )


def _from_edges(
    keys: Sequence[Hashable], names: Sequence[object], edges: Sequence[tuple[Any, Any]], *, directed: bool
) -> Graph:
    numbered = all(isinstance(name, Integral) for name in names) and set(names) == set(range(len(names)))
    labels = None if numbered or all(name is None for name in names) else tuple(map(str, names))
    place = dict(zip(keys, names if numbered else range(len(names)), strict=True))
    pairs = [(place[source], place[target]) for source, target in edges]
    if not directed:
        pairs += [(target, source) for source, target in pairs if source != target]
    sources, targets = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Graph(len(names), sources, targets, labels)


def _indices(ends: ndarray | Sequence[int]) -> Int[ndarray, " relations"]:
    array = np.asarray(ends)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError("sources and targets are flat arrays of whole numbers")
    return array.astype(np.int64)


def _read_only(array: Int[ndarray, " n"]) -> Int[ndarray, " n"]:
    array.flags.writeable = False
    return array
