"""Task: a family of problems, and the contexts in which a layer learns them; a seed draws one problem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.identity import normalise_numbers
from manyheads.problem.embedding import Embedding, given_name
from manyheads.problem.embedding_kinds import EmbeddingFamily, embedding_family
from manyheads.problem.graph import Graph
from manyheads.problem.graph_kinds import GraphFamily, graph_family, paper_slope
from manyheads.problem.problem import Problem
from manyheads.training.protocol import CONTEXT, TARGET_RATE, Objective


class Purpose(IntEnum):
    """The purpose of a random draw: the first word of every seed key, so that no two purposes share their numbers."""

    GRAPH = 1
    EMBEDDING = 2
    CONTEXTS = 3
    VALUES = 4
    WEIGHTS = 5


def seed_key(purpose: Purpose, seed: int, *sizes: int) -> int:
    """64 bits by numpy's SeedSequence over (purpose, seed, the sizes that shape the draw)."""
    return int(np.random.SeedSequence((int(purpose), seed, *sizes)).generate_state(1, np.uint64)[0])


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Task:
    """Problems of one kind and size, and the contexts in which a layer learns and is tested.

    Two tasks are equal if their runs have equal ids. A given graph or embedding is compared by its fingerprint.

    Attributes:
        graph: Words such as "permutation:64": each seed draws a graph of this family. Or one graph for all seeds.
        embedding: Words such as "gaussian:16": each seed draws rows of this family. Or one embedding or array.
        context: Items in a context, from 2 to the number of items.
        target_rate: Share of a context's items whose target is brought into the context, in [0, 1].
        objective: "edges": recognise relations. "values": pass on the related item's message (Sec. 7.2), for graphs
            with at most one relation out of each item.
        message_width: Width of the messages; None: d_model.

    Raises:
        InputError: The words name no family, the family has no such size, the embedding has not a row for each
            item, or a number lies outside its range.

    >>> task = Task("permutation:64", "gaussian:16")
    >>> task.items, task.relations, task.d_model, task.slope
    (64, 64, 16, 1.19)
    >>> task.draw(problem_seed=0).graph.is_permutation
    True
    """

    graph: GraphFamily | Graph
    embedding: EmbeddingFamily | Embedding
    context: int
    target_rate: float
    objective: Objective
    message_width: int | None

    def __init__(
        self,
        graph: str | GraphFamily | Graph,
        embedding: str | EmbeddingFamily | Embedding | ndarray,
        *,
        context: int = CONTEXT,
        target_rate: float = TARGET_RATE,
        objective: Objective = "edges",
        message_width: int | None = None,
    ) -> None:
        if isinstance(embedding, str):
            embedding = embedding_family(embedding)
        elif not isinstance(embedding, EmbeddingFamily):
            embedding = Embedding.of(embedding)
        values = {
            "graph": graph_family(graph) if isinstance(graph, str) else graph,
            "embedding": embedding,
            "context": context,
            "target_rate": target_rate,
            "objective": objective,
            "message_width": message_width,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        normalise_numbers(self)
        self._check()

    @cached_property
    def items(self) -> int:
        """m, the number of items."""
        return self.graph.items

    @property
    def relations(self) -> int:
        """m', the number of relations of each problem."""
        return self.graph.relations

    @cached_property
    def d_model(self) -> int:
        """The width of the embedding."""
        return self.embedding.d_model if isinstance(self.embedding, Embedding) else self.embedding.d_model(self.items)

    @property
    def label(self) -> str:
        """The graphs' name in pictures and tables, e.g. "4-regular graphs"."""
        return "one given graph" if isinstance(self.graph, Graph) else self.graph.label

    @property
    def slope(self) -> float:
        """The constant of the paper's law D_K* ≈ slope·m'·log2 m/d_model: 1.19 for permutations, 0.46 for others."""
        return paper_slope(self.graph)

    @cached_property
    def fields(self) -> dict[str, int | float | str]:
        """The task as flat JSON, part of the fields of its runs.

        Graphs of the kinds permutation and regular have the kind's name in `graph` and their degree in `degree`; all
        other graphs have their words or their fingerprint in `graph`, and degree 1.
        """
        graph, degree = self._graph_name, 1
        if isinstance(self.graph, GraphFamily) and self.graph.kind.name in ("permutation", "regular"):
            graph, degree = self.graph.kind.name, int(self.graph.values[0]) if self.graph.values else 1
        gaussian = isinstance(self.embedding, EmbeddingFamily) and self.embedding.kind.name == "gaussian"
        return {
            "items": self.items,
            "d_model": self.d_model,
            "graph": graph,
            "degree": degree,
            "embedding": "gaussian" if gaussian else self._embedding_name,
            "objective": self.objective,
            "message_width": self.d_model if self.message_width is None else self.message_width,
            "context": self.context,
            "target_rate": self.target_rate,
        }

    @cached_property
    def paper_weight(self) -> float | Literal["balanced"]:
        """A relation's weight in the paper's loss: context − 1 for permutations, "balanced" for all other graphs."""
        if isinstance(self.graph, Graph):
            permutation = self.graph.is_permutation
        else:
            permutation = self.graph.kind.name == "permutation"
        return float(self.context - 1) if permutation else "balanced"

    def draw(self, problem_seed: int) -> Problem:
        """The problem of a seed, its rows rounded to float32, as the engines read them.

        Args:
            problem_seed: Any whole number from 0. A given graph or embedding is the same for every seed.

        Returns:
            The graph and the embedding. Each is drawn from a key of its own, so other draws do not change it.
        """
        graph, rows = self.graph, self.embedding
        if isinstance(graph, GraphFamily):
            graph = graph.draw(seed=seed_key(Purpose.GRAPH, problem_seed, *graph.seed_words))
        if isinstance(rows, EmbeddingFamily):
            key = seed_key(Purpose.EMBEDDING, problem_seed, *rows.seed_words(self.items))
            rows = Embedding(rows.draw(self.items, seed=key))
        narrow = np.ascontiguousarray(rows.rows, dtype=np.float32)
        return Problem(graph, Embedding(narrow, names=rows.names))

    @property
    def _graph_name(self) -> str:
        return given_name(self.graph) if isinstance(self.graph, Graph) else str(self.graph)

    @property
    def _embedding_name(self) -> str:
        return given_name(self.embedding) if isinstance(self.embedding, Embedding) else str(self.embedding)

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        return (
            self._graph_name,
            self._embedding_name,
            self.context,
            self.target_rate,
            self.objective,
            self.fields["message_width"],
        )

    def __repr__(self) -> str:
        names = ("context", "target_rate", "objective", "message_width")
        rest = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"Task({self._graph_name!r}, {self._embedding_name!r}, {rest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def _check(self) -> None:
        if not isinstance(self.graph, (Graph, GraphFamily)):
            raise InputError(f"the graph of a task is words or a Graph, not {type(self.graph).__name__}")
        if self.objective not in get_args(Objective):
            raise InputError(f"unknown objective '{self.objective}': choose from {', '.join(get_args(Objective))}")
        out_degree = _largest_out_degree(self.graph)
        if isinstance(self.embedding, EmbeddingFamily):
            _check_embedding(self.embedding, self.items)
        elif self.embedding.items != self.items:
            raise InputError(f"the graph has {self.items} items but the embedding has {self.embedding.items} rows")
        if self.context > self.items:
            raise InputError(f"a context of {self.context} distinct items cannot be drawn from {self.items}")
        if self.objective == "values" and out_degree > 1:
            raise InputError("the value channel is defined for at most one relation out of each item")


@lru_cache(maxsize=1 << 10)
def _largest_out_degree(graph: GraphFamily | Graph) -> int:
    """The largest out-degree of a graph, or of one graph of the family. A family that cannot be drawn is refused."""
    drawn = graph if isinstance(graph, Graph) else graph.draw(seed=0)
    return int(drawn.out_degrees.max(initial=0))


@lru_cache(maxsize=1 << 10)
def _check_embedding(family: EmbeddingFamily, items: int) -> None:
    """Draw once, so that sizes that cannot be drawn are refused before anything is trained."""
    family.draw(items, seed=0)
