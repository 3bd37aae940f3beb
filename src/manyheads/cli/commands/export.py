"""`manyheads export`: a layer for PyTorch, transformers or TransformerLens, to be used without this package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from manyheads.cli.render.answer import Answer, Flag
from manyheads.errors import InputError

HOW = {
    "torch": "from attention import AttentionLayer; AttentionLayer.load()",
    "transformers": 'T5EncoderModel.from_pretrained("{out}", attn_implementation="eager")',
    "transformer-lens": "from hooked import load; load()",
}


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a layer as a directory that PyTorch, transformers or TransformerLens loads without manyheads."""

    layer: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LAYER")]
    """The layer, a .safetensors file that manyheads wrote."""
    output: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIRECTORY")]
    """The directory to make."""
    to: Literal["torch", "transformers", "transformer-lens"]
    """The library: any rule goes to torch and transformer-lens (versions 2 and 3), softmax alone to transformers."""
    embedding: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The embedding (.npy, .safetensors, .gguf), to go with the layer; torch alone can do without."""
    tensor: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Which tensor is the embedding, where a safetensors file holds several."""
    force: Flag = False
    """Write into a directory that exists."""
    json: Flag = False
    """Print JSON instead of a table."""

    def run(self) -> Answer:
        """Read, write, tell."""
        from manyheads.cli.render.certificate_table import layer_facts, pairs_table, shown_files
        from manyheads.files import check_directory, read_embedding, read_layer, read_provenance, write_export

        check_directory(self.output, force=self.force)
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        if self.embedding is None and self.tensor is not None:
            raise InputError("--tensor names a tensor of the embedding's file: give --embedding")
        embedding = None if self.embedding is None else read_embedding(self.embedding, tensor=self.tensor)
        written = write_export(
            self.output, layer, to=self.to, embedding=embedding, provenance=provenance, force=self.force
        )
        shape = f"rule {layer.rule}, {layer.heads} heads of width {layer.key_width}, d_model {layer.d_model}"
        how = HOW[self.to].format(out=self.output)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "to": self.to,
                "load": how,
                "written": [str(path) for path in written],
            },
            shown=[pairs_table([("layer", shape), ("load with", how)]), *shown_files(written)],
            yes=True,
        )
