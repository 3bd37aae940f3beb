"""Goal: when a layer counts as working."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from manyheads.capacity.thresholds import TARGET
from manyheads.errors import InputError
from manyheads.layer.rules import Rule
from manyheads.training.task import Task

EXACT_SHARE = 0.5  # the share of seeds that must recover every pair


@runtime_checkable
class Scored(Protocol):
    """The result of a run: a record of a store, or a row of the paper."""

    def score(self, name: str) -> float | int | None:
        """A score by its name; None where it was not measured."""


@dataclass(frozen=True)
class Goal:
    """A mean test F1, or exact recovery: at least half of the seeds decide all items² pairs right.

    Args:
        exact: Whether the goal is exact recovery.
        micro_f1: The mean test F1 that counts as working, in (0, 1]; without effect if `exact`.

    Raises:
        InputError: The F1 lies outside its range.
    """

    exact: bool = False
    micro_f1: float = TARGET

    def __post_init__(self) -> None:
        if not 0 < self.micro_f1 <= 1:
            raise InputError(f"a target F1 is above 0 and at most 1, not {self.micro_f1:g}")

    @property
    def target(self) -> float:
        """The value that the mean of `score` over the seeds must reach."""
        return EXACT_SHARE if self.exact else self.micro_f1

    def check(self, task: Task, rule: Rule) -> None:
        """Refuse a task or a rule whose runs have no score for this goal.

        Raises:
            InputError: The task is the value channel, or the goal is exact and the rule decides no single pair.
        """
        if task.objective == "values":
            raise InputError("the value channel has a squared error and no F1: capacities are measured for edges only")
        if self.exact and not (rule.context_blind and rule.has_rounding_bound):
            raise InputError(f"exact recovery is decided pair by pair, which the rule {rule} does not allow")

    def score(self, outcome: Scored) -> float | None:
        """The score of one run: its F1, or 1.0 for exact recovery and 0.0 without; None if it was not measured."""
        if not self.exact:
            return outcome.score("micro_f1")
        errors = outcome.score("exact_errors")
        return None if errors is None else float(errors == 0)

    def __str__(self) -> str:
        return "exact recovery" if self.exact else f"F1 ≥ {self.micro_f1:g}"
