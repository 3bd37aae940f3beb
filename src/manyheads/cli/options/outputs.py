"""Outputs: the files of a command that makes a layer; after bad input none of them exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.cli.options.vocabulary import File, Force, Output
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files to write, each whole or not at all."""

    output: Output = None
    """Where to write the layer (.safetensors). It is written whatever the verdict."""
    save_graph: File = None
    """Where to write the graph (.csv, .tsv)."""
    save_embedding: File = None
    """Where to write the embedding (.npy, .safetensors)."""
    force: Force = False

    @property
    def paths(self) -> list[Path]:
        """The files asked for."""
        return [path for path in (self.output, self.save_graph, self.save_embedding) if path is not None]

    def check(self) -> None:
        """Refuse before the work the files that could not be written after it."""
        from manyheads.files import check_writable

        require_ending("--output", self.output, (".safetensors",))
        require_ending("--save-graph", self.save_graph, (".csv", ".tsv"))
        require_ending("--save-embedding", self.save_embedding, (".npy", ".safetensors"))
        if len({path.absolute() for path in self.paths}) < len(self.paths):
            raise InputError("two of the files to write have the same name")
        for path in self.paths:
            check_writable(path, force=self.force)

    def write(self, problem: Problem, layer: Layer | None, provenance: Mapping[str, str | int]) -> list[Path]:
        """Write the files that were asked for; without a layer, only graph and embedding.

        Returns:
            The files that were written.
        """
        from manyheads.files import write_embedding, write_graph, write_layer

        written = []
        if self.output is not None and layer is not None:
            write_layer(self.output, layer, provenance=provenance, force=self.force)
            written.append(self.output)
        if self.save_graph is not None:
            write_graph(self.save_graph, problem.graph, force=self.force)
            written.append(self.save_graph)
        if self.save_embedding is not None:
            write_embedding(self.save_embedding, problem.rows, force=self.force)
            written.append(self.save_embedding)
        return written


def require_ending(option: str, path: Path | None, allowed: tuple[str, ...]) -> None:
    """Refuse a file whose name does not end as its format demands."""
    if path is not None and path.suffix not in allowed:
        endings = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        raise InputError(f"{option} must end in {endings}, not as {path.name!r} does")
