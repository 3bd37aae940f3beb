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
from manyheads.cli.render.answer import Answer, rendered, tell
from manyheads.errors import InputError
from manyheads.text import shown_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from manyheads.layer.layer_vocabulary import RecognisedPair, Vocabulary

PROMPT = "words> "
MOST_SHOWN = 40  # lines; --json has all


@dataclass(frozen=True, kw_only=True)
class AttendCommand:
    """Show which words attend to which, by how much, and through which head.

    Several words are one context. A single word is shown with all items it attends to, and all that attend to it.
    Without words, the command asks for them line by line. A word stands for its label and for that label at the
    beginning of a word, as tokenisers mark it (Ġcat, ▁cat). Heads are numbered from 0.
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
        from manyheads.files import read_labels, read_layer
        from manyheads.layer.layer_vocabulary import Vocabulary

        layer, embedding = read_layer(self.layer), read_embedding_file(self.embedding, tensor=self.tensor)
        names = embedding.names if self.labels is None else read_labels(self.labels)
        if self.graph is not None:
            graph, chosen = read_graph_file(
                str(self.graph), items=embedding.items, labels=self.labels, embedding=embedding
            )
            assert chosen is not None
            embedding, names = chosen, graph.labels
        vocabulary = Vocabulary(layer, embedding.rows, names)
        if self.words:
            return attention_answer(vocabulary, self.words)
        if self.json:
            raise InputError("--json needs words: give them after the layer")
        return replace(_converse(vocabulary), shown=())


def attention_answer(vocabulary: Vocabulary, words: tuple[str, ...]) -> Answer:
    """The attention among these words, or of one word among all items; yes if any item attends to another."""
    items = vocabulary.items(words)
    if len(words) == 1:
        found = list(dict.fromkeys([*vocabulary.all_from(items), *vocabulary.all_to(items)]))  # a loop is in both
        where = f"all {len(vocabulary.embedding)} items"
    else:
        found = vocabulary.within(items)
        where = f"the context {' '.join(map(vocabulary.name, items))}"
    return Answer(
        facts={
            "words": list(words),
            "items": [{"item": item, "label": vocabulary.name(item)} for item in items],
            "threshold": vocabulary.layer.threshold,
            "attends": [_fact(vocabulary, attention) for attention in found],
        },
        shown=_shown(vocabulary, found, where),
        yes=bool(found),
    )


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


def _converse(vocabulary: Vocabulary) -> Answer:
    """Answer line by line; bad input is one sentence, and the next line is read."""
    answers: list[Answer] = []
    while (line := _line()) is not None:
        try:
            words = tuple(shlex.split(line))
        except ValueError:
            words = tuple(line.split())  # an apostrophe is not a quotation mark
        if not words:
            continue
        try:
            answers.append(attention_answer(vocabulary, words))
            said = rendered(answers[-1].shown)
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
