"""The compact compiler: the smallest layer that provably holds a graph, fitted by full gradients over all pairs."""

from manyheads.fitting.folding import Map, fold, linear_map, map_rows, suitable_map
from manyheads.fitting.layer_fit import FitResult, fit, grow
from manyheads.fitting.options import Descent, FitOptions, FitProgress, FitSearchResult, ShapeTrial
from manyheads.fitting.shape_search import best_split, smallest
from manyheads.fitting.shapes import predicted_shape, splits

__all__ = [
    "Descent",
    "FitOptions",
    "FitProgress",
    "FitResult",
    "FitSearchResult",
    "Map",
    "ShapeTrial",
    "best_split",
    "fit",
    "fold",
    "grow",
    "linear_map",
    "map_rows",
    "predicted_shape",
    "smallest",
    "splits",
    "suitable_map",
]
