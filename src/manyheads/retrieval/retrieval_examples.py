"""RetrievalExamples: sequences and their targets, generated from the seeds of a run or passed by the caller.

The digits replace the paper's CIFAR-10: 1,797 images of 8×8 pixels that scikit-learn contains. Each image is 16 patches
of 2×2 pixels; blank patches fill the sequence up to the length T, as the paper does with its images. The four extrema
are the strongest edges: the largest difference between the halves of a patch, left − right, right − left, top − bottom
and bottom − top. The target is their sum. A blank patch has no edge: it makes the sequence
longer and keeps the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.embedding import GIVEN, given_name
from manyheads.retrieval.retrieval_run import RetrievalRun, RetrievalSeedKey
from manyheads.retrieval.retrieval_task import RetrievalTask, max_and_min, sum_of_maxima, unit_directions

NORMAL_LIMIT = 40.0
"""No random number of a standard normal generator is larger: the box of tasks with normal tokens."""
IMAGES, SIDE, PATCH = 1_797, 8, 2
PATCHES = (SIDE // PATCH) ** 2
EDGES = np.array([[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, -1, -1], [-1, -1, 1, 1]]) / 2
"""The four directions; the pixels of a patch are numbered row by row."""

EXAMPLES_AT_ONCE = 500  # the examples of an evaluation in one tensor


@dataclass(frozen=True, eq=False)
class RetrievalExamples:
    """Sequences as a network reads them, and their targets. Training examples come first, then validation examples.

    Attributes:
        tokens: The inputs of the network, of shape (examples, length, inputs).
        targets: y of each sequence, of shape (examples,).
    """

    tokens: Float32[ndarray, "examples length inputs"]
    targets: Float64[ndarray, " examples"]

    @property
    def name(self) -> str:
        """The fingerprint by which a run names these examples."""
        return given_name(np.column_stack([self.tokens.reshape(len(self.tokens), -1), self.targets]))


def draw_examples(
    task: RetrievalTask, count: int, *, seed: int, inputs: Literal["uniform", "normal"] = "uniform"
) -> RetrievalExamples:
    """Generate random examples of a task.

    Args:
        task: The task.
        count: The number of examples, at least 1.
        seed: The seed of the tokens.
        inputs: The distribution of the tokens: uniform in the task's box, or standard normal.

    Returns:
        The examples.

    Raises:
        InputError: `count` is below 1.

    >>> draw_examples(max_and_min(5), 3, seed=0).tokens.shape
    (3, 5, 1)
    """
    if count < 1:
        raise InputError(f"there must be at least 1 example, not {count}")
    rng = np.random.default_rng((int(RetrievalSeedKey.EXAMPLES), seed, task.length, task.width))
    size = (count, task.length, task.width)
    x = rng.uniform(*task.box, size=size) if inputs == "uniform" else rng.standard_normal(size)
    return RetrievalExamples(task.tokens(x).astype(np.float32), task.targets(x))


def task_of(run: RetrievalRun) -> RetrievalTask:
    """The task of a run with the task "maxima" or "max_and_min". Length and heads do not change its directions."""
    if run.task == "max_and_min":
        return max_and_min(run.length)
    rng = np.random.default_rng((int(RetrievalSeedKey.DIRECTIONS), run.problem, run.dimension, run.input_width))
    directions = unit_directions(run.dimension, run.input_width, rng)
    return sum_of_maxima(directions, run.length, box=(-NORMAL_LIMIT, NORMAL_LIMIT))


def examples_of(run: RetrievalRun, given: RetrievalExamples | None = None) -> RetrievalExamples:
    """The training and validation examples of a run. Runs with the same problem seed have the same, for all heads.

    Args:
        run: The run.
        given: The examples that the run names by their fingerprint; None for a run with a task of its own.

    Returns:
        The training examples, then the validation examples.

    Raises:
        InputError: The examples are missing, are not the examples of the run, or have another shape.
    """
    reason = examples_refusal(run, given)
    if reason is not None:
        raise InputError(reason)
    if given is not None:
        return given
    count = run.training_examples + run.validation_examples
    if run.task == "digits":
        return digit_examples(run.length, count, seed=run.problem)
    inputs: Literal["uniform", "normal"] = "normal" if run.task == "maxima" else "uniform"
    return draw_examples(task_of(run), count, seed=run.problem, inputs=inputs)


def examples_refusal(run: RetrievalRun, given: RetrievalExamples | None) -> str | None:
    """The reason why a run cannot train on these examples; None if it can."""
    if given is None:
        needs = run.task.startswith(GIVEN)
        return f"the run trains on the examples {run.task}: pass these examples too" if needs else None
    if given.name != run.task:
        return f"the examples passed are {given.name}, but the run names {run.task}"
    needed = (run.training_examples + run.validation_examples, run.length, run.input_width)
    if given.tokens.shape != needed:
        return f"the examples have the shape {given.tokens.shape}, but the run needs {needed}"
    return None


def digit_patches(length: int) -> Float64[ndarray, "images length 4"]:
    """Every image as its 16 patches of 4 pixels, and blank patches up to the length.

    Raises:
        InputError: The length is below 16, or scikit-learn is missing.
    """
    if length < PATCHES:
        raise InputError(f"a digit has {PATCHES} patches: the length must be at least {PATCHES}, not {length}")
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise InputError("the digits are scikit-learn's: pip install 'manyheads[digits]'") from None
    pixels = load_digits().images / 16.0
    grid = pixels.reshape(-1, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH).swapaxes(2, 3)
    patches = grid.reshape(len(pixels), PATCHES, PATCH * PATCH)
    return np.pad(patches, ((0, 0), (0, length - PATCHES), (0, 0)))


def digit_examples(length: int, count: int, *, seed: int) -> RetrievalExamples:
    """The first `count` images in a random order.

    Raises:
        InputError: There are fewer images, the length is below 16, or scikit-learn is missing.
    """
    if not 1 <= count <= IMAGES:
        raise InputError(f"there are {IMAGES:,} digits, not {count:,}")
    x = digit_patches(length)
    chosen = x[np.random.default_rng((int(RetrievalSeedKey.EXAMPLES), seed)).permutation(len(x))[:count]]
    return RetrievalExamples(chosen.astype(np.float32), sum_of_maxima(EDGES, length).targets(chosen))
