"""Blocks in files: safetensors with the trained weights, the run they come from, and a given table."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jaxtyping import Float32
from numpy import ndarray

from manyheads.block.block_data import table_of
from manyheads.block.block_run import BlockRun
from manyheads.errors import InputError
from manyheads.files.atomic_files import write_whole
from manyheads.files.safetensors_files import pack, read_tensors

FORMAT = "manyheads block"
VERSION = 1
TABLE = "table"  # beside the weights, where it is not drawn


@dataclass(frozen=True, eq=False)
class TrainedBlock:
    """A block as it was trained: everything it takes to run it again."""

    run: BlockRun
    weights: Mapping[str, Float32[ndarray, "*shape"]]
    given: Float32[ndarray, "rows width"] | None  # the table the run names, before any reduction; None: it is drawn
    embedding: str  # what the table is called

    @property
    def table(self) -> Float32[ndarray, "rows d_model"]:
        """E as the block reads it."""
        return table_of(self.run, self.given)


def write_block(path: str | Path, block: TrainedBlock, *, force: bool = False) -> None:
    """Write a block so that `read_block` gives it back."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"{path} cannot hold a block: its name must end in .safetensors")
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "run": json.dumps(asdict(block.run)),
        "embedding": block.embedding,
        "software": f"manyheads {importlib.metadata.version('manyheads')}",
    }
    table = {} if block.given is None else {TABLE: block.given}
    write_whole(path, pack({**block.weights, **table}, metadata), force=force)


def read_block(path: str | Path) -> TrainedBlock:
    """The block that `write_block` wrote, refused if as much as one bit of it has changed."""
    file = read_tensors(path)
    if file.metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a block that manyheads wrote")
    if file.metadata.get("version") != str(VERSION):
        raise InputError(f"{path} has another block format than {VERSION}, which this manyheads reads")
    file.verify()
    try:
        run = BlockRun(**json.loads(file.metadata["run"]))
    except (KeyError, TypeError, ValueError) as error:  # a checksum shows damage, not that the writer knew its run
        raise InputError(f"{path} does not say what run its block comes from") from error
    weights = {name: file.floats(name) for name in file.tensors if name != TABLE}
    given = file.floats(TABLE) if TABLE in file.tensors else None
    return TrainedBlock(run, weights, given, file.metadata.get("embedding", "unknown"))
