"""The paper's explicit constructions: from a problem to a layer that recognises its graph."""

from manyheads.certificate.certificate import calibrate
from manyheads.construct.heads import (
    RADEMACHER,
    Bernoulli,
    ConditionWarning,
    Rademacher,
    Signatures,
    assemble,
    de_embed,
)
from manyheads.construct.incoherent_rows import (
    Constants,
    MatchingChoice,
    incoherent,
    matchings_by_certificate,
    matchings_by_profile,
)
from manyheads.construct.matchings import Packing, compressive, general, pack, split_sources
from manyheads.construct.one_hot_items import one_hot
from manyheads.construct.smallest_construction import SmallestConstruction, WidthTrial, smallest
from manyheads.construct.softmax_heads import MendedSoftmax, mended_softmax, softmax
from manyheads.construct.width_limit import ScoreWindow, WidthLimit, limit
from manyheads.problem.graph import Matching

__all__ = [
    "RADEMACHER",
    "Bernoulli",
    "ConditionWarning",
    "Constants",
    "Matching",
    "MatchingChoice",
    "MendedSoftmax",
    "Packing",
    "Rademacher",
    "ScoreWindow",
    "Signatures",
    "SmallestConstruction",
    "WidthLimit",
    "WidthTrial",
    "assemble",
    "calibrate",
    "compressive",
    "de_embed",
    "general",
    "incoherent",
    "limit",
    "matchings_by_certificate",
    "matchings_by_profile",
    "mended_softmax",
    "one_hot",
    "pack",
    "smallest",
    "softmax",
    "split_sources",
]
