"""Training: what to train (Run), what came of it (Outcome), and two engines that agree step by step."""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.training.engines import train
    from manyheads.training.outcome import Check, Outcome, Progress
    from manyheads.training.run import Run, fingerprint, weight_for
    from manyheads.training.step_limits import step_limit

__all__ = ["Check", "Outcome", "Progress", "Run", "fingerprint", "step_limit", "train", "weight_for"]

# Opened on demand: who only names a run, as the command line does for its defaults, does not wait for the engines.
__getattr__ = on_demand(
    __name__,
    {
        "engines": ["train"],
        "step_limits": ["step_limit"],
        "outcome": ["Check", "Outcome", "Progress"],
        "run": ["Run", "fingerprint", "weight_for"],
    },
)
