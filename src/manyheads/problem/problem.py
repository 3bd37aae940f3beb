"""Problem: one graph over one embedding. An attention layer has to hold the graph. Both are checked here, once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.numbers import check_number
from manyheads.problem.embedding import Embedding
from manyheads.problem.embedding_kinds import embedding_family
from manyheads.problem.graph import Graph
from manyheads.problem.graph_kinds import graph_family
from manyheads.tables import Shown, Summary, counted, summary

ContextLength = int | tuple[int, int] | None  # one length, the least and the greatest, or every length


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Shown):
    """A graph, and an embedding with a row for each of its items.

    Attributes:
        graph: The relations to hold.
        embedding: The items' rows: an `Embedding`, or an array of shape (items, d_model).

    Raises:
        InputError: The arguments are exchanged, or the embedding has another number of rows than the graph has items.

    >>> from manyheads import gaussian, permutation_graph
    >>> problem = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
    >>> problem.items, problem.relations, problem.d_model
    (64, 64, 16)
    """

    graph: Graph
    embedding: Embedding

    def __init__(self, graph: Graph, embedding: Embedding | ndarray) -> None:
        if not isinstance(graph, Graph):
            raise InputError(
                f"a problem is a graph and an embedding, in this order: {type(graph).__name__} is no graph"
            )
        if not isinstance(embedding, (Embedding, np.ndarray)):
            raise InputError(f"the embedding of a problem is an Embedding or an array, not {type(embedding).__name__}")
        rows = Embedding.of(embedding)
        if rows.items != graph.items:
            hint = "" if graph.labels is None else ": embedding.select(graph.labels) picks the rows of its labels"
            if graph.labels is not None and rows.names is None:
                hint = ", which have no names: give the names of all rows (--labels, or names= of read_embedding)"
            raise InputError(f"the graph has {graph.items} items but the embedding has {rows.items} rows{hint}")
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "embedding", rows)

    @property
    def items(self) -> int:
        """m, the number of items."""
        return self.graph.items

    @property
    def relations(self) -> int:
        """m', the number of relations."""
        return self.graph.relations

    @property
    def d_model(self) -> int:
        """The width of the embedding."""
        return self.embedding.d_model

    @property
    def rows(self) -> Float[ndarray, "items d_model"]:
        """The embedding's rows as an array."""
        return self.embedding.rows

    def summary(self) -> Summary:
        """The summaries of graph and embedding."""
        graph, embedding = self.graph.summary(), self.embedding.summary()
        rows = [("graph", graph.title), *graph.rows, ("embedding", embedding.title), *embedding.rows]
        return summary(f"problem: {counted(self.relations, 'relation')} over {counted(self.items, 'row')}", rows)

    def context_lengths(self, context_length: ContextLength) -> tuple[int, int]:
        """The least and the greatest length of a context, for a rule that looks at the context.

        Args:
            context_length: One length, or the least and the greatest, from 2 to the number of items.

        Returns:
            (least, greatest).

        Raises:
            InputError: No length is given, or a length is out of range.
        """
        if context_length is None:
            raise InputError(
                "rule softmax depends on the context: give the context length, or the least and the greatest"
            )
        shortest, longest = context_length if isinstance(context_length, tuple) else (context_length, context_length)
        for length in (shortest, longest):
            check_number("context_length", length)
        if not 2 <= shortest <= longest <= self.items:
            raise InputError(
                f"context lengths run from 2 to the number of items, {self.items}, not from {shortest} to {longest}"
            )
        return shortest, longest

    def require_width(self, d_model: int) -> None:
        """Refuse a layer whose d_model is not the width of the embedding.

        Args:
            d_model: The width of the rows that the layer reads.

        Raises:
            InputError: The widths differ.
        """
        if d_model != self.d_model:
            raise InputError(f"the layer reads rows of {d_model} numbers but the embedding has {self.d_model}")

    def require_distinct(self) -> None:
        """Refuse two items with the same row and different relations: no layer can tell them apart.

        Raises:
            InputError: There are such items. The message names two.
        """
        _, first, place = np.unique(self.rows, axis=0, return_index=True, return_inverse=True)
        twins = np.flatnonzero(first[place.ravel()] != np.arange(self.items))
        graph = self.graph
        outgoing, incoming = _neighbours(graph.sources, graph.targets), _neighbours(graph.targets, graph.sources)
        for item in twins.tolist():
            twin = int(first[place.ravel()[item]])
            for kind, ends in (("relations", outgoing), ("relations to them", incoming)):
                if ends.get(item, frozenset()) != ends.get(twin, frozenset()):
                    names = f"{graph.name(twin)} and {graph.name(item)}"
                    raise InputError(
                        f"rows {twin} and {item} of the embedding ({names}) are identical but their {kind} differ: "
                        "no layer can tell them apart"
                    )


def draw_problem(graph: str | Graph, embedding: str | Embedding | ndarray, *, seed: int = 0) -> Problem:
    """A problem by the words of the commands: `draw_problem("permutation:64", "gaussian:16")`.

    Args:
        graph: The words of a kind of graph, drawn from the seed; or a graph.
        embedding: The words of a kind of embedding, drawn from the seed + 1; or an embedding or array. With the seed 0,
            the problem is that of the commands compile and fit without seeds.
        seed: Any whole number from 0.

    Returns:
        The problem.

    Raises:
        InputError: The words name no kind, or the embedding has not a row for each item.

    >>> draw_problem("permutation:64", "gaussian:16", seed=0).d_model
    16
    """
    check_number("seed", seed)
    drawn = graph_family(graph).draw(seed=seed) if isinstance(graph, str) else graph
    if isinstance(embedding, str) and isinstance(drawn, Graph):
        return Problem(drawn, embedding_family(embedding).draw(drawn.items, seed=seed + 1))
    return Problem(drawn, embedding)


def _neighbours(ends: ndarray, others: ndarray) -> dict[int, frozenset[int]]:
    """The items on the other end of each item's relations."""
    found: dict[int, set[int]] = {}
    for end, other in zip(ends.tolist(), others.tolist(), strict=True):
        found.setdefault(end, set()).add(other)
    return {end: frozenset(items) for end, items in found.items()}
