"""Standing: where a fit is, for whoever watches, and for the trace it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["separate", "widen"]


@dataclass(frozen=True)
class Standing:
    """One look at all pairs on the way."""

    heads: int
    key_width: int
    attempt: int  # which restart
    phase: Phase
    step: int
    wrong: int  # pairs, of all m²
    window: tuple[float, float]  # thresholds that separate; none where low ≥ high
    loss: float
    seconds: float  # since the fit began

    @property
    def margin(self) -> float:
        """Half the window, negative where it is empty; the scale of the weights is the fit's own."""
        low, high = self.window
        return (high - low) / 2 if math.isfinite(high - low) else math.inf

    def __str__(self) -> str:
        shape = f"{self.heads} × {self.key_width}, attempt {self.attempt + 1}, step {self.step:,}"
        return f"{shape}: {self.wrong:,} pairs wrong, margin {self.margin:.3g}, {self.seconds:.1f} s"


Watch = Callable[[Standing], None]
"""Called at every look; an exception ends the fit and passes through."""
