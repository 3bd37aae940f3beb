"""The compact compiler: the smallest layer that provably holds a graph, fitted by full gradients over all pairs."""

from manyheads.fitting.descent import Descent
from manyheads.fitting.folding import Map, fold, linear_map, mapped, suitable_map
from manyheads.fitting.growth import grow
from manyheads.fitting.layer_fit import Fitted, fit
from manyheads.fitting.progress import Standing
from manyheads.fitting.smallest_fit import Found, Try, best_split, predicted_shape, smallest_fit, splits

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
