"""Files that a user reads or writes: safe to read, never unpickled, written completely or not at all."""

from manyheads.files.atomic_files import check_writable, write_together
from manyheads.files.embedding_files import pack_embedding, read_embedding, read_labels, write_embedding
from manyheads.files.exclusion_files import ExclusionFile, read_exclusion, write_exclusion
from manyheads.files.exports import check_directory, export_precision, write_export
from manyheads.files.graph_files import pack_graph, read_graph, write_graph
from manyheads.files.layer_files import pack_layer, pack_proof, read_layer, read_provenance, write_layer

__all__ = [
    "ExclusionFile",
    "check_directory",
    "check_writable",
    "export_precision",
    "pack_embedding",
    "pack_graph",
    "pack_layer",
    "pack_proof",
    "read_embedding",
    "read_exclusion",
    "read_graph",
    "read_labels",
    "read_layer",
    "read_provenance",
    "write_embedding",
    "write_exclusion",
    "write_export",
    "write_graph",
    "write_layer",
    "write_together",
]
