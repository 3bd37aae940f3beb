"""Effort: how much of the paper's work a reproduction repeats (Scale), and how long it takes here (Speed)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, combinations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.block.block_run import BlockRun
from manyheads.errors import InputError
from manyheads.numbers import check_numbers
from manyheads.papers.exhibits.block_setting import LAPTOP, BlockSetting
from manyheads.papers.trial import Trial
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.sweep.store.record import Storable
from manyheads.training import Protocol, Run, Task, train
from manyheads.training.engines import step_flops

LARGEST = ((2048, 256), (4096, 512))  # "3 seeds for the largest points" (Sec. 6.1), read as these two


@dataclass(frozen=True)
class Scale:
    """Seeds, sizes and step limits of a reproduction; the defaults are the paper's own.

    Attributes:
        seeds: Seeds at each point; None: the paper's number.
        up_to: The largest number of items; problems with more items are left out. None: no limit.
        steps: The step limit; None: the limits of Table 2.
        quick: Whether to make a rough version that takes minutes.
        block: The setting of Figure 7.

    Raises:
        InputError: seeds below 2, up_to below 64 or steps below 1.
    """

    seeds: int | None = None
    up_to: int | None = None
    steps: int | None = None
    quick: bool = False
    block: BlockSetting = LAPTOP

    def __post_init__(self) -> None:
        check_numbers(seeds=self.seeds, up_to=self.up_to, steps=self.steps)
        for name, least in (("seeds", 2), ("up_to", 64)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name.replace('_', '-')} must be at least {least}, not {value}")

    @property
    def most_items(self) -> int:
        """Problems with more items are not run."""
        return self.up_to or (512 if self.quick else 4096)

    def seeds_at(self, items: int, d_model: int, *, paper: int = 10) -> range:
        """The seeds at one point.

        Args:
            items: m of the point.
            d_model: d_model of the point.
            paper: The paper's number of seeds; its two largest points have 3 instead.

        Returns:
            The seeds 0, 1, ….
        """
        if self.seeds is not None:
            return range(self.seeds)
        return range(3 if self.quick or (items, d_model) in LARGEST else paper)

    def limit(self, paper: int) -> int:
        """The step limit at a point.

        Args:
            paper: The paper's step limit at this point.

        Returns:
            The number of steps.
        """
        return self.steps or (min(paper, 20_000) if self.quick else paper)


TIMED_RUNS = tuple(
    Run(
        Task(f"permutation:{items}", f"gaussian:{d_model}"),
        heads=heads,
        key_width=width,
        seed=0,
        protocol=Protocol(steps=steps, validate_every=steps, test_contexts=16),
    )
    for items, d_model, heads, width, steps in ((64, 16, 4, 5, 2000), (512, 64, 4, 14, 1000), (256, 16, 16, 16, 1000))
)
EVALUATION = 1.25  # validation checks add about a quarter to the training
STOPPED_EARLY = 0.8  # mean share of the step limit that the runs of a panel make
PRODUCT = 512  # rows and columns of the matrices that time numpy
BLOCK_SHARE = 1.0  # a block's step (float32, one core) makes this share of numpy's operations a second
RETRIEVAL_SHARE = 0.1  # the same for a retrieval network, whose matrices are narrow
RETRIEVAL_STEP = 2e-4  # seconds of a retrieval step apart from its matrix products


class Speed:
    """How fast this machine trains layers and multiplies matrices, measured in about a fifth of a second."""

    def __init__(self) -> None:
        for run in TIMED_RUNS:  # the first time is slow and does not count
            train(run)
        taken = np.array([min(train(run).seconds for _ in range(2)) / run.protocol.steps for run in TIMED_RUNS])
        work = np.array([_layer_work(run) for run in TIMED_RUNS])
        # seconds of a step = by · work, where no part takes negative time
        self.by = non_negative_solution(work / taken[:, None], np.ones(len(TIMED_RUNS)))
        self.flops = _numpy_flops()
        self._layers: dict[str, float] = {}  # seconds by id: many exhibits share their runs

    def seconds(self, runs: Sequence[Storable], *, workers: int | None = None) -> float:
        """An estimate of the wall time of these runs.

        Args:
            runs: Runs of any kind.
            workers: runs at the same time; None means one for each core.

        Returns:
            Seconds; NaN if a run needs torch and torch is not installed.
        """
        layers = [run for run in runs if isinstance(run, Run)]
        trials = [run for run in runs if isinstance(run, Trial)]
        blocks = [run for run in runs if isinstance(run, BlockRun)]
        networks = [run for run in runs if isinstance(run, RetrievalRun)]
        if (blocks or networks) and find_spec("torch") is None:
            return math.nan
        shared = sum(self._layer_seconds(run) for run in layers)
        shared += sum(trial.seconds(self.flops) for trial in trials if not trial.EXCLUSIVE)
        shared += sum(run.steps * _block_flops(run) for run in blocks) / (BLOCK_SHARE * self.flops)
        shared += sum(_retrieval_seconds(run, self.flops) for run in networks)
        clocks = sum(trial.seconds(self.flops) for trial in trials if trial.EXCLUSIVE)
        return shared / (workers or os.cpu_count() or 1) + clocks

    def _layer_seconds(self, run: Run) -> float:
        if run.id not in self._layers:
            step = float(_layer_work(run) @ self.by)
            self._layers[run.id] = EVALUATION * STOPPED_EARLY * run.protocol.steps * step
        return self._layers[run.id]


def non_negative_solution(
    matrix: Float64[ndarray, "equations unknowns"], right: Float64[ndarray, " equations"]
) -> Float64[ndarray, " unknowns"]:
    """The least squares solution without a negative number, for a few unknowns.

    For each set of unknowns, all others are 0 and the equations are solved without a constraint. The best solution
    without a negative number is returned. `scipy.optimize` has the same, but takes 0.4 s to import.

    Args:
        matrix: The equations.
        right: Their right sides.

    Returns:
        The solution.
    """
    unknowns, best = matrix.shape[1], np.zeros(matrix.shape[1])
    for used in chain.from_iterable(combinations(range(unknowns), count + 1) for count in range(unknowns)):
        tried = np.zeros(unknowns)
        tried[list(used)] = np.linalg.lstsq(matrix[:, list(used)], right)[0]
        if tried.min() >= 0 and np.linalg.norm(matrix @ tried - right) < np.linalg.norm(matrix @ best - right):
            best = tried
    return best


def _layer_work(run: Run) -> Float64[ndarray, " 3"]:
    """For one step: the number 1, the operations of the projections, and all other operations, which are slower."""
    projections = 8 * run.task.context * run.d_model * run.key_budget
    return np.array([1.0, projections, step_flops(run) - projections])


def _block_flops(run: BlockRun) -> float:
    """Operations of one step: forward and backward pass are three times the forward pass."""
    positions, rows = run.context + 2, run.items + 1
    example = 2 * positions * run.d_model * run.heads  # scores against the folded query
    example += 2 * run.d_model * (2 * run.key_budget + 2 * run.d_model + 2 * run.mlp_width) + 2 * run.d_model * rows
    return 3.0 * run.batch * example


def _retrieval_seconds(run: RetrievalRun, flops: float) -> float:
    tokens = run.batch * run.length
    work = 6 * tokens * run.mlp_width * (run.input_width + 2 * run.heads)
    work += 12 * (run.layers - 1) * tokens * run.embedding * (run.length + run.mlp_width)
    return run.steps * (RETRIEVAL_STEP + work / (RETRIEVAL_SHARE * flops))


def _numpy_flops() -> float:
    """Operations a second of a matrix product in float64, the best of three."""
    left, right = np.random.default_rng(0).standard_normal((2, PRODUCT, PRODUCT))
    best = np.inf
    for _ in range(3):
        begun = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begun)
    return float(2 * PRODUCT**3 / best)
