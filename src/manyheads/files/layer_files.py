"""Layers in files: safetensors with the weights, the rule, the exact threshold, and the provenance of the layer."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.files.door import parse_json
from manyheads.files.safetensors_files import TensorFile, pack_tensors, read_tensors
from manyheads.layer.layer import Layer
from manyheads.layer.rules import RULES

FORMAT = "manyheads layer"
VERSION = 1


def write_layer(
    path: str | Path, layer: Layer, *, provenance: Mapping[str, str | int] | None = None, force: bool = False
) -> None:
    """Write a layer. `read_layer` returns the same weights, rule and threshold, to the last bit.

    Args:
        path: The file; its name must end in .safetensors.
        layer: The layer.
        provenance: Facts on the origin of the layer (a construction, a seed, …), kept as text beside the weights.
        force: Whether to replace an existing file.

    Raises:
        InputError: The file exists and `force` is False, or it cannot be written.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} cannot hold a layer: its name must end in .safetensors")
    write_whole(path, pack_layer(layer, provenance=provenance), force=force)


def pack_layer(
    layer: Layer,
    *,
    provenance: Mapping[str, str | int] | None,
    embedding: Float32[ndarray, "items d_model"] | None = None,
) -> bytes:
    """The bytes of a layer's file; an export for use without this package contains the embedding too."""
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "rule": str(layer.rule),
        "threshold": layer.threshold.hex(),  # exact, to the last bit
        "provenance": json.dumps(dict(provenance or {})),
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    rows = {} if embedding is None else {"embedding": embedding}
    return pack_tensors({"query": layer.query, "key": layer.key} | rows, metadata)


def read_layer(path: str | Path) -> Layer:
    """Read a layer that `write_layer` wrote.

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
        return Layer(query, key, float.fromhex(file.metadata.get("threshold", "")), rule)
    except (ValueError, OverflowError) as error:  # a correct checksum does not mean that the content makes sense
        raise InputError(f"{path} holds no sound layer: {error}") from error


def read_provenance(path: str | Path) -> dict[str, str | int]:
    """Read the provenance of the layer in a file.

    Args:
        path: A .safetensors file that `write_layer` wrote.

    Returns:
        The facts that were given to `write_layer`.

    Raises:
        InputError: The file is not a layer file, is damaged, or its provenance cannot be read.
    """
    text = _layer_file(path).metadata.get("provenance", "{}")
    try:
        facts = parse_json(text, path)
        if not isinstance(facts, dict):
            raise InputError("the facts have no names")
    except InputError as error:
        raise InputError(f"{path} has a provenance of its layer that cannot be read") from error
    return facts


def _layer_file(path: str | Path) -> TensorFile:
    file = read_tensors(path)
    if file.metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a layer file that manyheads wrote")
    # The fields and the checksum of a newer format can have other meanings: check the version first.
    version = file.metadata.get("version", "")
    if version != str(VERSION):
        raise InputError(f"{path} has layer format '{version}' but this manyheads reads {VERSION}: a newer one may do")
    file.verify()
    return file
