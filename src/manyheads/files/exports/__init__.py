"""Layers for use without manyheads: a directory that PyTorch, transformers or TransformerLens loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.files.atomic_files import check_writable, write_whole
from manyheads.files.exports import t5, transformer_lens
from manyheads.files.layer_files import pack_layer
from manyheads.layer.layer import Layer

Library = Literal["torch", "transformers", "transformer-lens"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
STANDALONE = Path(__file__).parent / "standalone"


def write_export(
    directory: str | Path,
    layer: Layer,
    *,
    to: Library,
    embedding: Float32[ndarray, "items d_model"] | None = None,
    provenance: Mapping[str, str | int] | None = None,
    force: bool = False,
) -> list[Path]:
    """Write a directory from which the library loads the layer; the files that now exist.

    - `torch`: attention.py, a module of this package's rules that needs torch and safetensors alone, and
      layer.safetensors, with the embedding in it if one is given.
    - `transformers`: a `T5EncoderModel` whose attention probabilities, added over heads, are the scores. Softmax only.
    - `transformer-lens`: a `HookedTransformer` (TransformerLens 2 and 3) whose `hook_attn_scores` are the heads'
      scores, under softmax divided by √d_k, and whose `hook_pattern` is their softmax; hooked.py loads it.

    The last two speak of items by number, so they need the embedding.
    """
    directory = Path(directory)
    if to not in LIBRARIES:
        raise InputError(f"unknown library '{to}': choose from {', '.join(LIBRARIES)}")
    if embedding is not None and embedding.shape[1] != layer.d_model:
        raise InputError(
            f"the layer reads rows of {layer.d_model} numbers but the embedding has rows of {embedding.shape[1]}"
        )
    # both weights in one precision that every library computes in; no number changes
    dtype = np.result_type(layer.query, layer.key, np.float32)
    layer = replace(layer, query=layer.query.astype(dtype), key=layer.key.astype(dtype))
    if to == "torch":
        files = {
            "attention.py": (STANDALONE / "attention.py").read_bytes(),
            "layer.safetensors": pack_layer(layer, provenance=provenance, embedding=embedding),
        }
        return _write_directory(directory, files, force=force)
    if embedding is None:
        raise InputError(f"an export to {to} carries the embedding, and none is given")
    if to == "transformers":
        return _write_directory(directory, t5.files(layer, embedding), force=force)
    hooked = {"hooked.py": (STANDALONE / "hooked.py").read_bytes()}
    return _write_directory(directory, hooked | transformer_lens.files(layer, embedding), force=force)


def check_directory(directory: str | Path, *, force: bool) -> None:
    """Refuse at once what `write_export` would refuse after the work is done."""
    directory = Path(directory)
    if not directory.exists():
        check_writable(directory, force=False)
    elif not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory to write into")
    elif not force:
        raise InputError(f"{directory} already exists and is not written into without force")
    elif not os.access(directory, os.W_OK | os.X_OK):
        raise InputError(f"{directory} cannot be written into: it is not writable")


def _write_directory(directory: Path, files: Mapping[str, bytes], *, force: bool) -> list[Path]:
    check_directory(directory, force=force)
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory} cannot be made: {error.strerror}") from error
    for name, content in files.items():
        write_whole(directory / name, content, force=force)
    return [directory / name for name in files]
