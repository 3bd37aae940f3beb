"""Plan: advice from the bounds, the laws and what training was seen to need."""

from manyheads.planning.advice import Plan, plan
from manyheads.planning.advice_check import Trial, trials
from manyheads.planning.guarantee import Guarantee
from manyheads.planning.model_audit import Audit, audit
from manyheads.planning.prediction import Prediction, predict
from manyheads.planning.split import Alternative, Split, split

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
