"""Planning: advice from the bounds, the laws and measured thresholds, for a problem or for a real model."""

from manyheads.planning.advice import plan
from manyheads.planning.advice_check import AdviceCheck, check_advice
from manyheads.planning.answers import RelationsThatFit, WidthNeeded, d_model_needed, relations_that_fit
from manyheads.planning.guarantee import Guarantee, Promise, promise
from manyheads.planning.layer_plan import Plan
from manyheads.planning.model_audit import Audit, audit
from manyheads.planning.prediction import Alternative, Prediction, Split, predict, split
from manyheads.planning.sharing import Comparison, LayerCost, SharingLoss, compare, layer_cost, sharing_loss

__all__ = [
    "AdviceCheck",
    "Alternative",
    "Audit",
    "Comparison",
    "Guarantee",
    "LayerCost",
    "Plan",
    "Prediction",
    "Promise",
    "RelationsThatFit",
    "SharingLoss",
    "Split",
    "WidthNeeded",
    "audit",
    "check_advice",
    "compare",
    "d_model_needed",
    "layer_cost",
    "plan",
    "predict",
    "promise",
    "relations_that_fit",
    "sharing_loss",
    "split",
]
