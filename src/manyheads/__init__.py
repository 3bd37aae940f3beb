"""How many relations can one attention layer hold, and into how many heads should its key budget be split?"""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads import construct
    from manyheads.block import BlockOutcome, BlockRun, frozen_table, train_blocks
    from manyheads.capacity import Budget, Capacity, Goal, measure
    from manyheads.certificate import Certificate, certify
    from manyheads.errors import InputError
    from manyheads.files import (
        read_embedding,
        read_graph,
        read_layer,
        write_embedding,
        write_export,
        write_graph,
        write_layer,
    )
    from manyheads.layer.layer import Layer
    from manyheads.planning import Plan, audit, plan
    from manyheads.problem.embedding_generators import gaussian, one_hot, sparse_binary
    from manyheads.problem.graph import Graph, graph_from_networkx, graph_from_rustworkx
    from manyheads.problem.graph_generators import (
        permutation_graph,
        positional_graph,
        power_law_graph,
        random_graph,
        regular_graph,
        star_graph,
    )
    from manyheads.sweep import Store
    from manyheads.training import Outcome, Protocol, Run, Task, step_limit, train

__all__ = [
    "BlockOutcome",
    "BlockRun",
    "Budget",
    "Capacity",
    "Certificate",
    "Goal",
    "Graph",
    "InputError",
    "Layer",
    "Outcome",
    "Plan",
    "Protocol",
    "Run",
    "Store",
    "Task",
    "audit",
    "certify",
    "construct",
    "frozen_table",
    "gaussian",
    "graph_from_networkx",
    "graph_from_rustworkx",
    "measure",
    "one_hot",
    "permutation_graph",
    "plan",
    "positional_graph",
    "power_law_graph",
    "random_graph",
    "read_embedding",
    "read_graph",
    "read_layer",
    "regular_graph",
    "sparse_binary",
    "star_graph",
    "step_limit",
    "train",
    "train_blocks",
    "write_embedding",
    "write_export",
    "write_graph",
    "write_layer",
]

# The rooms are opened when a name is first asked for, so that `manyheads --help` does not wait for numpy and scipy.
_ROOMS = {
    "block": ("BlockOutcome", "BlockRun", "frozen_table", "train_blocks"),
    "capacity": ("Budget", "Capacity", "Goal", "measure"),
    "certificate": ("Certificate", "certify"),
    "construct": (),
    "problem.embedding_generators": ("gaussian", "one_hot", "sparse_binary"),
    "errors": ("InputError",),
    "files": (
        "read_embedding",
        "read_graph",
        "read_layer",
        "write_embedding",
        "write_export",
        "write_graph",
        "write_layer",
    ),
    "problem.graph_generators": (
        "permutation_graph",
        "positional_graph",
        "power_law_graph",
        "random_graph",
        "regular_graph",
        "star_graph",
    ),
    "problem.graph": ("Graph", "graph_from_networkx", "graph_from_rustworkx"),
    "layer.layer": ("Layer",),
    "planning": ("Plan", "audit", "plan"),
    "sweep": ("Store",),
    "training": ("Outcome", "Protocol", "Run", "Task", "step_limit", "train"),
}
__getattr__ = on_demand(__name__, _ROOMS)


def __dir__() -> list[str]:
    return sorted(__all__)
