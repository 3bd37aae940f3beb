"""How long runs will take on this machine, from its own speed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import nnls

from manyheads.papers.trial import Trial
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.sweep.store.record import Storable
from manyheads.training import Protocol, Run, Task, train
from manyheads.training.native import step_flops

TRIALS = tuple(
    Run(
        Task(f"permutation:{items}", f"gaussian:{d_model}"),
        heads=heads,
        key_width=key_width,
        seed=0,
        protocol=Protocol(steps=steps, validate_every=steps),
    )
    for items, d_model, heads, key_width, steps in (
        (64, 16, 4, 5, 4_000),
        (512, 64, 4, 14, 2_000),
        (256, 16, 16, 16, 2_000),
    )
)
EVALUATION = 1.25  # validation checks cost about a quarter of the training
STOPPED_EARLY = 0.8  # of the step limit are made, in the mean over a panel
PRODUCT = 512  # rows and columns of the matrices by which numpy is timed


class Speed:
    """Seconds a step takes: so much each, for its projections and for its scores, measured on short runs.

    And how many operations a second numpy makes in a product of matrices, which is what trials consist of.
    """

    def __init__(self) -> None:
        for run in TRIALS:  # once to warm up
            train(run)
        taken = np.array([min(train(run).seconds for _ in range(3)) / run.protocol.steps for run in TRIALS])
        work = np.array([_work(run) for run in TRIALS])
        self.by = nnls(work / taken[:, None], np.ones(len(TRIALS)))[0]  # none of them takes less than no time
        self.flops = _numpy_flops()

    def seconds(self, runs: Sequence[Storable], *, workers: int | None = None) -> float:
        """Wall time of these runs, spread over the workers, but for those that are made alone."""
        layers = [run for run in runs if isinstance(run, Run)]
        trained = EVALUATION * STOPPED_EARLY * sum(run.protocol.steps * float(_work(run) @ self.by) for run in layers)
        trials = [run for run in runs if isinstance(run, Trial)]
        shared, alone = (sum(run.seconds(self.flops) for run in trials if run.ALONE is one) for one in (False, True))
        shared += sum(_retrieval_seconds(run, self.flops) for run in runs if isinstance(run, RetrievalRun))
        return (trained + shared) / (workers or os.cpu_count() or 1) + alone


def _work(run: Run) -> Float64[ndarray, " 3"]:
    """One step, the operations of its projections, and all others: among scores the engine is slower."""
    projections = 8 * run.task.context * run.d_model * run.key_budget
    return np.array([1.0, projections, step_flops(run) - projections])


def _retrieval_seconds(run: RetrievalRun, flops: float) -> float:
    """Skinny products, far from the peak: a tenth of it, and a share of what a step costs however small it is."""
    tokens = run.batch * run.length
    work = 6 * tokens * run.mlp_width * (run.input_width + 2 * run.heads)
    work += 12 * (run.layers - 1) * tokens * run.embedding * (run.length + run.mlp_width)
    return run.steps * (2e-4 + work / (0.1 * flops))


def _numpy_flops() -> float:
    """Operations a second in float64, the best of three products."""
    left, right = np.random.default_rng(0).standard_normal((2, PRODUCT, PRODUCT))
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begun)
    return float(2 * PRODUCT**3 / best)
