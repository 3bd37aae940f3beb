"""How many relations can one attention layer hold, and into how many heads should its key budget be split?"""

from manyheads.embedding import gaussian, one_hot
from manyheads.errors import InputError
from manyheads.graph import Graph, permutation_graph
from manyheads.layer import Layer

__all__ = ["Graph", "InputError", "Layer", "gaussian", "one_hot", "permutation_graph"]
