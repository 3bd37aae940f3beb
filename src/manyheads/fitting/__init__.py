"""The compact compiler: the smallest layer that provably holds a graph, fitted by full gradients over all pairs."""

from manyheads.fitting.folding import Map, fold, linear_map, mapped, suitable_map
from manyheads.fitting.layer_fit import Fitted, fit, grow
from manyheads.fitting.options import Descent, FitOptions, FitProgress, ShapeTrial
from manyheads.fitting.smallest_fit import FitSearchResult, best_split, predicted_shape, smallest_fit, splits

__all__ = [
    "Descent",
    "FitOptions",
    "FitProgress",
    "FitSearchResult",
    "Fitted",
    "Map",
    "ShapeTrial",
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
