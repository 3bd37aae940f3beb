"""Plan: advice from the bounds, the laws and what training was seen to need."""

from manyheads.plan.advice import Guarantee, Plan, plan
from manyheads.plan.audit import Audit, audit
from manyheads.plan.prediction import Prediction, predict
from manyheads.plan.split import Alternative, Split, split
from manyheads.plan.trial import Trial, trials

__all__ = [
    "Alternative",
    "Audit",
    "Guarantee",
    "Plan",
    "Prediction",
    "Split",
    "Trial",
    "audit",
    "plan",
    "predict",
    "split",
    "trials",
]
