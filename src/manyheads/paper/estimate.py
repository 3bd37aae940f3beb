"""How long runs will take on this machine, from its own speed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from manyheads.sweep.record import Meant
from manyheads.training import Run, train
from manyheads.training.native import step_flops

TRIALS = (
    Run(64, 16, 4, 5, seed=0, steps=4_000, validate_every=4_000),
    Run(512, 64, 4, 14, seed=0, steps=2_000, validate_every=2_000),
)
EVALUATION = 1.25  # validation checks cost about a quarter of the training
STOPPED_EARLY = 0.8  # of the step limit are made, in the mean over a panel


class Speed:
    """Seconds a step takes: so much for every step and so much for its arithmetic, measured on two short runs."""

    def __init__(self) -> None:
        for run in TRIALS:  # once to warm up
            train(run)
        (small, large) = (min(train(run).seconds for _ in range(3)) / run.steps for run in TRIALS)
        work = [step_flops(run) for run in TRIALS]
        self.by_flop = max(large - small, 0.0) / (work[1] - work[0])
        self.by_step = max(small - self.by_flop * work[0], 0.0)

    def seconds(self, runs: Sequence[Meant], *, workers: int | None = None) -> float:
        """Wall time of these runs, spread over the workers; runs that train no layer take no time worth counting."""
        layers = [run for run in runs if isinstance(run, Run)]
        each = (run.steps * (self.by_step + self.by_flop * step_flops(run)) for run in layers)
        return EVALUATION * STOPPED_EARLY * sum(each) / (workers or os.cpu_count() or 1)
