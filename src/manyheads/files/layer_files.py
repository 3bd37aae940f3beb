"""Layers and blocks in files: safetensors with the weights, the rule or the run, the threshold and the provenance.

A portable proof is a layer with its problem, in an .npz file.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.block.block_data import table_of
from manyheads.block.block_run import BlockRun
from manyheads.certificate import Certificate
from manyheads.errors import InputError, path_of, require_type
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import memory_limit, parse_json
from manyheads.files.safetensors_files import TensorFile, pack_tensors, read_tensors
from manyheads.layer.layer import Layer
from manyheads.layer.layer_record import LayerRecord
from manyheads.layer.rules import RULES
from manyheads.problem.problem import Problem

LAYER_FORMAT, BLOCK_FORMAT = "manyheads layer", "manyheads block"
VERSION = 1
RECORDED = ("weights", "graph", "embedding", "certificate")  # of a layer's record, under "certificate" in the file


def write_layer(
    path: str | Path, layer: Layer, *, provenance: Mapping[str, str | int] | None = None, force: bool = False
) -> None:
    """Write a layer with its labels and its certificate. `read_layer` returns the same layer, to the last bit.

    A layer of `fit`, `smallest` or `exclude` has a certificate; `manyheads.certificate.described` adds one to others.

    Args:
        path: The file; its name must end in .safetensors.
        layer: The layer.
        provenance: Facts on the origin of the layer (a construction, a seed, …), kept as text beside the weights; None:
            those of the layer's record.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    require_type(layer, Layer, "the layer to write")
    path = path_of(path)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} cannot hold a layer: its name must end in .safetensors")
    write_whole(path, pack_layer(layer, provenance=provenance), force=force)


def pack_layer(
    layer: Layer,
    *,
    provenance: Mapping[str, str | int] | None,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> bytes:
    """The bytes of a layer's file.

    Args:
        layer: The layer.
        provenance: Facts about how the layer was made, by name; None: those of the layer's record.
        embedding: Rows to store beside the weights, for a use without this package; None: no rows.

    Returns:
        The bytes, in the safetensors format.
    """
    record = layer.record
    facts = (record.provenance if record else {}) if provenance is None else provenance
    metadata = {
        "format": LAYER_FORMAT,
        "version": str(VERSION),
        "rule": str(layer.rule),
        "threshold": layer.threshold.hex(),  # exact, to the last bit
        "provenance": json.dumps(dict(facts)),
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    if layer.labels is not None:
        metadata["labels"] = json.dumps(layer.labels)
    if record is not None:
        metadata["certificate"] = json.dumps({name: getattr(record, name) for name in RECORDED})
    rows = {} if embedding is None else {"embedding": embedding}
    return pack_tensors({"query": layer.query, "key": layer.key} | rows, metadata)


def read_layer(path: str | Path) -> Layer:
    """Read a layer that `write_layer` wrote, with its labels and the record of its certificate, if the file has them.

    The record is what the file says, and no proof; `certify` proves it again. A record of other weights is left out.

    Args:
        path: A .safetensors file.

    Returns:
        The layer.

    Raises:
        InputError: The file cannot be read, is not a layer file of this format, or a bit of it has changed.
    """
    file = _layer_file(path)
    query, key = file.floats("query"), file.floats("key")
    rule = file.metadata.get("rule", "")
    if rule not in RULES:
        raise InputError(f"{path} holds a layer with the unknown rule {rule!r}")
    try:
        threshold = float.fromhex(file.metadata.get("threshold", ""))
        return Layer(query, key, threshold, rule, _labels(file), _record(file))
    except (ValueError, OverflowError) as error:  # a correct checksum does not mean that the content makes sense
        raise InputError(f"{path} holds no sound layer: {error}") from error


def pack_proof(layer: Layer, problem: Problem, certificate: Certificate) -> bytes:
    """The bytes of a portable proof: an .npz file with what tools/check_proof.py needs to check the certificate again.

    Args:
        layer: The layer.
        problem: The graph and the embedding.
        certificate: Their certificate.

    Returns:
        The content of the file.

    Raises:
        InputError: The certificate does not hold.
    """
    if not certificate.holds:
        raise InputError(f"a proof needs a certificate that holds: this one is {certificate.verdict}")
    packed = io.BytesIO()
    np.savez(
        packed,
        format=np.array("manyheads proof 1"),
        rule=np.array(str(layer.rule)),
        threshold=np.array(layer.threshold),
        query=layer.query,
        key=layer.key,
        embedding=problem.rows,
        sources=problem.graph.sources,
        targets=problem.graph.targets,
        context_lengths=np.array(certificate.context_lengths or (), dtype=np.int64),
        claims=np.array(str(certificate.record()["proved"]).split(", ")),
    )
    return packed.getvalue()


def _labels(file: TensorFile) -> list[str] | None:
    """The names of the items in a layer's file; files of older versions have none."""
    if "labels" not in file.metadata:
        return None
    labels = parse_json(file.metadata["labels"], file.path)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError("its labels are not a list of texts")
    return labels


def _record(file: TensorFile) -> LayerRecord | None:
    """The record in a layer's file; files of older versions have none."""
    if "certificate" not in file.metadata:
        return None
    parts = parse_json(file.metadata["certificate"], file.path)
    if not isinstance(parts, dict) or set(parts) != set(RECORDED) or not isinstance(parts["certificate"], dict):
        raise InputError("its certificate is not one of a layer")
    return LayerRecord(**parts, provenance=_facts(file))


def read_provenance(path: str | Path) -> dict[str, str | int]:
    """Read the provenance of the layer in a file.

    Args:
        path: A .safetensors file that `write_layer` wrote.

    Returns:
        The facts that were given to `write_layer`.

    Raises:
        InputError: The file is not a layer file, is damaged, or its provenance cannot be read.
    """
    return _facts(_layer_file(path))


def _facts(file: TensorFile) -> dict[str, str | int]:
    try:
        facts = parse_json(file.metadata.get("provenance", "{}"), file.path)
        if not isinstance(facts, dict):
            raise InputError("the facts have no names")
    except InputError as error:
        raise InputError(f"{file.path} has a provenance of its layer that cannot be read") from error
    return facts


def _layer_file(path: str | Path) -> TensorFile:
    file = read_tensors(path)
    if file.metadata.get("format") != LAYER_FORMAT:
        raise InputError(f"{path} is not a layer file that manyheads wrote")
    # The fields and the checksum of a newer format can have other meanings: check the version first.
    version = file.metadata.get("version", "")
    if version != str(VERSION):
        raise InputError(f"{path} has layer format '{version}' but this manyheads reads {VERSION}: a newer one may do")
    file.verify()
    return file


TABLE = "table"  # the name of the table beside the weights


@dataclass(frozen=True, eq=False)
class TrainedBlock:
    """A trained block, with everything that is needed to use it.

    Attributes:
        run: The run of the block.
        weights: The trained weights by name.
        given: The table that the run names, before any reduction; None if the run generates its table.
        embedding: The name of the table.
    """

    run: BlockRun
    weights: Mapping[str, Float32[ndarray, "*shape"]]
    given: Float32[ndarray, "rows width"] | None
    embedding: str

    @property
    def table(self) -> Float32[ndarray, "rows d_model"]:
        """E, the table that the block reads."""
        return table_of(self.run, self.given)


def write_block(path: str | Path, block: TrainedBlock, *, force: bool = False) -> None:
    """Write a block. `read_block` returns an equal block.

    Args:
        path: The file; its name must end in .safetensors.
        block: The block.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} cannot hold a block: its name must end in .safetensors")
    metadata = {
        "format": BLOCK_FORMAT,
        "version": str(VERSION),
        "run": json.dumps(asdict(block.run)),
        "embedding": block.embedding.encode(errors="backslashreplace").decode(),  # a file name can have bytes
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    table = {} if block.given is None else {TABLE: block.given}
    write_whole(path, pack_tensors({**block.weights, **table}, metadata), force=force)


def read_block(path: str | Path) -> TrainedBlock:
    """Read a block that `write_block` wrote.

    Args:
        path: A .safetensors file.

    Returns:
        The block.

    Raises:
        InputError: The file cannot be read, is not a block file of this format, or a bit of it has changed.
    """
    file = read_tensors(path)
    if file.metadata.get("format") != BLOCK_FORMAT:
        raise InputError(f"{path} is not a block that manyheads wrote")
    if file.metadata.get("version") != str(VERSION):
        raise InputError(f"{path} has another block format than {VERSION}, which this manyheads reads")
    file.verify()
    try:
        run = BlockRun(**parse_json(file.metadata["run"], path))  # type: ignore[arg-type]
    except Exception as error:  # a correct checksum does not mean that the run makes sense
        raise InputError(f"{path} does not have the run of its block") from error
    weights = {name: file.floats(name) for name in file.tensors if name != TABLE}
    given = file.floats(TABLE) if TABLE in file.tensors else None
    # The weights bound the sizes of the run by the size of the file. Only a generated table can be larger.
    shapes = {"query": (run.heads, run.d_model, run.key_width), "rise": (run.d_model, run.mlp_width)}
    if any(name not in weights or weights[name].shape != shape for name, shape in shapes.items()):
        raise InputError(f"{path} does not have the weights of its run")
    needed = 4 * (run.items + 1) * run.d_model
    if given is None and needed > memory_limit():
        raise InputError(f"{path} has a run whose table needs {needed:,} bytes, more than half of the memory")
    return TrainedBlock(run, weights, given, file.metadata.get("embedding", "unknown"))
