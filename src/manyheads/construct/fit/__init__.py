"""The compact compiler: the smallest layer that provably holds a graph, fitted by full gradients over all pairs."""

from manyheads.construct.fit.descent import Descent
from manyheads.construct.fit.fit import Fitted, fit
from manyheads.construct.fit.fold import Map, fold, linear_map, mapped
from manyheads.construct.fit.search import Found, Try, best_split, smallest_fit
from manyheads.construct.fit.standing import Standing

__all__ = [
    "Descent",
    "Fitted",
    "Found",
    "Map",
    "Standing",
    "Try",
    "best_split",
    "fit",
    "fold",
    "linear_map",
    "mapped",
    "smallest_fit",
]
