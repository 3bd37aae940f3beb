"""`manyheads compile`: a layer by one of the paper's constructions, and the certificate that it holds the graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.construction_options import ConstructionOptions
from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    Flag,
    Json,
    LengthRange,
    Outputs,
    parse_context_length,
    whole_number,
)
from manyheads.cli.options.problem_options import ProblemOptions
from manyheads.cli.render.answer import Answer, shown_files, shown_notes
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.certificate import Certificate
    from manyheads.construct import SmallestConstruction
    from manyheads.construct.width_limit import Threshold
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import ContextLength, Problem

SMALLEST_HELP = (
    "Search for the matching size and key width with the smallest key budget at which 19 of 20 draws separate: with "
    "the paper's threshold and with the best threshold, or only with the one that --threshold names."
)


@dataclass(frozen=True, kw_only=True)
class CompileCommand:
    """Build a layer that recognises a graph by one of the paper's constructions, and certify it.

    The command `manyheads fit` finds smaller layers.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    construction: tyro.conf.OmitArgPrefixes[ConstructionOptions] = field(default_factory=ConstructionOptions)
    smallest: Annotated[bool, tyro.conf.arg(help=SMALLEST_HELP, help_behavior_hint="")] = False
    max_key_budget: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: m')")] = None
    """The largest key budget that --smallest tries. One head of width 1 for each relation takes m'."""
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    certify: Flag = True
    """Build the layer without certifying it."""
    files: tyro.conf.OmitArgPrefixes[Outputs] = field(default_factory=Outputs)
    json: Json = False

    def run(self) -> Answer:
        """Build, certify, write; yes if the layer holds the graph."""
        length = parse_context_length(self.context_length)
        self._check(length)
        self.files.check()
        problem = self.problem.load()
        provenance = self.problem.provenance() | self.construction.provenance()
        if self.smallest:
            return self._smallest(problem, provenance)
        return self._compile(problem, length, provenance)

    def _compile(self, problem: Problem, length: ContextLength, provenance: dict[str, str | int]) -> Answer:
        from manyheads.cli.render.layer_table import layer_facts, shown_certificate, shown_layer

        built = self.construction.build(problem, context_length=length)
        layer, certificate = self._certified(built.layer, problem, length)
        provenance = provenance | (certificate.record() if certificate else {})
        written = self.files.write(problem, layer, provenance, certificate)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "certificate": certificate and asdict(certificate),
                "notes": built.notes,
                "written": written,
            },
            shown=[
                *shown_notes(built.notes),
                *(shown_certificate(certificate) if certificate else shown_layer(layer, problem.graph)),
                *shown_files(written),
            ],
            yes=certificate is None or certificate.holds,
        )

    def _certified(self, layer: Layer, problem: Problem, length: ContextLength) -> tuple[Layer, Certificate | None]:
        """The layer with the threshold that was asked for, and its certificate unless --no-certify was given."""
        from manyheads.certificate import certify
        from manyheads.cli.render.progress import progress
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

    def _smallest(self, problem: Problem, provenance: dict[str, str | int]) -> Answer:
        """Search with the paper's threshold and with the best; the layer is the smallest that certifies."""
        from manyheads.cli.render.layer_table import layer_facts, search_facts, shown_certificate, shown_search
        from manyheads.construct.heads import require_permutation

        if self.construction.name == "compressive":
            require_permutation(problem.graph)
        both: list[Threshold] = ["paper", "best"]
        thresholds = [one for one in both if self.construction.threshold in (None, one)]
        found = [self._search(problem, threshold) for threshold in thresholds]
        certified = [(result.layer, result.certificate) for result in found if result.layer and result.certificate]
        layer, certificate = min(certified, key=lambda pair: pair[0].key_budget, default=(None, None))
        provenance = provenance | (certificate.record() if certificate else {})
        written = self.files.write(problem, layer, provenance)
        return Answer(
            facts={
                "searches": [search_facts(result, problem) for result in found],
                "layer": layer and layer_facts(layer, provenance),
                "certificate": certificate and asdict(certificate),
                "written": written,
            },
            shown=[
                *(part for result in found for part in shown_search(result, problem)),
                *(shown_certificate(certificate) if certificate else []),
                *shown_files(written),
            ],
            yes=layer is not None,
        )

    def _search(self, problem: Problem, threshold: Threshold) -> SmallestConstruction:
        from manyheads.cli.render.layer_table import THRESHOLD_NAMES, search_line
        from manyheads.cli.render.progress import status
        from manyheads.construct import smallest

        matching_size = self.construction.matching_size
        with status(f"search with {THRESHOLD_NAMES[threshold]} threshold") as line:
            return smallest(
                problem,
                threshold=threshold,
                seed=self.construction.seed,
                matching_sizes=None if matching_size is None else [whole_number("--matching-size", matching_size)],
                max_budget=self.max_key_budget,
                progress=lambda step: line(search_line(step)),
            )

    def _check(self, length: ContextLength) -> None:
        """Refuse options that do not go together, before the work."""
        how = self.construction
        if how.threshold == "best" and not self.certify:
            raise InputError("--threshold best comes from a certificate and cannot go with --no-certify")
        if how.name == "softmax" and self.certify and length is None:
            raise InputError("a softmax layer is certified for contexts of a length: give --context-length")
        if not self.smallest:
            if self.max_key_budget is not None:
                raise InputError("--max-key-budget goes with --smallest")
            return
        if how.name not in ("compressive", "general"):
            raise InputError(f"--smallest searches compressive and general, not the {how.name} construction")
        if how.threshold not in (None, "paper", "best"):
            raise InputError("--smallest takes --threshold paper or best, not a number")
        for name in ("key_width", "signatures", "packing", "constants", "logit_scale"):
            if getattr(how, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} does not go with --smallest")
        if not self.certify:
            raise InputError("--no-certify does not go with --smallest")
        if how.matching_size is not None:
            whole_number("--matching-size", how.matching_size)
