"""`manyheads certify`: a proof that a layer holds a graph, or the pair that refutes it; the check of an exclusion."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from manyheads.cli.options.option_types import (
    CERTIFIED_LENGTH_HELP,
    File,
    Force,
    Json,
    LengthRange,
    parse_context_length,
    refuse,
    require_ending,
)
from manyheads.cli.options.problem_options import ProblemOptions
from manyheads.cli.render.answer import Answer, shown_files, shown_notes
from manyheads.errors import InputError

if TYPE_CHECKING:
    from manyheads.certificate import Certificate
    from manyheads.layer.layer import Layer
    from manyheads.problem.problem import Problem


@dataclass(frozen=True, kw_only=True)
class CertifyCommand:
    """Prove that a layer recognises a graph in every context, or show where it fails.

    With --exclusion in place of a layer: check a proof that no single head can, without the search that found it. The
    exit code is 0 if the layer holds or the proof is valid, 1 if it is refuted or refused, 2 for bad input.
    """

    layer: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(metavar="[LAYER]", help="A layer, a .safetensors file of manyheads.", help_behavior_hint=""),
    ] = None
    problem: tyro.conf.OmitArgPrefixes[ProblemOptions]
    exclusion: File = None
    """The proof that `manyheads exclude --proof` wrote, in place of a layer."""
    context_length: Annotated[LengthRange, tyro.conf.arg(help=CERTIFIED_LENGTH_HELP)] = None
    proof: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Where to write the proof (.npz) for tools/check_proof.py; only where the layer holds the graph."""
    force: Force = False
    json: Json = False

    def run(self) -> Answer:
        """Read, certify; yes if the layer holds the graph or the proof is valid."""
        from manyheads.certificate import certify
        from manyheads.cli.render.layer_table import layer_facts, record_facts, shown_certificate
        from manyheads.cli.render.progress import progress
        from manyheads.files import check_writable, pack_proof, read_layer, read_provenance, write_together

        require_ending("--proof", self.proof, (".npz",))
        if self.proof is not None:
            check_writable(self.proof, force=self.force)
        length = parse_context_length(self.context_length)
        if self.exclusion is not None:
            return self._check_exclusion(self.exclusion)
        if self.layer is None:
            raise InputError("certify needs LAYER, or --exclusion with the file of a proof")
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        problem = self.problem.load()
        with progress("certify") as report:
            certificate = certify(layer, problem, context_length=length, progress=report)
        written = []
        if self.proof is not None and certificate.holds:
            write_together({self.proof: pack_proof(layer, problem, certificate)}, force=self.force)
            written.append(self.proof)
        notes = _contradictions(layer, problem, certificate)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "certificate": asdict(certificate),
                "file_says": record_facts(layer),
                "notes": notes,
                "written": written,
            },
            shown=[*shown_certificate(certificate), *shown_notes(notes), *shown_files(written)],
            yes=certificate.holds,
        )

    def _check_exclusion(self, path: Path) -> Answer:
        """Check the proof of an exclusion."""
        from manyheads.cli.render.exclusion_table import shown_check
        from manyheads.cli.render.progress import status
        from manyheads.files import read_exclusion

        if self.layer is not None:
            raise InputError("certify takes LAYER or --exclusion, not both")
        refuse("context_length", self.context_length, because="an exclusion is about every context")
        with status("check the proof"):
            file = read_exclusion(path)
            check = file.check(self.problem.load())
        return Answer(asdict(check) | {"provenance": dict(file.provenance)}, shown_check(check), yes=check.proved)


def _contradictions(layer: Layer, problem: Problem, certificate: Certificate) -> list[str]:
    """Where the layer's file says another verdict than the certificate, or is about another graph or embedding."""
    record = layer.record
    if record is None:
        return []
    if (record.graph, record.embedding) != (problem.graph.fingerprint, problem.embedding.fingerprint):
        return [f"the certificate in the layer's file is about another graph or embedding ({record})"]
    if record.holds and not certificate.holds and record.context_lengths == certificate.context_lengths:
        return [f"the layer's file says {record}, and that is not proved here"]
    return []
