"""From many runs to D_K*, the smallest key budget that works, with its range."""

from manyheads.capacity.measured_capacity import Budget, Capacity, MeasureProgress
from manyheads.capacity.measurement import measure, measure_protocol
from manyheads.capacity.regression import (
    MeasuredLaw,
    MeasuredProblem,
    Regression,
    affine_regression,
    law_regressions,
    regression_through_origin,
)
from manyheads.capacity.search import Bracket, Search, search_threshold
from manyheads.capacity.store_summary import Experiment, StoredProblem, experiments, run_bits, stored_problems
from manyheads.capacity.thresholds import Goal, Point, Threshold, points, threshold

__all__ = [
    "Bracket",
    "Budget",
    "Capacity",
    "Experiment",
    "Goal",
    "MeasureProgress",
    "MeasuredLaw",
    "MeasuredProblem",
    "Point",
    "Regression",
    "Search",
    "StoredProblem",
    "Threshold",
    "affine_regression",
    "experiments",
    "law_regressions",
    "measure",
    "measure_protocol",
    "points",
    "regression_through_origin",
    "run_bits",
    "search_threshold",
    "stored_problems",
    "threshold",
]
