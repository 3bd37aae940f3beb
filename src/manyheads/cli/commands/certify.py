"""`manyheads certify`: a proof that a layer holds a graph, or the pair that refutes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    Json,
    LayerFile,
    LengthRange,
    parse_context_length,
)
from manyheads.cli.options.problem_options import ProblemOptions
from manyheads.cli.render.answer import Answer


@dataclass(frozen=True, kw_only=True)
class CertifyCommand:
    """Prove that a layer recognises a graph in every context, or show where it fails."""

    layer: LayerFile
    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    json: Json = False

    def run(self) -> Answer:
        """Read, certify; yes if the layer holds the graph."""
        from manyheads.certificate import certify
        from manyheads.cli.render.layer_table import layer_facts, shown_certificate
        from manyheads.cli.render.progress import progress
        from manyheads.files import read_layer, read_provenance

        length = parse_context_length(self.context_length)
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        problem = self.problem.load()
        with progress("certify") as report:
            certificate = certify(layer, problem, context_length=length, progress=report)
        return Answer(
            facts={"layer": layer_facts(layer, provenance), "certificate": asdict(certificate)},
            shown=shown_certificate(certificate),
            yes=certificate.holds,
        )
