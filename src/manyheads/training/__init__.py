"""Training: what to train (Run), what came of it (Outcome), and two engines that agree step by step."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyheads.training.engines import train
    from manyheads.training.limits import step_limit
    from manyheads.training.outcome import Check, Outcome, Progress
    from manyheads.training.run import Run, fingerprint

__all__ = ["Check", "Outcome", "Progress", "Run", "fingerprint", "step_limit", "train"]

# Opened on demand: who only names a run, as the command line does for its defaults, does not wait for the engines.
_HOMES = {
    "Check": "outcome",
    "Outcome": "outcome",
    "Progress": "outcome",
    "Run": "run",
    "fingerprint": "run",
    "step_limit": "limits",
    "train": "engines",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'manyheads.training' has no attribute '{name}'")
    return getattr(import_module(f"manyheads.training.{_HOMES[name]}"), name)
