"""Planning: advice from the bounds, the laws and measured thresholds, for a problem or for a real model."""

from manyheads.planning.advice import plan
from manyheads.planning.advice_check import AdviceCheck, check_advice
from manyheads.planning.answers import RelationsThatFit, WidthNeeded, d_model_needed, relations_that_fit
from manyheads.planning.guarantee import Guarantee, Promise, promise
from manyheads.planning.layer_plan import Plan
from manyheads.planning.model_audit import Audit, audit
from manyheads.planning.prediction import Alternative, Prediction, Split, predict, split

__all__ = [
    "AdviceCheck",
    "Alternative",
    "Audit",
    "Guarantee",
    "Plan",
    "Prediction",
    "Promise",
    "RelationsThatFit",
    "Split",
    "WidthNeeded",
    "audit",
    "check_advice",
    "d_model_needed",
    "plan",
    "predict",
    "promise",
    "relations_that_fit",
    "split",
]
