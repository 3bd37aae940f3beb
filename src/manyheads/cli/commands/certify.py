"""`manyheads certify`: a proof that a layer holds a graph, or the pair that refutes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from manyheads.cli.options.problem_options import Problem
from manyheads.cli.render.answer import Answer, Flag
from manyheads.cli.render.progress_line import progress
from manyheads.errors import InputError

ContextLength = Annotated[str | None, tyro.conf.arg(metavar="N|A:B", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Certify:
    """Prove that a layer recognises a graph in every context, or show where it fails."""

    layer: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LAYER")]
    """The layer, a .safetensors file that manyheads wrote."""
    problem: tyro.conf.OmitArgPrefixes[Problem]
    context_length: ContextLength = None
    """How many items a context has, or from how many to how many (16:64); only the rule softmax asks for it."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Read, certify, tell."""
        from manyheads.certificate import certify
        from manyheads.cli.render.certificate_table import layer_facts, shown_certificate
        from manyheads.files import read_layer, read_provenance
        from manyheads.problem.problem import Problem as GraphProblem

        length = parse_context_length(self.context_length)
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        graph, embedding = self.problem.load()
        with progress("certify") as report:
            certificate = certify(layer, GraphProblem(graph, embedding), context_length=length, progress=report)
        return Answer(
            facts={"layer": layer_facts(layer, provenance), "certificate": certificate.to_json()},
            shown=shown_certificate(certificate),
            yes=certificate.holds,
        )


def parse_context_length(text: str | None) -> int | tuple[int, int] | None:
    """64 means contexts of exactly 64 items, 16:64 those of 16 to 64."""
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,9})?", text):
        raise InputError(f"--context-length is a number such as 64 or a range such as 16:64, not {text!r}")
    low, _, high = text.partition(":")
    return (int(low), int(high)) if high else int(low)
