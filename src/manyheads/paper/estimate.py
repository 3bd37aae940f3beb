"""How long runs will take on this machine, from its own speed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from manyheads.paper.trial import Trial
from manyheads.sweep.record import Meant
from manyheads.training import Run, train
from manyheads.training.native import step_flops

TRIALS = (
    Run(64, 16, 4, 5, seed=0, steps=4_000, validate_every=4_000),
    Run(512, 64, 4, 14, seed=0, steps=2_000, validate_every=2_000),
)
EVALUATION = 1.25  # validation checks cost about a quarter of the training
STOPPED_EARLY = 0.8  # of the step limit are made, in the mean over a panel
PRODUCT = 512  # rows and columns of the matrices by which numpy is timed


class Speed:
    """Seconds a step takes: so much for every step and so much for its arithmetic, measured on two short runs.

    And how many operations a second numpy makes in a product of matrices, which is what trials consist of.
    """

    def __init__(self) -> None:
        for run in TRIALS:  # once to warm up
            train(run)
        (small, large) = (min(train(run).seconds for _ in range(3)) / run.steps for run in TRIALS)
        work = [step_flops(run) for run in TRIALS]
        self.by_flop = max(large - small, 0.0) / (work[1] - work[0])
        self.by_step = max(small - self.by_flop * work[0], 0.0)
        self.flops = _numpy_flops()

    def seconds(self, runs: Sequence[Meant], *, workers: int | None = None) -> float:
        """Wall time of these runs, spread over the workers, but for those that are made alone."""
        layers = [run for run in runs if isinstance(run, Run)]
        each = (run.steps * (self.by_step + self.by_flop * step_flops(run)) for run in layers)
        trained = EVALUATION * STOPPED_EARLY * sum(each)
        trials = [run for run in runs if isinstance(run, Trial)]
        shared, alone = (sum(run.seconds(self.flops) for run in trials if run.ALONE is one) for one in (False, True))
        return (trained + shared) / (workers or os.cpu_count() or 1) + alone


def _numpy_flops() -> float:
    """Operations a second in float64, the best of three products."""
    left, right = np.random.default_rng(0).standard_normal((2, PRODUCT, PRODUCT))
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begun)
    return float(2 * PRODUCT**3 / best)
