"""Layers in files: safetensors with the rule, the exact threshold and where the layer came from."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.files.safetensors_files import TensorFile, pack, read_tensors
from manyheads.layer.layer import Layer
from manyheads.layer.rules import RULES

FORMAT = "manyheads layer"
VERSION = 1


def write_layer(
    path: str | Path, layer: Layer, *, provenance: Mapping[str, str | int] | None = None, force: bool = False
) -> None:
    """Write the weights, rule and threshold so that `read_layer` gives the very same layer back.

    `provenance` says how the layer came about (a construction, a seed, …) and is kept beside the weights as text.
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
    """The bytes of a layer's file, with the embedding in it where it is to be used without this package."""
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "rule": str(layer.rule),
        "threshold": layer.threshold.hex(),  # the number itself, to the last bit
        "provenance": json.dumps(dict(provenance or {})),
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    rows = {} if embedding is None else {"embedding": embedding}
    return pack({"query": layer.query, "key": layer.key} | rows, metadata)


def read_layer(path: str | Path) -> Layer:
    """The layer that `write_layer` wrote, refused if as much as one bit of it has changed."""
    file = _layer_file(path)
    query, key = file.floats("query"), file.floats("key")
    rule = file.metadata.get("rule", "")
    if rule not in RULES:
        raise InputError(f"{path} holds a layer with the unknown rule {rule!r}")
    try:
        return Layer(query, key, float.fromhex(file.metadata.get("threshold", "")), rule)
    except (ValueError, OverflowError) as error:  # a checksum shows damage, not that the writer knew what it did
        raise InputError(f"{path} holds no sound layer: {error}") from error


def read_provenance(path: str | Path) -> dict[str, str | int]:
    """How the layer in a file came about, as its writer said."""
    try:
        return dict(json.loads(_layer_file(path).metadata.get("provenance", "{}")))
    except (TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} does not say where its layer came from in a way that can be read") from error


def _layer_file(path: str | Path) -> TensorFile:
    file = read_tensors(path)
    if file.metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a layer file that manyheads wrote")
    # A newer format may mean anything by its fields, its checksum included: look no further.
    version = file.metadata.get("version", "")
    if version != str(VERSION):
        raise InputError(f"{path} has layer format '{version}' but this manyheads reads {VERSION}: a newer one may do")
    file.verify()
    return file
