"""Course: how one of several runs that are trained side by side goes, and what ends it before its last step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

Stopped = Literal["limit", "diverged", "cancelled", "timeout"]


@dataclass
class Course:
    """The steps of a run so far, and what ended it."""

    stopped: Stopped | None = None
    steps: int = 0
    losses: list[float] = field(default_factory=list)  # since the last check

    def advance(self, losses: Float[ndarray, " steps"]) -> None:
        """Note the losses of these steps; the first that is not finite ends the run."""
        unsound = np.flatnonzero(~np.isfinite(losses))
        self.steps += int(unsound[0]) + 1 if unsound.size else len(losses)
        self.losses += losses.tolist()
        if unsound.size:
            self.stopped = "diverged"

    def mean_loss(self) -> float:
        """The mean since the last check, which this is."""
        mean, self.losses = float(np.mean(self.losses)), []
        return mean


def cut(seconds: float, time_limit: float | None, keep_going: Callable[[], bool]) -> Stopped | None:
    """What ends all runs after so long, if anything does."""
    if not keep_going():
        return "cancelled"
    return "timeout" if time_limit is not None and seconds > time_limit else None
