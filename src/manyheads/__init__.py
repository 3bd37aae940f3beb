"""How many relations can one attention layer hold, and into how many heads should its key budget be split?"""

import sys

from manyheads.lazy import on_demand

TYPE_CHECKING = False  # `typing` takes longer to import than this module
if TYPE_CHECKING:
    from manyheads import construct as construct
    from manyheads.block import BlockOutcome as BlockOutcome
    from manyheads.block import BlockRun as BlockRun
    from manyheads.block import frozen_table as frozen_table
    from manyheads.block import train_blocks as train_blocks
    from manyheads.capacity import Budget as Budget
    from manyheads.capacity import Capacity as Capacity
    from manyheads.capacity import Goal as Goal
    from manyheads.capacity import measure as measure
    from manyheads.certificate import Certificate as Certificate
    from manyheads.certificate import certify as certify
    from manyheads.certificate.exclusion import exclude as exclude
    from manyheads.certificate.exclusion_proof import Exclusion as Exclusion
    from manyheads.certificate.exclusion_proof import check_exclusion as check_exclusion
    from manyheads.drawing import draw as draw
    from manyheads.errors import InputError as InputError
    from manyheads.files import read_embedding as read_embedding
    from manyheads.files import read_exclusion as read_exclusion
    from manyheads.files import read_graph as read_graph
    from manyheads.files import read_labels as read_labels
    from manyheads.files import read_layer as read_layer
    from manyheads.files import write_embedding as write_embedding
    from manyheads.files import write_exclusion as write_exclusion
    from manyheads.files import write_export as write_export
    from manyheads.files import write_graph as write_graph
    from manyheads.files import write_layer as write_layer
    from manyheads.fitting import FitOptions as FitOptions
    from manyheads.fitting import FitResult as FitResult
    from manyheads.fitting import fit as fit
    from manyheads.fitting import grow as grow
    from manyheads.fitting import smallest as smallest
    from manyheads.layer.layer import Layer as Layer
    from manyheads.layer.rules import Rule as Rule
    from manyheads.layer.rules import register_rule as register_rule
    from manyheads.papers import PaperAnswer as PaperAnswer
    from manyheads.papers import paper as paper
    from manyheads.papers import published_rows as published_rows
    from manyheads.planning import Audit as Audit
    from manyheads.planning import Plan as Plan
    from manyheads.planning import audit as audit
    from manyheads.planning import plan as plan
    from manyheads.problem.embedding import Embedding as Embedding
    from manyheads.problem.embedding_kinds import EmbeddingKind as EmbeddingKind
    from manyheads.problem.embedding_kinds import gaussian as gaussian
    from manyheads.problem.embedding_kinds import one_hot as one_hot
    from manyheads.problem.embedding_kinds import register_embedding_kind as register_embedding_kind
    from manyheads.problem.embedding_kinds import sparse_binary as sparse_binary
    from manyheads.problem.graph import Graph as Graph
    from manyheads.problem.graph import graph_from_networkx as graph_from_networkx
    from manyheads.problem.graph import graph_from_rustworkx as graph_from_rustworkx
    from manyheads.problem.graph_generators import permutation_graph as permutation_graph
    from manyheads.problem.graph_generators import positional_graph as positional_graph
    from manyheads.problem.graph_generators import power_law_graph as power_law_graph
    from manyheads.problem.graph_generators import random_graph as random_graph
    from manyheads.problem.graph_generators import regular_graph as regular_graph
    from manyheads.problem.graph_generators import star_graph as star_graph
    from manyheads.problem.graph_kinds import GraphKind as GraphKind
    from manyheads.problem.graph_kinds import register_graph_kind as register_graph_kind
    from manyheads.problem.problem import Problem as Problem
    from manyheads.problem.problem import draw_problem as draw_problem
    from manyheads.sweep import Store as Store
    from manyheads.training import Outcome as Outcome
    from manyheads.training import Protocol as Protocol
    from manyheads.training import Run as Run
    from manyheads.training import Task as Task
    from manyheads.training import step_limit as step_limit
    from manyheads.training import train as train

# A room is imported when one of its names is first used: `manyheads --help` must not wait for numpy and scipy.
_ROOMS = {
    "block": ("BlockOutcome", "BlockRun", "frozen_table", "train_blocks"),
    "capacity": ("Budget", "Capacity", "Goal", "measure"),
    "certificate": ("Certificate", "certify"),
    "certificate.exclusion": ("exclude",),
    "certificate.exclusion_proof": ("Exclusion", "check_exclusion"),
    "construct": (),
    "drawing": ("draw",),
    "errors": ("InputError",),
    "files": (
        "read_embedding",
        "read_exclusion",
        "read_graph",
        "read_labels",
        "read_layer",
        "write_embedding",
        "write_exclusion",
        "write_export",
        "write_graph",
        "write_layer",
    ),
    "fitting": ("FitOptions", "FitResult", "fit", "grow", "smallest"),
    "layer.layer": ("Layer",),
    "layer.rules": ("Rule", "register_rule"),
    "papers": ("PaperAnswer", "paper", "published_rows"),
    "planning": ("Audit", "Plan", "audit", "plan"),
    "problem.embedding": ("Embedding",),
    "problem.embedding_kinds": ("gaussian", "one_hot", "sparse_binary", "EmbeddingKind", "register_embedding_kind"),
    "problem.graph": ("Graph", "graph_from_networkx", "graph_from_rustworkx"),
    "problem.graph_generators": (
        "permutation_graph",
        "positional_graph",
        "power_law_graph",
        "random_graph",
        "regular_graph",
        "star_graph",
    ),
    "problem.graph_kinds": ("GraphKind", "register_graph_kind"),
    "problem.problem": ("Problem", "draw_problem"),
    "sweep": ("Store",),
    "training": ("Outcome", "Protocol", "Run", "Task", "step_limit", "train"),
}
__all__ = sorted(["construct", *(name for names in _ROOMS.values() for name in names)])
_look_up = on_demand(__name__, _ROOMS)


def __getattr__(name: str) -> object:
    value = _look_up(name)
    if "ipykernel" not in sys.modules:  # no notebook
        return value
    from manyheads.notebook_bar import with_bar

    return with_bar(name, value)


def __dir__() -> list[str]:
    return list(__all__)
