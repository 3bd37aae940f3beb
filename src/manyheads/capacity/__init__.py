"""From many runs to the quantity everyone wants: D_K*, with honest error bars."""

from manyheads.capacity.goal import Goal
from manyheads.capacity.measured_laws import Law, Measured, fit_laws
from manyheads.capacity.measurement import Budget, Capacity, MeasureProgress, measure, measure_protocol
from manyheads.capacity.point import Point, points
from manyheads.capacity.regression import Fit, fit_affine, fit_through_origin
from manyheads.capacity.search import Bracket, Search
from manyheads.capacity.store_summary import Problem, problems
from manyheads.capacity.thresholds import Threshold, threshold

__all__ = [
    "Bracket",
    "Budget",
    "Capacity",
    "Fit",
    "Goal",
    "Law",
    "MeasureProgress",
    "Measured",
    "Point",
    "Problem",
    "Search",
    "Threshold",
    "fit_affine",
    "fit_laws",
    "fit_through_origin",
    "measure",
    "measure_protocol",
    "points",
    "problems",
    "threshold",
]
