"""Plan: advice from the bounds, the laws and what training was seen to need."""

from manyheads.planning.advice import Plan, plan
from manyheads.planning.audit import Audit, audit
from manyheads.planning.guarantee import Guarantee
from manyheads.planning.prediction import Prediction, predict
from manyheads.planning.split import Alternative, Split, split
from manyheads.planning.trial import Trial, trials

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
