"""`manyheads certify`: a proof that a layer holds a graph, or the pair that refutes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    Force,
    Json,
    LayerFile,
    LengthRange,
    parse_context_length,
    require_ending,
)
from manyheads.cli.options.problem_options import ProblemOptions
from manyheads.cli.render.answer import Answer, shown_files


@dataclass(frozen=True, kw_only=True)
class CertifyCommand:
    """Prove that a layer recognises a graph in every context, or show where it fails."""

    layer: LayerFile
    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    proof: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to write the proof (.npz) for tools/check_proof.py; only where the layer holds the graph."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Read, certify; yes if the layer holds the graph."""
        from manyheads.certificate import certify
        from manyheads.cli.render.layer_table import layer_facts, shown_certificate
        from manyheads.cli.render.progress import progress
        from manyheads.files import check_writable, pack_proof, read_layer, read_provenance, write_together

        require_ending("--proof", self.proof, (".npz",))
        if self.proof is not None:
            check_writable(self.proof, force=self.force)
        length = parse_context_length(self.context_length)
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        problem = self.problem.load()
        with progress("certify") as report:
            certificate = certify(layer, problem, context_length=length, progress=report)
        written = []
        if self.proof is not None and certificate.holds:
            write_together({self.proof: pack_proof(layer, problem, certificate)}, force=self.force)
            written.append(self.proof)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "certificate": asdict(certificate),
                "written": written,
            },
            shown=[*shown_certificate(certificate), *shown_files(written)],
            yes=certificate.holds,
        )
