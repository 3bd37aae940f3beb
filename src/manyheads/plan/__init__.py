"""Plan: advice from the bounds, the laws and what training was seen to need."""

from manyheads.plan.advice import Guarantee, Plan, plan
from manyheads.plan.prediction import Prediction, predict
from manyheads.plan.split import Alternative, Split, split

__all__ = ["Alternative", "Guarantee", "Plan", "Prediction", "Split", "plan", "predict", "split"]
