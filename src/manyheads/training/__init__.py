"""Training: the input (Task, Protocol, Run), the result (Outcome), and two engines that agree step by step."""

from typing import TYPE_CHECKING

from manyheads.lazy import on_demand

if TYPE_CHECKING:
    from manyheads.training.engines import train
    from manyheads.training.outcome import Check, OnCheck, Outcome
    from manyheads.training.protocol import Protocol, step_limit
    from manyheads.training.run import Run
    from manyheads.training.task import Task

__all__ = ["Check", "OnCheck", "Outcome", "Protocol", "Run", "Task", "step_limit", "train"]

# Imported on demand: the command line reads the protocol's defaults and must not wait for the engines.
__getattr__ = on_demand(
    __name__,
    {
        "engines": ["train"],
        "outcome": ["Check", "Outcome", "OnCheck"],
        "protocol": ["Protocol", "step_limit"],
        "run": ["Run"],
        "task": ["Task"],
    },
)
