"""Outputs: the files a command leaves behind, all of them or, after bad input, none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.render.answer import Flag
from manyheads.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from manyheads.layer.layer import Layer
    from manyheads.problem.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files to write, each whole or not at all."""

    output: Annotated[Path | None, tyro.conf.arg(metavar="FILE", aliases=("-o",), help_behavior_hint="")] = None
    """Where to write the layer (.safetensors). It is written whatever the verdict; the exit code tells."""
    save_graph: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to write the graph (.csv, .tsv)."""
    save_embedding: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to write the embedding (.npy, .safetensors)."""
    force: Flag = False
    """Overwrite files that exist."""

    @property
    def paths(self) -> list[Path]:
        """The files asked for."""
        return [path for path in (self.output, self.save_graph, self.save_embedding) if path is not None]

    def check(self) -> None:
        """Refuse before the work what could not be written after it."""
        from manyheads.files import check_writable

        endings = {
            "--output": (self.output, (".safetensors",)),
            "--save-graph": (self.save_graph, (".csv", ".tsv")),
            "--save-embedding": (self.save_embedding, (".npy", ".safetensors")),
        }
        for option, (path, allowed) in endings.items():
            if path is not None and path.suffix not in allowed:
                raise InputError(f"{option} must end in {' or '.join(allowed)}, not as {path.name!r} does")
        if len({path.absolute() for path in self.paths}) < len(self.paths):
            raise InputError("two of the files to write have the same name")
        for path in self.paths:
            check_writable(path, force=self.force)

    def write(
        self,
        graph: Graph,
        embedding: Float32[ndarray, "items d_model"],
        layer: Layer | None,
        provenance: Mapping[str, str | int],
    ) -> list[Path]:
        """Write what was asked for and is there; the files that now exist."""
        from manyheads.files import write_embedding, write_graph, write_layer

        written = []
        if self.output is not None and layer is not None:
            write_layer(self.output, layer, provenance=provenance, force=self.force)
            written.append(self.output)
        if self.save_graph is not None:
            write_graph(self.save_graph, graph, force=self.force)
            written.append(self.save_graph)
        if self.save_embedding is not None:
            write_embedding(self.save_embedding, embedding, force=self.force)
            written.append(self.save_embedding)
        return written
