"""Problem options: the graph and the embedding that a command works on, from files or generated from a seed.

One grammar everywhere: a file, or the words of a registered kind such as permutation:64 and gaussian:16.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import Labels, Tensor, refuse
from manyheads.errors import InputError
from manyheads.layer.rules import RULES
from manyheads.problem.embedding_kinds import EMBEDDING_KINDS, EmbeddingKind, embedding_family
from manyheads.problem.graph_kinds import GRAPH_KINDS, GraphKind, graph_family

if TYPE_CHECKING:
    from manyheads.problem.embedding import Embedding
    from manyheads.problem.graph import Graph
    from manyheads.problem.problem import Problem

GRAPH_SEED, EMBEDDING_SEED = 0, 1


def _forms(kinds: Mapping[str, GraphKind] | Mapping[str, EmbeddingKind]) -> str:
    *before, last = [kind.form for kind in kinds.values()]
    return f"{', '.join(before)} or {last}"


GRAPH_HELP = f"An edge list (.csv, .tsv), or a graph generated from a seed: {_forms(GRAPH_KINDS)}."
EMBEDDING_HELP = (
    f"A file (.npy, .safetensors, .gguf), or an embedding generated from a seed: {_forms(EMBEDDING_KINDS)}."
)
RULE_HELP = f"How the heads' scores of a pair are joined: {', '.join(RULES)}."
RuleName = Annotated[str, tyro.conf.arg(metavar="RULE", help=RULE_HELP)]
GraphWords = Annotated[str, tyro.conf.arg(metavar="FILE|KIND", help=GRAPH_HELP)]
EmbeddingWords = Annotated[str, tyro.conf.arg(metavar="FILE|KIND", help=EMBEDDING_HELP)]
MaybeGraphWords = Annotated[str | None, tyro.conf.arg(metavar="FILE|KIND", help=GRAPH_HELP, help_behavior_hint="")]
MaybeEmbeddingWords = Annotated[
    str | None, tyro.conf.arg(metavar="FILE|KIND", help=EMBEDDING_HELP, help_behavior_hint="")
]
GraphSeed = Annotated[
    int | None,
    tyro.conf.arg(metavar="INT", help="Seed of a generated graph.", help_behavior_hint=f"(default: {GRAPH_SEED})"),
]
EmbeddingSeed = Annotated[
    int | None,
    tyro.conf.arg(
        metavar="INT", help="Seed of a generated embedding.", help_behavior_hint=f"(default: {EMBEDDING_SEED})"
    ),
]


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """A graph and an embedding, generated anew for each seed where they are words of a kind."""

    graph: GraphWords
    embedding: EmbeddingWords
    labels: Labels = None
    tensor: Tensor = None

    def load_task(self) -> tuple[str | Graph, str | Embedding]:
        """The words of a kind as they are; the content of a file."""
        graph_words, embedding_words = names_graph(self.graph), names_embedding(self.embedding)
        if graph_words:
            graph_family(self.graph)
            refuse("labels", self.labels, because=f"{self.graph} is generated, not read from a file")
        if embedding_words:
            embedding_family(self.embedding)
            refuse("tensor", self.tensor, because=f"{self.embedding} is generated, not read from a file")
        embedding = self.embedding if embedding_words else read_embedding_file(self.embedding, tensor=self.tensor)
        if graph_words:
            return self.graph, embedding
        items = None if isinstance(embedding, str) else embedding.items
        return read_graph_file(self.graph, items=items, labels=self.labels), embedding


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(TaskOptions):
    """A graph, and an embedding with a row for each of its items, each generated from one seed or read from a file."""

    graph_seed: GraphSeed = None
    embedding_seed: EmbeddingSeed = None

    def load(self) -> Problem:
        """The problem, read from files or generated from the seeds."""
        from manyheads.problem.problem import Problem

        graph, embedding = load_parts(**vars(self))
        assert graph is not None
        assert embedding is not None
        return Problem(graph, embedding)

    def provenance(self) -> dict[str, str | int]:
        """The origin of graph and embedding, seeds included, for the layer's file."""
        origin: dict[str, str | int] = {"graph": self.graph, "embedding": self.embedding}
        if names_graph(self.graph):
            origin["graph_seed"] = GRAPH_SEED if self.graph_seed is None else self.graph_seed
        if names_embedding(self.embedding):
            origin["embedding_seed"] = EMBEDDING_SEED if self.embedding_seed is None else self.embedding_seed
        return origin


def load_parts(
    *,
    graph: str | None,
    embedding: str | None,
    labels: Path | None = None,
    tensor: str | None = None,
    graph_seed: int | None = None,
    embedding_seed: int | None = None,
    items: int | None = None,
) -> tuple[Graph | None, Embedding | None]:
    """The graph and the embedding that the words name; None if there are no words.

    Args:
        graph: A file, or the words of a kind of graph.
        embedding: A file, or the words of a kind of embedding.
        labels: A file with the items' names.
        tensor: The tensor of the embedding's file.
        graph_seed: Seed of a generated graph.
        embedding_seed: Seed of a generated embedding.
        items: The number of items, if neither graph nor embedding says it.

    Raises:
        InputError: Words are neither a file nor a kind, or an option has no use.
    """
    draws_graph = graph is not None and names_graph(graph)
    draws_embedding = embedding is not None and names_embedding(embedding)
    if not draws_graph:
        refuse("graph_seed", graph_seed, because=_not_generated("graph", graph))
    if not draws_embedding:
        refuse("embedding_seed", embedding_seed, because=_not_generated("embedding", embedding))
    if draws_embedding:
        refuse("tensor", tensor, because=f"{embedding} is generated, not read from a file")
    if embedding is None:
        refuse("tensor", tensor, because="it names a tensor of the embedding's file: give --embedding")
    rows = None if embedding is None or draws_embedding else read_embedding_file(embedding, tensor=tensor)
    found = None
    if graph is not None and draws_graph:
        found = _generated_graph(graph, labels, graph_seed)
    elif graph is not None:
        found = read_graph_file(graph, items=items if rows is None else rows.items, labels=labels)
    if embedding is not None and draws_embedding:
        rows = _generated_embedding(embedding, items if found is None else found.items, embedding_seed)
    return found, rows


def names_graph(words: str) -> bool:
    """Whether the words name a kind of graph, not a file; words that are neither are refused."""
    return _names_kind(words, GRAPH_KINDS, [kind.form for kind in GRAPH_KINDS.values()], what="graph")


def names_embedding(words: str) -> bool:
    """Whether the words name a kind of embedding, not a file; words that are neither are refused."""
    return _names_kind(words, EMBEDDING_KINDS, [kind.form for kind in EMBEDDING_KINDS.values()], what="embedding")


def read_graph_file(path: str, *, items: int | None, labels: Path | None) -> Graph:
    """The graph of an edge list."""
    from manyheads.files import read_graph, read_labels

    return read_graph(path, items=items, labels=None if labels is None else read_labels(labels))


def read_embedding_file(path: str | Path, *, tensor: str | None) -> Embedding:
    """The embedding of a file."""
    from manyheads.files import read_embedding
    from manyheads.problem.embedding import Embedding

    return Embedding.of(read_embedding(path, tensor=tensor))


def _generated_graph(words: str, labels: Path | None, seed: int | None) -> Graph:
    from manyheads.files import read_labels

    graph = graph_family(words).draw(seed=GRAPH_SEED if seed is None else seed)
    return graph if labels is None else graph.with_labels(read_labels(labels))


def _generated_embedding(words: str, items: int | None, seed: int | None) -> Embedding:
    from manyheads.problem.embedding import Embedding

    if items is None:
        raise InputError(f"{words} needs a number of items: give --graph or --items")
    return Embedding.of(embedding_family(words).draw(items, seed=EMBEDDING_SEED if seed is None else seed))


def _not_generated(option: str, words: str | None) -> str:
    return f"there is no {option}: give --{option}" if words is None else f"{words} is a file, not generated"


def _names_kind(words: str, kinds: Iterable[str], forms: list[str], *, what: str) -> bool:
    name = words.partition(":")[0]
    if name in kinds:
        return True
    path = Path(words)
    if path.exists() or (path.suffix and ":" not in words):
        return False
    near = difflib.get_close_matches(name, list(kinds), n=1)
    nearest = next((form for form in forms if near and form.partition(":")[0] == near[0]), None)
    hint = f"did you mean {nearest}?" if nearest else f"choose from {', '.join(forms)}"
    raise InputError(f"{words!r} is neither a file nor a kind of {what}: {hint}")
