"""Retrieving D things at once (arXiv 2510.06662): the task, the layer that shows why it wants D heads, and its runs.

Tasks and the explicit construction need numpy alone; networks and their training need torch (an extra).
"""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.retrieval.examples import Examples, draw_examples
    from manyheads.retrieval.presets import max_and_min, sum_of_maxima
    from manyheads.retrieval.refutation import Challenge, challenge
    from manyheads.retrieval.retrieval_outcome import RetrievalCheck, RetrievalOutcome
    from manyheads.retrieval.retrieval_run import RetrievalRun
    from manyheads.retrieval.retrieval_task import Combination, Feature, NotCovered, RetrievalTask
    from manyheads.retrieval.retrieval_training import train_retrievals
    from manyheads.retrieval.sharp_heads import Guarantee, SharpHeads, sharp_heads

__all__ = [
    "Challenge",
    "Combination",
    "Examples",
    "Feature",
    "Guarantee",
    "NotCovered",
    "RetrievalCheck",
    "RetrievalOutcome",
    "RetrievalRun",
    "RetrievalTask",
    "SharpHeads",
    "challenge",
    "draw_examples",
    "max_and_min",
    "sharp_heads",
    "sum_of_maxima",
    "train_retrievals",
]

__getattr__ = on_demand(
    __name__,
    {
        "refutation": ["Challenge", "challenge"],
        "examples": ["Examples", "draw_examples"],
        "retrieval_outcome": ["RetrievalCheck", "RetrievalOutcome"],
        "presets": ["max_and_min", "sum_of_maxima"],
        "retrieval_run": ["RetrievalRun"],
        "sharp_heads": ["Guarantee", "SharpHeads", "sharp_heads"],
        "retrieval_task": ["Combination", "Feature", "NotCovered", "RetrievalTask"],
        "retrieval_training": ["train_retrievals"],
    },
)
