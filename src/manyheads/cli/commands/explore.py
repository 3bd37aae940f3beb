"""`manyheads explore`: a page on which a layer is trained and proved in the browser; or a page about one layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    Flag,
    Force,
    Json,
    Labels,
    LengthRange,
    Tensor,
    parse_context_length,
    refuse,
    require_ending,
)
from manyheads.cli.options.problem_options import (
    EmbeddingSeed,
    GraphSeed,
    MaybeEmbeddingWords,
    MaybeGraphWords,
    load_parts,
)
from manyheads.cli.render.answer import Answer, shown_files
from manyheads.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ExploreCommand:
    """Write a page for the browser: move the sliders, train a layer, see F1 jump, prove the layer, read the paper.

    The page is one file of less than 1.5 MB. It works from the disk, and sends nothing anywhere. It trains with the
    same engine as `manyheads train`: the same runs have the same ids. With LAYER and --embedding, the page is about
    this layer of up to 2,000 items: search a word, see what attends to what and by which head. With --graph too, it has
    the certificate and the hardest pairs.
    """

    layer: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(metavar="[LAYER]", help="A layer, a .safetensors file of manyheads.", help_behavior_hint=""),
    ] = None
    graph: MaybeGraphWords = None
    embedding: MaybeEmbeddingWords = None
    labels: Labels = None
    tensor: Tensor = None
    graph_seed: GraphSeed = None
    embedding_seed: EmbeddingSeed = None
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    output: Annotated[Path, tyro.conf.arg(metavar="FILE", aliases=("-o",))] = Path("explore.html")
    """Where to write the page (.html)."""
    open: Flag = False
    """Open the page in the browser."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Write the page, and open it if asked."""
        import webbrowser

        from manyheads.files import check_writable
        from manyheads.files.atomic_files import write_whole

        require_ending("--output", self.output, (".html",))
        check_writable(self.output, force=self.force)
        page = self._page()
        write_whole(self.output, page.encode(), force=self.force)
        opened = webbrowser.open(self.output.absolute().as_uri()) if self.open else None
        notes = [f"no browser could be started: open {self.output} yourself"] if opened is False else []
        return Answer(
            facts={"written": [self.output], "opened": opened},
            shown=[*shown_files([self.output]), *notes],
            yes=True,
        )

    def _page(self) -> str:
        """The page of the engine, or of the layer."""
        from manyheads.files import read_layer
        from manyheads.page import explore_page, layer_page

        options = ("graph", "embedding", "labels", "tensor", "graph_seed", "embedding_seed")
        if self.layer is None:
            for name in (*options, "context_length"):
                refuse(name, getattr(self, name), because="it is about a layer: give LAYER")
            return explore_page()
        if self.embedding is None:
            raise InputError("a page about a layer needs the rows of its items: give --embedding")
        layer = read_layer(self.layer)
        items = None if layer.record is None else layer.record.certificate["items"]
        assert items is None or isinstance(items, int)
        parts = {name: getattr(self, name) for name in options if name != "labels" or self.graph is not None}
        graph, rows = load_parts(**parts, items=items)
        assert rows is not None
        if self.labels is not None and graph is None:
            from manyheads.files import read_labels
            from manyheads.problem.embedding import Embedding

            rows = Embedding(rows.rows, read_labels(self.labels))
        length = parse_context_length(self.context_length)
        return layer_page(layer, rows, graph=graph, context_length=length, name=self.layer.name)
