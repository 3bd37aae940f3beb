"""`manyheads compile`: a layer that holds a graph, and the certificate that it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.commands.certify import ContextLength, parse_context_length
from manyheads.cli.options.construction import Construction
from manyheads.cli.options.fit_options import Fitting
from manyheads.cli.options.outputs import Outputs
from manyheads.cli.options.problem_options import Problem
from manyheads.cli.render.answer import Answer, Flag
from manyheads.cli.render.progress_line import progress
from manyheads.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from manyheads.certificate import Certificate
    from manyheads.layer.layer import Layer
    from manyheads.problem.graph import Graph
    from manyheads.problem.problem import Problem as GraphProblem

SMALLEST_HELP = (
    "Search for the smallest key budget. For fit: the smallest that certifies within --time-limit. Else the block size "
    "and key width at which 19 of 20 draws separate, with the paper's threshold and with the best one, or only with "
    "the one that --threshold names."
)


@dataclass(frozen=True, kw_only=True)
class Compile:
    """Build a layer that recognises a graph: by one of the paper's constructions, or fitted, as small as can be."""

    problem: tyro.conf.OmitArgPrefixes[Problem]
    construction: tyro.conf.OmitArgPrefixes[Construction] = field(default_factory=Construction)
    fitting: tyro.conf.OmitArgPrefixes[Fitting] = field(default_factory=Fitting)
    files: tyro.conf.OmitArgPrefixes[Outputs] = field(default_factory=Outputs)
    smallest: Annotated[bool, tyro.conf.arg(help=SMALLEST_HELP, help_behavior_hint="")] = False
    max_budget: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: m')")] = None
    """The largest key budget that --smallest looks at; one head of width 1 for each relation takes m'. For fit the
    predicted budget where that is larger."""
    context_length: ContextLength = None
    """How many items a context has, or from how many to how many (16:64): what a softmax layer is certified for."""
    certify: Flag = True
    """Build the layer without certifying it."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Build, certify, write, tell."""
        length = parse_context_length(self.context_length)
        self._check(length)
        self.files.check()
        graph, embedding = self.problem.load()
        if self.construction.name == "fit":
            from manyheads.cli.commands.fit import compile_fit

            return compile_fit(self, graph, embedding, length)
        if self.smallest:
            from manyheads.cli.commands.smallest import find_smallest

            return find_smallest(self, graph, embedding)
        return self._compile(graph, embedding, length)

    def _compile(
        self, graph: Graph, embedding: Float32[ndarray, "items d_model"], length: int | tuple[int, int] | None
    ) -> Answer:
        from manyheads.cli.render.certificate_table import (
            layer_facts,
            shown_certificate,
            shown_files,
            shown_layer,
            shown_notes,
        )
        from manyheads.problem.problem import Problem as GraphProblem

        problem = GraphProblem(graph, embedding)
        built = self.construction.build(problem, context_length=length)
        layer, certificate = self._certified(built.layer, problem, length)
        provenance = self.provenance()
        written = self.files.write(graph, embedding, layer, provenance)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "certificate": certificate and certificate.to_json(),
                "notes": built.notes,
                "written": [str(path) for path in written],
            },
            shown=[
                *shown_notes(built.notes),
                *(shown_certificate(certificate) if certificate else shown_layer(layer, graph)),
                *shown_files(written),
            ],
            yes=certificate is None or certificate.holds,
        )

    def _certified(
        self,
        layer: Layer,
        problem: GraphProblem,
        length: int | tuple[int, int] | None,
    ) -> tuple[Layer, Certificate | None]:
        """The layer with the threshold that was asked for, and its certificate where one was asked for."""
        from manyheads.certificate import certify
        from manyheads.construct import calibrate

        if not self.certify:
            return layer, None
        with progress("certify") as report:
            certificate = certify(layer, problem, context_length=length, progress=report)
        if self.construction.threshold != "best":
            return layer, certificate
        layer = calibrate(layer, certificate)
        with progress("certify with the best threshold") as report:
            return layer, certify(layer, problem, context_length=length, progress=report)

    def provenance(self) -> dict[str, str | int]:
        """How the layer came about, as its file will say: the options that were given."""
        how = self.construction
        said = {name: str(value) for name, value in self.fitting.given().items()} | {
            "construction": how.name,
            "seed": how.seed,
            "block_size": how.block_size,
            "signatures": how.signatures,
            "packing": how.packing,
            "constants": None if how.constants is None else " ".join(map(str, how.constants)),
            "scale": how.scale,
            "threshold": how.threshold,
        }
        return self.problem.provenance() | {name: value for name, value in said.items() if value is not None}

    def _check(self, length: int | tuple[int, int] | None) -> None:
        """Refuse at once options that do not go together."""
        how = self.construction
        self.fitting.check(self)
        if how.name == "fit":
            return
        if how.threshold == "best" and not self.certify:
            raise InputError("--threshold best comes from a certificate and cannot go with --no-certify")
        if how.name == "softmax" and self.certify and length is None:
            raise InputError("a softmax layer is certified for contexts of a length: give --context-length")
        if not self.smallest:
            if self.max_budget is not None:
                raise InputError("--max-budget goes with --smallest")
            return
        if self.max_budget is not None and self.max_budget < 1:
            raise InputError(f"--max-budget is at least 1, not {self.max_budget}")
        if how.name not in ("compressive", "general"):
            raise InputError(f"--smallest searches compressive and general, not the {how.name} construction")
        if how.threshold not in (None, "paper", "best"):
            raise InputError("--smallest takes --threshold paper or best, not a number")
        for name in ("key_width", "signatures", "packing", "constants", "scale"):
            if getattr(how, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} does not go with --smallest")
        if not self.certify:
            raise InputError("--no-certify does not go with --smallest")
