"""The paper's explicit constructions: from a graph and an embedding to a layer that recognises the graph."""

from manyheads.certificate.calibration import calibrate
from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.compressive_rows import compressive
from manyheads.construct.conditions import ConditionWarning
from manyheads.construct.general_graphs import general
from manyheads.construct.incoherent_rows import (
    BlockChoice,
    Constants,
    block_by_certificate,
    block_by_profile,
    incoherent,
)
from manyheads.construct.one_hot_items import one_hot
from manyheads.construct.score_window import Window
from manyheads.construct.signatures import RADEMACHER, Bernoulli, Rademacher, Signatures
from manyheads.construct.smallest_construction import Attempt, Smallest, smallest
from manyheads.construct.softmax_heads import MendedSoftmax, mended_softmax, softmax
from manyheads.construct.split import Block, Packing, pack, split_sources
from manyheads.construct.width_limit import Limit, limit

__all__ = [
    "RADEMACHER",
    "Attempt",
    "Bernoulli",
    "Block",
    "BlockChoice",
    "ConditionWarning",
    "Constants",
    "Limit",
    "MendedSoftmax",
    "Packing",
    "Rademacher",
    "Signatures",
    "Smallest",
    "Window",
    "assemble",
    "block_by_certificate",
    "block_by_profile",
    "calibrate",
    "compressive",
    "de_embed",
    "general",
    "incoherent",
    "limit",
    "mended_softmax",
    "one_hot",
    "pack",
    "smallest",
    "softmax",
    "split_sources",
]
