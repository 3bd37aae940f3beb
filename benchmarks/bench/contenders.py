"""Contenders of the bench: the native engine, and the peers whose code is in benchmarks/peers.

Each is timed on a shape in microseconds per step and run: wall time by the steps of all runs that went on in it. Each
trains in many short slices, of which the best counts: on a machine with other guests it is what the machine can do when
they leave it alone.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from threading import Barrier
from typing import Protocol

from manyheads._native import Training
from manyheads.machine import cores
from manyheads.training.data import Stream, training_data
from manyheads.training.engines import native_kernel
from manyheads.training.run import Run
from manyheads.training.task import Task

SCRIPTS = Path(__file__).parents[1] / "peers"
WARM_UP = 500  # steps
SCORED = 100  # the contexts after its last step on which a peer says its loss
SLICE, SLICES = 0.01, 100  # seconds, and how many of them make a timing of the native engine


@dataclass(frozen=True)
class Shape:
    """What decides the work of a step."""

    items: int
    d_model: int
    heads: int
    key_budget: int

    def run(self, *, seed: int) -> Run:
        """The paper's run of this shape."""
        task = Task(f"permutation:{self.items}", f"gaussian:{self.d_model}")
        return Run(task, heads=self.heads, key_width=self.key_budget // self.heads, seed=seed)

    def __str__(self) -> str:
        return f"{self.items},{self.d_model},{self.heads},{self.key_budget}"


SHAPES = (Shape(64, 16, 4, 20), Shape(256, 32, 8, 64), Shape(512, 64, 4, 56), Shape(4096, 512, 8, 96))
GROWING = tuple(Shape(8 * d_model, d_model, 8, 64) for d_model in (64, 128, 256, 512, 1024))


@dataclass(frozen=True)
class Timing:
    """A contender's time, and the loss that a peer arrived at."""

    microseconds: float
    loss: float = math.nan


class Contender(Protocol):
    """Whatever can be timed on a shape."""

    @property
    def name(self) -> str:
        """How the tables call it."""

    def time(self, shape: Shape) -> Timing:
        """One timing."""


@dataclass(frozen=True)
class Native:
    """The native engine, training one run in each thread."""

    name: str
    threads: int

    def time(self, shape: Shape) -> Timing:
        """The best of many slices."""
        kernels, steps = _warm(shape, self.threads)
        return Timing(_best([_slice(kernels, steps) for _ in range(SLICES)]))


@dataclass(frozen=True)
class WholeProtocol:
    """The native engine, taking one run in each thread through the whole protocol: the paper's 20,000 steps, all
    40 validation checks and the test. It has no slices: the mean of it all counts."""

    name: str
    threads: int

    def time(self, shape: Shape) -> Timing:
        """Train without an early stop."""
        runs = [shape.run(seed=seed) for seed in range(self.threads)]
        runs = [replace(run, protocol=replace(run.protocol, patience=10**6)) for run in runs]
        kernels = [native_kernel(run, training_data(run)) for run in runs]
        seconds = fmean(_together([partial(kernel.train, None, math.inf) for kernel in kernels]))
        return Timing(1e6 * seconds / sum(run.protocol.steps for run in runs))


@dataclass(frozen=True)
class Peer:
    """A script of benchmarks/peers, the package it needs, and the steps that are enough on each of SHAPES."""

    name: str
    script: str
    needs: str
    steps: tuple[int, ...]
    options: tuple[str, ...] = ()
    same_contexts: bool = True  # so that its loss can be compared

    def absent(self) -> str | None:
        """Why this peer cannot be timed here, if so."""
        if importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed (pip install '.[bench]')"
        return None

    def time(self, shape: Shape) -> Timing:
        """Run the script, in a process of its own."""
        sizes = {"items": shape.items, "d-model": shape.d_model, "heads": shape.heads}
        sizes |= {"key-width": shape.key_budget // shape.heads, "steps": self.steps_on(shape)}
        arguments = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        found = _script(self.script, *arguments, *self.options)
        return Timing(found["microseconds"], found["loss"])

    def steps_on(self, shape: Shape) -> int:
        """How many steps it takes on a shape."""
        return self.steps[SHAPES.index(shape)]


NATIVE = Native("native", cores())
WHOLE = WholeProtocol("native, whole protocol", cores())
ONE_THREAD = Native("native, one thread", 1)
STEPS = (2000, 2000, 2000, 1000)
PROCESSES = ("--processes", str(cores()))
WITH_CARE = ("--written", "with-care")
PEERS = (
    Peer("PyTorch", "eager_torch.py", "torch", STEPS, (*WITH_CARE, *PROCESSES)),
    Peer("PyTorch, drawing", "eager_torch.py", "torch", STEPS, (*WITH_CARE, *PROCESSES, "--draw"), same_contexts=False),
    Peer("PyTorch, tuned", "eager_torch.py", "torch", STEPS, PROCESSES),
    Peer("JAX", "jax_scan.py", "jax", (1000, 500, 500, 50)),
)


def native_loss(shape: Shape, *, steps: int) -> float:
    """The loss a peer should have after this number of steps, on the contexts that follow."""
    kernel = _kernel(shape, seed=0)
    kernel.advance(steps)
    contexts = training_data(shape.run(seed=0)).contexts(Stream.TRAIN, steps, SCORED)
    return fmean(kernel.gradient(context)[0] for context in contexts)


def speed_up(shape: Shape) -> float:
    """All cores against one: the best slice of each, in turns."""
    kernels, steps = _warm(shape, cores())
    one, every = zip(*[(_slice(kernels[:1], steps), _slice(kernels, steps)) for _ in range(SLICES)], strict=True)
    return _best(one) / _best(every)


def matmul_peak() -> float:
    """This machine's own single-thread float32 matmul peak, in GFLOP/s."""
    return float(_script("matmul_peak.py")["gflops"])


def _kernel(shape: Shape, seed: int) -> Training:
    run = shape.run(seed=seed)
    return native_kernel(run, training_data(run))


def _warm(shape: Shape, threads: int) -> tuple[list[Training], int]:
    """Kernels that have begun, one for each thread, and how many steps one makes in a slice."""
    kernels = [_kernel(shape, seed) for seed in range(threads)]
    for kernel in kernels:
        kernel.advance(WARM_UP)
    begun = time.perf_counter()
    kernels[0].advance(WARM_UP)
    return kernels, max(1, round(WARM_UP * SLICE / (time.perf_counter() - begun)))


def _slice(kernels: Sequence[Training], steps: int) -> list[float]:
    """Microseconds of each thread's steps, while all are busy."""
    return [1e6 * seconds / steps for seconds in _together([partial(kernel.advance, steps) for kernel in kernels])]


def _best(slices: Sequence[Sequence[float]]) -> float:
    """Microseconds per step and run: the mean over the threads of each one's best slice.

    Each one's own, as with the peers' processes: no guest need leave both cores alone at the same moment.
    """
    best = [min(of_thread) for of_thread in zip(*slices, strict=True)]
    return fmean(best) / len(best)


def _together(works: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds that each of the works takes, in a thread of its own, all begun at once."""
    ready = Barrier(len(works))

    def timed(work: Callable[[], object]) -> float:
        ready.wait()
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(timed, works))


def _script(name: str, *arguments: str) -> dict[str, float]:
    """What a script of benchmarks/peers prints, run in a session of its own.

    Ctrl-C then reaches this process only, which ends the script and every process that it started.
    """
    command = [sys.executable, str(SCRIPTS / name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as script:
        try:
            printed, _ = script.communicate()
        except BaseException:
            os.killpg(script.pid, signal.SIGKILL)
            raise
    if script.returncode:
        raise subprocess.CalledProcessError(script.returncode, command)
    return json.loads(printed)
