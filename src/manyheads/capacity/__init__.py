"""From many runs to the quantity everyone wants: D_K*, with honest error bars."""

from manyheads.capacity.fit import Fit, fit_affine, fit_through_origin
from manyheads.capacity.goal import Goal
from manyheads.capacity.laws import Law, Measured, fit_laws
from manyheads.capacity.measure import Budget, Capacity, Watch, measure
from manyheads.capacity.point import Point, points
from manyheads.capacity.search import Bracket, Search
from manyheads.capacity.stored import Problem, problems
from manyheads.capacity.threshold import Threshold, threshold

__all__ = [
    "Bracket",
    "Budget",
    "Capacity",
    "Fit",
    "Goal",
    "Law",
    "Measured",
    "Point",
    "Problem",
    "Search",
    "Threshold",
    "Watch",
    "fit_affine",
    "fit_laws",
    "fit_through_origin",
    "measure",
    "points",
    "problems",
    "threshold",
]
