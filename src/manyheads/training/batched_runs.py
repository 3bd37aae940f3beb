"""BatchedRunState: the state of one run of several that are trained in one batch, and the reason why it stops.

The blocks and the retrieval networks use it. The engines of attention layers have a state of their own, because a layer
can also stop as converged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.errors import InputError

if TYPE_CHECKING:
    import torch

StopReason = Literal["limit", "diverged", "cancelled", "timeout"]


@dataclass
class BatchedRunState:
    """The state of one run of a batch.

    Attributes:
        stopped: Why the run has stopped; None while it is trained.
        steps: The number of steps so far.
        losses: The losses of the steps since the last validation check.
    """

    stopped: StopReason | None = None
    steps: int = 0
    losses: list[float] = field(default_factory=list)

    def advance(self, losses: Float[ndarray, " steps"]) -> None:
        """Add the losses of these steps. The first loss that is not finite stops the run as diverged."""
        not_finite = np.flatnonzero(~np.isfinite(losses))
        self.steps += int(not_finite[0]) + 1 if not_finite.size else len(losses)
        self.losses += losses.tolist()
        if not_finite.size:
            self.stopped = "diverged"

    def take_mean_loss(self) -> float:
        """Return the mean loss since the last validation check, and start a new mean."""
        mean, self.losses = float(np.mean(self.losses)), []
        return mean


def batch_stop_reason(seconds: float, time_limit: float | None, keep_going: Callable[[], bool]) -> StopReason | None:
    """Why the whole batch must stop now.

    Args:
        seconds: The time since the training began.
        time_limit: The longest time in seconds; None for no limit.
        keep_going: Returns False when the training must be cancelled.

    Returns:
        "cancelled", "timeout", or None if the training goes on.
    """
    if not keep_going():
        return "cancelled"
    return "timeout" if time_limit is not None and seconds > time_limit else None


def device_named(name: str) -> torch.device:
    """The device of this name.

    Args:
        name: A device as torch names it, such as "cpu" or "cuda:0".

    Raises:
        InputError: This machine or this build of torch does not have the device.
    """
    import torch  # an optional extra

    try:
        one = torch.ones(1, device=name)
        one.item()  # the device "meta" has no numbers
    except Exception:  # an unknown name, or a build of torch without that device: each kind has errors of its own
        raise InputError(f"PyTorch has no device '{name}' here") from None
    return one.device
