"""Everything a user hands in or takes out: safe to read, written whole or not at all, never unpickled."""

from manyheads.files.atomic_files import check_writable
from manyheads.files.edge_lists import read_graph, write_graph
from manyheads.files.embedding_files import read_embedding, write_embedding
from manyheads.files.exports import check_directory, write_export
from manyheads.files.labels import read_labels
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
