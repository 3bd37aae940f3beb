"""From many runs to the quantity everyone wants: D_K*, with honest error bars."""

from manyheads.capacity.fit import Fit, fit_affine, fit_through_origin
from manyheads.capacity.point import Point, points
from manyheads.capacity.search import Search
from manyheads.capacity.threshold import Threshold, threshold

__all__ = ["Fit", "Point", "Search", "Threshold", "fit_affine", "fit_through_origin", "points", "threshold"]
