"""`manyheads export`: a layer for PyTorch, transformers or TransformerLens, to be used without this package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from manyheads.cli.options.option_types import File, Flag, Json, Labels, LayerFile, Tensor, refuse
from manyheads.cli.options.problem_options import read_embedding_file
from manyheads.cli.render.answer import Answer, pairs_table, shown_files, shown_notes

LOAD = {
    "torch": "from attention import AttentionLayer; AttentionLayer.load()",
    "transformers": '{model}.from_pretrained("{out}", attn_implementation="eager")',
    "transformer-lens": "from hooked import load; load()",
}
UNPROVED = (
    "no certificate proves this layer for the scores that PyTorch computes in {precision}, so that it may recognise "
    "other relations there: fit --precision widens the margin, export --precision float64 computes with more digits"
)


@dataclass(frozen=True, kw_only=True)
class ExportCommand:
    """Write a layer as a directory that PyTorch, transformers or TransformerLens loads without manyheads."""

    layer: LayerFile
    output: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIRECTORY")]
    """The directory to make."""
    to: Literal["torch", "transformers", "transformer-lens"]
    """The library. torch and transformer-lens (versions 2 and 3) take any rule, transformers takes softmax only."""
    embedding: File = None
    """The embedding (.npy, .safetensors, .gguf) that goes with the layer; only torch does not need it."""
    labels: Labels = None
    tensor: Tensor = None
    precision: Annotated[
        Literal["float32", "float64"] | None, tyro.conf.arg(help_behavior_hint="(default: the layer's own)")
    ] = None
    """Number type of the weights, in which the library computes."""
    force: Flag = False
    """Write into a directory that exists."""
    json: Json = False

    def run(self) -> Answer:
        """Read the layer, write the directory."""
        from manyheads.cli.render.layer_table import layer_facts, layer_words
        from manyheads.files import check_directory, export_precision, read_layer, read_provenance, write_export
        from manyheads.layer.layer_vocabulary import layer_rows

        check_directory(self.output, force=self.force)
        layer, provenance = read_layer(self.layer), read_provenance(self.layer)
        for option in ("tensor", "labels") if self.embedding is None else ():
            refuse(option, getattr(self, option), because="it is about the rows of the embedding: give --embedding")
        embedding = None
        if self.embedding is not None:
            known = read_embedding_file(self.embedding, tensor=self.tensor, labels=self.labels)
            embedding = layer_rows(layer, known).rows
        precision = self.precision or export_precision(layer)
        written = write_export(
            self.output,
            layer,
            to=self.to,
            embedding=embedding,
            provenance=provenance,
            precision=self.precision,
            force=self.force,
        )
        proved = None if "proved" not in provenance else precision in str(provenance["proved"]).split(", ")
        notes = [UNPROVED.format(precision=precision)] if proved is False else []
        model = "T5EncoderModel" if layer.key_heads == layer.heads else "EuroBertModel"
        load = LOAD[self.to].format(out=self.output, model=model)
        return Answer(
            facts={
                "layer": layer_facts(layer, provenance),
                "to": self.to,
                "load": load,
                "precision": precision,
                "proved": proved,
                "notes": notes,
                "written": written,
            },
            shown=[
                *shown_notes(notes),
                pairs_table([("layer", layer_words(layer)), ("load with", load)]),
                *shown_files(written),
            ],
            yes=True,
        )
