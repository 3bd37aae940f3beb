"""`manyheads attend`: type words, and see which words attend to which."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import File, Json, Labels, LayerFile, Tensor
from manyheads.cli.options.problem_options import read_embedding_file, read_graph_file
from manyheads.cli.render.answer import Answer, rendered, say, shown_notes, tell
from manyheads.errors import InputError
from manyheads.tables import counted
from manyheads.text import shown_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from manyheads.layer.layer import Layer
    from manyheads.layer.layer_vocabulary import RecognisedPair, Vocabulary
    from manyheads.problem.embedding import Embedding

PROMPT = "words> "
MOST_SHOWN = 40  # lines; --json has all


@dataclass(frozen=True, kw_only=True)
class AttendCommand:
    """Show which words attend to which, by how much, and through which head.

    Several words are one context. A single word is shown with all items it attends to, and all that attend to it.
    Without words, the command asks for them line by line. A word stands for its label and for that label at the
    beginning of a word, as tokenisers mark it (Ġcat, ▁cat). Heads are numbered from 0. The names come from --labels or
    --graph, else from the embedding, else from the layer's file. If the embedding has more rows than the layer has
    items, the rows of the layer's labels are taken. The layer's file says what was proved about the layer; a note says
    when the context or the rows are outside of that.
    """

    layer: LayerFile
    words: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[WORD …]", help_behavior_hint="")
    ] = ()
    """Labels of items, or their numbers if there are no labels."""
    embedding: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The embedding (.npy, .safetensors, .gguf)."""
    labels: Labels = None
    tensor: Tensor = None
    graph: File = None
    """An edge list: only the items that it names are looked at, not every row of the embedding."""
    json: Json = False

    def run(self) -> Answer:
        """Look the words up; yes if any word attends to another. Without words, ask for them until the input ends."""
        from manyheads.cli.render.layer_table import record_words
        from manyheads.files import read_layer
        from manyheads.layer.layer_vocabulary import Vocabulary

        layer = read_layer(self.layer)
        embedding = self._items(layer, read_embedding_file(self.embedding, tensor=self.tensor, labels=self.labels))
        vocabulary = Vocabulary(layer, embedding.rows, embedding.names)
        is_other = layer.record is not None and layer.record.embedding != embedding.fingerprint
        if self.words:
            answer = attention_answer(vocabulary, self.words, other_rows=is_other)
            return replace(answer, shown=[*answer.shown, shown_text(record_words(layer))])
        if self.json:
            raise InputError("--json needs words: give them after the layer")
        return replace(_converse(vocabulary, other_rows=is_other), shown=())

    def _items(self, layer: Layer, embedding: Embedding) -> Embedding:
        """The rows of the layer's items with their names."""
        from manyheads.layer.layer_vocabulary import layer_rows

        if self.graph is None:
            return layer_rows(layer, embedding)
        graph, chosen = read_graph_file(str(self.graph), items=embedding.items, embedding=embedding)
        assert chosen is not None
        return replace(chosen, names=graph.labels)


def attention_answer(vocabulary: Vocabulary, words: tuple[str, ...], *, other_rows: bool = False) -> Answer:
    """The attention among these words, or of one word among all items; yes if any item attends to another.

    Args:
        vocabulary: The layer with the rows of its items and their names.
        words: One item, or all items of a context.
        other_rows: Whether the rows are not those of the certificate in the layer's file.

    Returns:
        The pairs, and notes where the file's certificate does not cover the question.
    """
    from manyheads.cli.render.layer_table import record_facts

    items = vocabulary.items(words)
    if len(words) == 1:
        found = list(dict.fromkeys([*vocabulary.all_from(items), *vocabulary.all_to(items)]))  # a loop is in both
        where = f"all {len(vocabulary.embedding)} items"
    else:
        found = vocabulary.within(items)
        where = f"the context {' '.join(map(vocabulary.name, items))}"
    length = len(items) if len(words) > 1 else None
    notes = outside_notes(vocabulary.layer, length, other_rows=other_rows)
    return Answer(
        facts={
            "words": list(words),
            "items": [{"item": item, "label": vocabulary.name(item)} for item in items],
            "threshold": vocabulary.layer.threshold,
            "attends": [_fact(vocabulary, attention) for attention in found],
            "file_says": record_facts(vocabulary.layer),
            "notes": notes,
        },
        shown=[*_shown(vocabulary, found, where), *shown_notes(notes)],
        yes=bool(found),
    )


def outside_notes(layer: Layer, length: int | None, *, other_rows: bool) -> list[str]:
    """Why the certificate in the layer's file says nothing about a context; nothing if it covers the context.

    Args:
        layer: The layer with the record of its file.
        length: The number of items in the context; None: every context.
        other_rows: Whether the rows are not those of the certificate.

    Returns:
        A sentence for each reason.
    """
    record = layer.record
    if record is None:
        return []
    if not record.holds:
        return [f"nothing is proved here: the layer is {record.certificate['verdict']}, the file says"]
    notes = []
    if length is not None and not record.covers(length):
        notes.append(
            f"nothing is proved here: the context has {counted(length, 'item')}, and the file's certificate is about "
            f"{record.contexts}"
        )
    if other_rows:
        notes.append("nothing is proved here: the rows are not those of the file's certificate")
    return notes


def _shown(vocabulary: Vocabulary, found: list[RecognisedPair], where: str) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    if not found:
        return [Text(shown_text(f"nothing attends to anything among {where}"))]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("word", "attends to"):
        table.add_column(heading)
    for heading in ("score", "margin", "head"):
        table.add_column(heading, justify="right")
    for one in found[:MOST_SHOWN]:
        names = (Text(shown_text(vocabulary.name(item))) for item in (one.source, one.target))
        table.add_row(*names, f"{one.score:.4g}", f"{one.margin:.3g}", str(one.head))
    more = [Text(f"… and {len(found) - MOST_SHOWN} more: --json has all")] if len(found) > MOST_SHOWN else []
    return [table, *more]


def _fact(vocabulary: Vocabulary, one: RecognisedPair) -> dict[str, object]:
    return {
        "source": vocabulary.name(one.source),
        "target": vocabulary.name(one.target),
        "score": one.score,
        "margin": one.margin,
        "head": one.head,
    }


def _converse(vocabulary: Vocabulary, *, other_rows: bool) -> Answer:
    """Answer line by line; bad input is one sentence, and the next line is read."""
    from manyheads.cli.render.layer_table import record_words

    answers: list[Answer] = []
    while (line := _line()) is not None:
        try:
            words = tuple(shlex.split(line))
        except ValueError:
            words = tuple(line.split())  # an apostrophe is not a quotation mark
        if not words:
            continue
        try:
            answers.append(attention_answer(vocabulary, words, other_rows=other_rows))
            said = rendered(answers[-1].shown)
            if len(answers) == 1:
                say(record_words(vocabulary.layer))
        except InputError as error:
            said = str(error)
        if not tell(said):
            break
    if not answers:
        raise InputError("no word was given")
    return answers[-1]


def _line() -> str | None:
    try:
        return input(PROMPT if sys.stdin.isatty() else "")
    except EOFError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        from manyheads.files.door import reason

        raise InputError(f"the words cannot be read: {reason(error)}") from None
