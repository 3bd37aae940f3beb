"""Files that a user reads or writes: safe to read, never unpickled, written completely or not at all."""

from manyheads.files.atomic_files import check_writable
from manyheads.files.embedding_files import read_embedding, read_labels, write_embedding
from manyheads.files.exports import check_directory, write_export
from manyheads.files.graph_files import read_graph, write_graph
from manyheads.files.layer_files import read_layer, read_provenance, write_layer

__all__ = [
    "check_directory",
    "check_writable",
    "read_embedding",
    "read_graph",
    "read_labels",
    "read_layer",
    "read_provenance",
    "write_embedding",
    "write_export",
    "write_graph",
    "write_layer",
]
