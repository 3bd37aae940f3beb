"""The one vocabulary of options: an option that several commands have is named, typed and explained here.

`Outputs` is the group of files that compile, fit and train write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.errors import InputError, did_you_mean
from manyheads.numbers import check_number

if TYPE_CHECKING:
    from manyheads.certificate import Certificate
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import ContextLength, Problem
    from manyheads.sweep import Workers

_argument = tyro.conf.arg
CERTIFIED_LENGTH_HELP = (
    "The number of items in a context, or the least and the greatest number (16:64): a certificate of the rule softmax "
    "is for these contexts. Other rules do not need it."
)
OTHER_PICTURES = (".pdf", ".jpg", ".jpeg", ".eps", ".gif", ".webp", ".ps", ".tif", ".tiff")
NO_DEFAULT = ""  # in place of "(default: None)"

Flag = Annotated[bool, _argument(help_behavior_hint=NO_DEFAULT)]
Whole = Annotated[int | None, _argument(metavar="INT", help_behavior_hint=NO_DEFAULT)]
Number = Annotated[float | None, _argument(metavar="FLOAT", help_behavior_hint=NO_DEFAULT)]
File = Annotated[Path | None, _argument(metavar="FILE", help_behavior_hint=NO_DEFAULT)]
Picture = Annotated[Path | None, _argument(metavar="STEM", help_behavior_hint=NO_DEFAULT)]

Json = Annotated[bool, _argument(help="Print JSON instead of a table.", help_behavior_hint=NO_DEFAULT)]
Force = Annotated[bool, _argument(help="Overwrite files that exist.", help_behavior_hint=NO_DEFAULT)]
Output = Annotated[Path | None, _argument(metavar="FILE", aliases=("-o",), help_behavior_hint=NO_DEFAULT)]
Labels = Annotated[
    Path | None,
    _argument(
        metavar="FILE",
        help="The names of the embedding's rows in their order: a line each, a .json list, vocabulary or tokenizer, a "
        ".gguf.",
        help_behavior_hint=NO_DEFAULT,
    ),
]
Tensor = Annotated[
    str | None,
    _argument(
        metavar="NAME",
        help="The tensor that is the embedding, where a safetensors file holds several.",
        help_behavior_hint=NO_DEFAULT,
    ),
]
LayerFile = Annotated[
    tyro.conf.Positional[Path],
    _argument(metavar="LAYER", help="The layer, a .safetensors file that manyheads wrote."),
]
LengthRange = Annotated[str | None, _argument(metavar="N|A:B", help_behavior_hint=NO_DEFAULT)]
Heads = Annotated[int, _argument(help="Number of heads.")]
KeyWidth = Annotated[int, _argument(help="Width of each head's queries and keys, d_k.")]
TimeLimit = Annotated[float | None, _argument(metavar="SECONDS", help_behavior_hint="(default: no limit)")]
Device = Annotated[str, _argument(help="The device of PyTorch that computes, e.g. cpu or cuda.")]
WorkerCount = Annotated[
    int | None,
    _argument(metavar="INT", help="How many runs are trained at once.", help_behavior_hint="(default: one a core)"),
]
Dask = Annotated[
    str | None,
    _argument(
        metavar="ADDRESS",
        help="Work on the Dask cluster at this address, e.g. tcp://host:8786.",
        help_behavior_hint=NO_DEFAULT,
    ),
]
StoreFile = Annotated[Path, _argument(metavar="FILE", help="The store: results are looked up and kept in this file.")]
GoalWord = Annotated[str, _argument(metavar="F1|exact")]


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the nearest valid word, or all of them."""
    return did_you_mean(word, known, ": did you mean {}?") or f": choose from {', '.join(known)}"


def refuse(option: str, value: object, *, because: str) -> None:
    """Refuse an option that has no effect: otherwise the user would not notice a mistake."""
    if value is not None:
        raise InputError(f"--{option.replace('_', '-')} does not apply: {because}")


def whole_number(option: str, text: str) -> int:
    """The whole number that an option was given as text, in the range of the option."""
    if not re.fullmatch("[0-9]{1,400}", text):
        raise InputError(f"{option} is a whole number, not {text!r}")
    return int(check_number(option.lstrip("-").replace("-", "_"), int(text), said=option))


def finite_number(option: str, text: str) -> float:
    """The finite number that an option was given as text."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{option} is a number, not {text!r}") from None
    return check_number("constants", value, said=option)


def parse_context_length(text: str | None) -> ContextLength:
    """The context lengths that words name: 64 is that length, 16:64 is every length from 16 to 64."""
    if text is None:
        return None
    low, colon, high = text.partition(":")
    if not re.fullmatch(r"[0-9]{1,400}(:[0-9]{1,400})?", text):
        raise InputError(f"--context-length is a number such as 64 or a range such as 16:64, not {text!r}")
    shortest = whole_number("--context-length", low)
    return (shortest, whole_number("--context-length", high)) if colon else shortest


def check_pictures(stems: Sequence[Path | None], *, force: bool) -> list[Path]:
    """The files of the pictures. Files that cannot be written are refused before the work."""
    from manyheads.files import check_writable
    from manyheads.files.atomic_files import picture_files

    for stem in stems:
        refuse_other_picture(stem)
    paths = [path for stem in stems if stem is not None for path in picture_files(stem)]
    for path in paths:
        check_writable(path, force=force)
    return paths


def refuse_other_picture(stem: Path | None) -> None:
    """Refuse a name that asks for another format than .png and .svg, and a directory without a name in it."""
    if stem is not None and not stem.name:
        raise InputError(f"--picture is the beginning of a file's name, not the directory {stem}")
    if stem is not None and stem.suffix.lower() in OTHER_PICTURES:
        raise InputError(f"pictures are written as .png and .svg, not as {stem.suffix}: give {stem.stem!r}")


def open_workers(workers: int | None, dask_address: str | None, *, in_processes: bool = False) -> Workers:
    """The workers that --workers and --dask ask for: threads or processes of this machine, or a Dask cluster."""
    from manyheads.sweep import dask, processes, threads

    if dask_address is None:
        return processes(workers) if in_processes else threads(workers)
    refuse("workers", workers, because="the Dask cluster has its own workers")
    return dask(dask_address)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Files to write, all of them or none."""

    output: Output = None
    """Where to write the layer (.safetensors). It is written for every verdict."""
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
        """Refuse, before the work, files that cannot be written after it."""
        from manyheads.files import check_writable

        require_ending("--output", self.output, (".safetensors",))
        require_ending("--save-graph", self.save_graph, (".csv", ".tsv"))
        require_ending("--save-embedding", self.save_embedding, (".npy", ".safetensors"))
        if len({path.absolute() for path in self.paths}) < len(self.paths):
            raise InputError("two of the files to write have the same name")
        for path in self.paths:
            check_writable(path, force=self.force)

    def write(
        self,
        problem: Problem,
        layer: Layer | None,
        provenance: Mapping[str, str | int],
        certificate: Certificate | None = None,
    ) -> list[Path]:
        """Write the files that were asked for; without a layer, only graph and embedding.

        Args:
            problem: The graph and the embedding.
            layer: The layer.
            provenance: Facts on the origin of the layer.
            certificate: Of the layer, to be written into its file; None: the layer has none.

        Returns:
            The files that were written.
        """
        from manyheads.certificate import described
        from manyheads.files import pack_embedding, pack_graph, pack_layer, write_together

        files: dict[Path, bytes] = {}
        if self.output is not None and layer is not None:
            named = replace(layer, labels=problem.graph.labels)
            known = named if certificate is None else described(layer, problem, certificate)
            files[self.output] = pack_layer(known, provenance=provenance)
        if self.save_graph is not None:
            files[self.save_graph] = pack_graph(self.save_graph, problem.graph)
        if self.save_embedding is not None:
            files[self.save_embedding] = pack_embedding(self.save_embedding, problem.rows, problem.graph.labels)
        write_together(files, force=self.force)
        return list(files)


def require_ending(option: str, path: Path | None, allowed: tuple[str, ...]) -> None:
    """Refuse a file whose name does not end as its format demands."""
    if path is not None and path.suffix not in allowed:
        endings = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if len(allowed) > 1 else allowed)
        raise InputError(f"{option} must end in {endings}, not as {path.name!r} does")
