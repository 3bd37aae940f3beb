"""The compact compiler: the smallest layer that provably holds a graph, fitted by full gradients over all pairs."""

from manyheads.construct.fit.descent import Descent
from manyheads.construct.fit.fit import Fitted, fit
from manyheads.construct.fit.fold import Map, fold, linear_map, mapped, suitable_map
from manyheads.construct.fit.grow import grow
from manyheads.construct.fit.search import Found, Try, best_split, predicted_shape, smallest_fit, splits
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
    "grow",
    "linear_map",
    "mapped",
    "predicted_shape",
    "smallest_fit",
    "splits",
    "suitable_map",
]
