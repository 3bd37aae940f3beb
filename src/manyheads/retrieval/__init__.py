"""Retrieval of D extrema at once (arXiv 2510.06662): the task, the layer with D heads that solves it, and its runs.

Tasks and the explicit construction need numpy only. Networks and their training need torch, an optional extra.
"""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.retrieval.refutation import Challenge, challenge
    from manyheads.retrieval.retrieval_examples import RetrievalExamples, draw_examples
    from manyheads.retrieval.retrieval_run import RetrievalCheck, RetrievalOutcome, RetrievalRun
    from manyheads.retrieval.retrieval_task import (
        Combination,
        Feature,
        RetrievalTask,
        TheoremWarning,
        max_and_min,
        sum_of_maxima,
    )
    from manyheads.retrieval.retrieval_training import train_retrievals
    from manyheads.retrieval.sharp_construction import ErrorGuarantee, SharpHeads, sharp_heads

__all__ = [
    "Challenge",
    "Combination",
    "ErrorGuarantee",
    "Feature",
    "RetrievalCheck",
    "RetrievalExamples",
    "RetrievalOutcome",
    "RetrievalRun",
    "RetrievalTask",
    "SharpHeads",
    "TheoremWarning",
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
        "retrieval_examples": ["RetrievalExamples", "draw_examples"],
        "retrieval_run": ["RetrievalCheck", "RetrievalOutcome", "RetrievalRun"],
        "retrieval_task": ["Combination", "Feature", "RetrievalTask", "TheoremWarning", "max_and_min", "sum_of_maxima"],
        "retrieval_training": ["train_retrievals"],
        "sharp_construction": ["ErrorGuarantee", "SharpHeads", "sharp_heads"],
    },
)
