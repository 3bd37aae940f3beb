"""Proofs of exclusions in files: safetensors with the matrix, the fingerprints of its problem, and the provenance."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float64
from numpy import ndarray

from manyheads.certificate.exclusion_proof import Exclusion, ExclusionCheck, check_exclusion
from manyheads.errors import InputError, require_type
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import parse_json
from manyheads.files.safetensors_files import pack_tensors, read_tensors
from manyheads.problem.problem import Problem

EXCLUSION_FORMAT, VERSION = "manyheads exclusion", 1
MATRIX = "matrix"


@dataclass(frozen=True, eq=False)
class ExclusionFile:
    """The content of a proof's file.

    Attributes:
        matrix: M, one number for each ordered pair.
        graph: The fingerprint of the graph that the proof was made for.
        embedding: The fingerprint of the embedding.
        provenance: Facts on the origin of the proof: graph, embedding, seeds, limits of the search.
    """

    matrix: Float64[ndarray, "items items"]
    graph: str
    embedding: str
    provenance: Mapping[str, str | int]

    def check(self, problem: Problem) -> ExclusionCheck:
        """Check the proof again for a graph and an embedding; a proof made for others is refused.

        Args:
            problem: The graph and the embedding.

        Returns:
            The check. Equal fingerprints alone prove nothing: the matrix decides.
        """
        for name, known in (("graph", self.graph), ("embedding", self.embedding)):
            if getattr(problem, name).fingerprint != known:
                return ExclusionCheck(False, float("inf"), 0, f"the proof was made for another {name}")
        return check_exclusion(problem, self.matrix)


def write_exclusion(
    path: str | Path,
    exclusion: Exclusion,
    problem: Problem,
    *,
    provenance: Mapping[str, str | int] | None = None,
    force: bool = False,
) -> None:
    """Write the proof of an exclusion. `manyheads certify --exclusion` and `read_exclusion` read it.

    Args:
        path: The file; its name must end in .safetensors.
        exclusion: An exclusion whose verdict is "excluded".
        problem: The graph and the embedding of the exclusion.
        provenance: Facts on the origin of the proof, kept as text beside the matrix.
        force: Whether to replace an existing file.

    Raises:
        InputError: The exclusion has no proof, the file exists and `force` is False, or it cannot be written.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} cannot hold a proof: its name must end in .safetensors")
    require_type(exclusion, Exclusion, "the exclusion to write")
    if exclusion.matrix is None:
        raise InputError(f"{path} cannot be written: the graph is {exclusion.verdict}, and there is no proof")
    metadata = {
        "format": EXCLUSION_FORMAT,
        "version": str(VERSION),
        "graph": problem.graph.fingerprint,
        "embedding": problem.embedding.fingerprint,
        "provenance": json.dumps(dict(provenance or {}) | {"steps": exclusion.steps}),
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    write_whole(path, pack_tensors({MATRIX: exclusion.matrix}, metadata), force=force)


def read_exclusion(path: str | Path) -> ExclusionFile:
    """Read a proof that `write_exclusion` wrote. Reading proves nothing: call `check` with the problem.

    Args:
        path: A .safetensors file.

    Returns:
        The matrix, the fingerprints and the provenance.

    Raises:
        InputError: The file cannot be read, is not the file of a proof, or a bit of it has changed.
    """
    file = read_tensors(path)
    if file.metadata.get("format") != EXCLUSION_FORMAT:
        raise InputError(f"{path} is not the proof of an exclusion that manyheads wrote")
    version = file.metadata.get("version", "")
    if version != str(VERSION):
        raise InputError(f"{path} has proof format '{version}' but this manyheads reads {VERSION}: a newer one may do")
    file.verify()
    matrix = file.floats(MATRIX)
    if matrix.dtype.name != "float64" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path} has no square matrix of float64 numbers")
    facts = parse_json(file.metadata.get("provenance", "{}"), path)
    if not isinstance(facts, dict):
        raise InputError(f"{path} has a provenance of its proof that cannot be read")
    return ExclusionFile(matrix, file.metadata.get("graph", ""), file.metadata.get("embedding", ""), facts)
