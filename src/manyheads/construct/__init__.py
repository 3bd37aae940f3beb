"""The paper's explicit constructions: from a graph and an embedding to a layer that recognises the graph."""

from manyheads.construct.assemble import assemble, de_embed
from manyheads.construct.blocks import Block, Packing, pack, split_sources
from manyheads.construct.calibrate import calibrate
from manyheads.construct.compressive import compressive
from manyheads.construct.conditions import ConditionWarning
from manyheads.construct.fit import (
    Descent,
    Fitted,
    Found,
    Standing,
    Try,
    best_split,
    fit,
    fold,
    grow,
    linear_map,
    mapped,
    predicted_shape,
    smallest_fit,
    suitable_map,
)
from manyheads.construct.general import general
from manyheads.construct.incoherent import BlockChoice, Constants, block_by_certificate, block_by_profile, incoherent
from manyheads.construct.limit import Limit, limit
from manyheads.construct.one_hot import one_hot
from manyheads.construct.signatures import RADEMACHER, Bernoulli, Rademacher, Signatures
from manyheads.construct.smallest import Attempt, Smallest, smallest
from manyheads.construct.softmax import MendedSoftmax, mended_softmax, softmax
from manyheads.construct.window import Window

__all__ = [
    "RADEMACHER",
    "Attempt",
    "Bernoulli",
    "Block",
    "BlockChoice",
    "ConditionWarning",
    "Constants",
    "Descent",
    "Fitted",
    "Found",
    "Limit",
    "MendedSoftmax",
    "Packing",
    "Rademacher",
    "Signatures",
    "Smallest",
    "Standing",
    "Try",
    "Window",
    "assemble",
    "best_split",
    "block_by_certificate",
    "block_by_profile",
    "calibrate",
    "compressive",
    "de_embed",
    "fit",
    "fold",
    "general",
    "grow",
    "incoherent",
    "limit",
    "linear_map",
    "mapped",
    "mended_softmax",
    "one_hot",
    "pack",
    "predicted_shape",
    "smallest",
    "smallest_fit",
    "softmax",
    "split_sources",
    "suitable_map",
]
