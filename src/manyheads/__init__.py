"""How many relations can one attention layer hold, and into how many heads should its key budget be split?"""

from manyheads.embedding import gaussian, one_hot, sparse_binary
from manyheads.errors import InputError
from manyheads.generators import (
    permutation_graph,
    positional_graph,
    power_law_graph,
    random_graph,
    regular_graph,
    star_graph,
)
from manyheads.graph import Graph, graph_from_networkx, graph_from_rustworkx
from manyheads.layer import Layer

__all__ = [
    "Graph",
    "InputError",
    "Layer",
    "gaussian",
    "graph_from_networkx",
    "graph_from_rustworkx",
    "one_hot",
    "permutation_graph",
    "positional_graph",
    "power_law_graph",
    "random_graph",
    "regular_graph",
    "sparse_binary",
    "star_graph",
]
