"""Problem options: the graph and the embedding that a command works on, from files or generated from a seed.

One grammar everywhere: a file, or the words of a registered kind such as permutation:64 and gaussian:16.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import Flag, Labels, Tensor, refuse
from manyheads.cli.render.answer import say
from manyheads.errors import InputError, did_you_mean
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
    header: Flag = False
    """The first line of the graph's file is a heading."""
    no_header: Flag = False
    """The first line of the graph's file is a relation."""
    all_rows: Flag = False
    """Every row of a named embedding is an item, not only the rows of the graph's labels."""

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
        how = {name: getattr(self, name) for name in ("labels", "header", "no_header", "all_rows")}
        if isinstance(embedding, str):
            return read_graph_file(self.graph, items=None, **how)[0], embedding
        graph, rows = read_graph_file(self.graph, items=embedding.items, embedding=embedding, **how)
        assert rows is not None
        return graph, rows


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
    header: bool = False,
    no_header: bool = False,
    all_rows: bool = False,
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
        header: Whether the first line of the graph's file is a heading.
        no_header: Whether it is a relation.
        all_rows: Whether rows that the graph does not name are items too.

    Returns:
        The graph, and the embedding with a row for each of its items.

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
        found, rows = read_graph_file(
            graph,
            items=items if rows is None else rows.items,
            labels=labels,
            embedding=rows,
            header=header,
            no_header=no_header,
            all_rows=all_rows,
        )
    if embedding is not None and draws_embedding:
        rows = _generated_embedding(embedding, items if found is None else found.items, embedding_seed)
    return found, rows


def names_graph(words: str) -> bool:
    """Whether the words name a kind of graph, not a file; words that are neither are refused."""
    return _names_kind(words, {name: kind.form for name, kind in GRAPH_KINDS.items()}, what="graph")


def names_embedding(words: str) -> bool:
    """Whether the words name a kind of embedding, not a file; words that are neither are refused."""
    return _names_kind(words, {name: kind.form for name, kind in EMBEDDING_KINDS.items()}, what="embedding")


def read_graph_file(
    path: str,
    *,
    items: int | None = None,
    labels: Path | None = None,
    embedding: Embedding | None = None,
    header: bool = False,
    no_header: bool = False,
    all_rows: bool = False,
) -> tuple[Graph, Embedding | None]:
    """The graph of an edge list, and the embedding, if one is given, with the rows of the graph's items.

    If the rows have names, and they are more than the names in the graph, the rows of these names are selected.
    """
    from manyheads.files import read_graph, read_labels
    from manyheads.files.graph_headings import HeadingWarning
    from manyheads.problem.embedding import Embedding
    from manyheads.problem.problem import Problem

    if header and no_header:
        raise InputError("--header and --no-header contradict each other: give one of them")
    heading = header if header or no_header else None
    names = None if labels is None else read_labels(labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HeadingWarning)
        graph = read_graph(path, items=items, labels=names if embedding is None else None, header=heading)
    known = names if embedding is None or names is not None else embedding.names
    notes = [f"{_sentence(warning.message)}; --header or --no-header decides it" for warning in caught]
    if embedding is not None and known is not None and (graph.labels is not None or names is not None):
        embedding = rows = Embedding(embedding.rows, known)
        if all_rows or graph.labels is None or set(graph.labels) == set(known):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HeadingWarning)
                graph = read_graph(path, labels=known, header=heading)
        else:
            embedding = rows.select(graph.labels)
            picked = f"{graph.items:,} of {rows.items:,} rows are items, those of the labels in {path}"
            notes.append(f"{picked}: --all-rows takes all")
    if embedding is not None:
        Problem(graph, embedding)
    for note in notes:  # after all that can be refused: a refusal is one line
        say(f"note: {note}")
    return graph, embedding


def read_embedding_file(path: str | Path, *, tensor: str | None, labels: Path | None = None) -> Embedding:
    """The embedding of a file, with the names of a file of labels."""
    from manyheads.files import read_embedding, read_labels

    return read_embedding(path, tensor=tensor, names=None if labels is None else read_labels(labels))


def _sentence(warning: Warning | str) -> str:
    """The sentence of a warning without the advice for Python."""
    return str(warning if isinstance(warning, str) else warning.args[0])


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


def _names_kind(words: str, forms: Mapping[str, str], *, what: str) -> bool:
    from manyheads.files.door import exists

    name = words.partition(":")[0]
    if name in forms:
        return True
    if (Path(words).suffix and ":" not in words) or exists(words, any_kind=True):
        return False
    near = did_you_mean(name, forms, "{}")
    hint = f"did you mean {forms[near]}?" if near else f"choose from {', '.join(forms.values())}"
    raise InputError(f"{words!r} is neither a file nor a kind of {what}: {hint}")
