"""Problem: the graph and the embedding a command works on, from files or drawn on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.errors import InputError
from manyheads.layer.rules import RULES

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from manyheads.problem.graph import Graph

RuleOption = Annotated[str, tyro.conf.arg(metavar="|".join(RULES))]  # a name, which rule_named looks up
GRAPH_HELP = (
    "An edge list (.csv, .tsv), or a graph to draw: permutation:ITEMS, regular:ITEMS:DEGREE, random:ITEMS:RELATIONS, "
    "star-out:ITEMS, star-in:ITEMS or power-law:ITEMS:RELATIONS:EXPONENT."
)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A graph and an embedding with a row for each of its items."""

    graph: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN", help=GRAPH_HELP)]
    embedding: Annotated[str, tyro.conf.arg(metavar="FILE|DRAWN")]
    """A file (.npy, .safetensors, .gguf), or one to draw: one-hot, gaussian:D_MODEL or sparse-binary:D_MODEL."""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The items' names in the order of the embedding's rows: one a line, a .json list or vocabulary, a .gguf."""
    tensor: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Which tensor is the embedding, where a safetensors file holds several."""
    graph_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 0)")] = None
    """Seed of a drawn graph."""
    embedding_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 1)")] = None
    """Seed of a drawn embedding."""

    def load(self) -> tuple[Graph, Float32[ndarray, "items d_model"]]:
        """The graph and the embedding."""
        from manyheads.cli.options.kind_words import EMBEDDINGS, draw_embedding, is_drawn
        from manyheads.files import read_embedding

        if is_drawn(self.embedding, EMBEDDINGS):
            _refuse("--tensor", self.tensor, because=f"{self.embedding} is drawn, not read from a file")
            graph = self._graph(items=None)
            embedding = draw_embedding(self.embedding, items=graph.items, seed=self._embedding_seed)
        else:
            _refuse("--embedding-seed", self.embedding_seed, because=f"{self.embedding} is a file, not drawn")
            embedding = read_embedding(self.embedding, tensor=self.tensor)
            graph = self._graph(items=len(embedding))
        if graph.items != len(embedding):
            raise InputError(f"the graph has {graph.items} items but the embedding has {len(embedding)} rows")
        return graph, embedding

    def provenance(self) -> dict[str, str | int]:
        """Where the two come from, seeds included, for the layer's file."""
        from manyheads.cli.options.kind_words import EMBEDDINGS, GRAPHS, is_drawn

        said: dict[str, str | int] = {"graph": self.graph, "embedding": self.embedding}
        if is_drawn(self.graph, GRAPHS):
            said["graph_seed"] = self._graph_seed
        if is_drawn(self.embedding, EMBEDDINGS):
            said["embedding_seed"] = self._embedding_seed
        return said

    @property
    def _graph_seed(self) -> int:
        return checked_seed("--graph-seed", 0 if self.graph_seed is None else self.graph_seed)

    @property
    def _embedding_seed(self) -> int:
        return checked_seed("--embedding-seed", 1 if self.embedding_seed is None else self.embedding_seed)

    def _graph(self, *, items: int | None) -> Graph:
        from manyheads.cli.options.kind_words import GRAPHS, draw_graph, is_drawn
        from manyheads.files import read_graph, read_labels

        labels = None if self.labels is None else read_labels(self.labels)
        if not is_drawn(self.graph, GRAPHS):
            _refuse("--graph-seed", self.graph_seed, because=f"{self.graph} is a file, not drawn")
            return read_graph(self.graph, items=items, labels=labels)
        graph = draw_graph(self.graph, seed=self._graph_seed)
        return graph if labels is None else graph.with_labels(labels)


def checked_seed(option: str, seed: int) -> int:
    """The seed, where it is one."""
    if seed < 0:
        raise InputError(f"{option} is a whole number from 0 on, not {seed}")
    return seed


def _refuse(option: str, value: object, *, because: str) -> None:
    # An option that would change nothing is a misunderstanding, which silence would hide.
    if value is not None:
        raise InputError(f"{option} does not apply: {because}")
