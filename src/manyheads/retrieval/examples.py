"""Examples: sequences and what is to be retrieved from them, drawn from a run's seeds or handed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.embedding import GIVEN, given_name
from manyheads.retrieval.presets import max_and_min, sum_of_maxima, unit_directions
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.retrieval.retrieval_task import RetrievalTask
from manyheads.retrieval.seeds import Purpose

FAR = 40.0
"""No number of a standard normal generator is larger: the box of tasks over them."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Sequences as a network reads them, and their targets; the first are for training, the next for validation."""

    tokens: Float32[ndarray, "examples length inputs"]
    targets: Float64[ndarray, " examples"]

    @property
    def name(self) -> str:
        """How a run names these examples."""
        return given_name(np.column_stack([self.tokens.reshape(len(self.tokens), -1), self.targets]))


def draw_examples(
    task: RetrievalTask, count: int, *, seed: int, inputs: Literal["uniform", "normal"] = "uniform"
) -> Examples:
    """So many examples of any task, their tokens uniform in its box or standard normal."""
    if count < 1:
        raise InputError(f"there must be at least 1 example, not {count}")
    rng = np.random.default_rng((int(Purpose.EXAMPLES), seed, task.length, task.width))
    size = (count, task.length, task.width)
    x = rng.uniform(*task.box, size=size) if inputs == "uniform" else rng.standard_normal(size)
    return Examples(task.tokens(x).astype(np.float32), task.targets(x))


def task_of(run: RetrievalRun) -> RetrievalTask:
    """The task of a run that draws its own; its directions are the same for every length and head count."""
    if run.task == "max_and_min":
        return max_and_min(run.length)
    rng = np.random.default_rng((int(Purpose.DIRECTIONS), run.problem, run.dimension, run.input_width))
    return sum_of_maxima(unit_directions(run.dimension, run.input_width, rng), run.length, box=(-FAR, FAR))


def examples_of(run: RetrievalRun, given: Examples | None = None) -> Examples:
    """What a run trains and is validated on, the same for every head count of a problem seed."""
    reason = examples_refusal(run, given)
    if reason is not None:
        raise InputError(reason)
    if given is not None:
        return given
    count = run.training_examples + run.validation_examples
    if run.task == "digits":
        from manyheads.retrieval.digits import digit_examples

        return digit_examples(run.length, count, seed=run.problem)
    inputs: Literal["uniform", "normal"] = "normal" if run.task == "maxima" else "uniform"
    return draw_examples(task_of(run), count, seed=run.problem, inputs=inputs)


def examples_refusal(run: RetrievalRun, given: Examples | None) -> str | None:
    """Why the run cannot train on these examples; None where it can."""
    if given is None:
        return f"the run trains on the examples {run.task}: hand them in" if run.task.startswith(GIVEN) else None
    if given.name != run.task:
        return f"the examples handed in are {given.name}, the run names {run.task}"
    wanted = (run.training_examples + run.validation_examples, run.length, run.input_width)
    if given.tokens.shape != wanted:
        return f"the examples have the shape {given.tokens.shape}, and the run needs {wanted}"
    return None
