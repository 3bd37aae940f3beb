"""RetrievalRun: everything that decides how a network is trained on a retrieval task; RetrievalOutcome: the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import ClassVar, Literal, get_args

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.identity import BatchedRun, normalise_numbers
from manyheads.problem.embedding import GIVEN
from manyheads.tables import counted, in_heads
from manyheads.training.batched_runs import StopReason

PROTOCOL = 2
"""The version of the training protocol, part of every id: raise it when the same fields lead to another training."""

TaskName = Literal["maxima", "max_and_min", "digits"]


class RetrievalSeedKey(IntEnum):
    """The first number of every seed: it says which data the seed generates. No other room uses these numbers."""

    DIRECTIONS = 21
    EXAMPLES = 22
    ORDER = 23
    WEIGHTS = 24


@dataclass(frozen=True)
class RetrievalRun(BatchedRun):
    """One network trained on a task of dimension D (arXiv 2510.06662). Every constant of the training is a field.

    Defaults are the paper's values where the paper gives them: 8,000 training and 2,000 validation examples, MLPs of
    width 32, tokens from N(0, I_4), no positions, norms or residuals. The paper does not give the optimiser, the
    learning rate, the batch size, the number of steps, the initial weights and the directions a_i: this project chose
    them. The optimiser is Adam; its rate falls to 0 along a cosine. The directions are uniform on the sphere and depend
    on the problem seed only, not on the length T or the heads h. Targets are learnt in units of their standard
    deviation. Give the width n of a head or the width E of all heads together; if both are given, E = h·n must hold.

    Attributes:
        dimension: D, the number of extrema to retrieve.
        length: T, the number of tokens of a sequence.
        heads: h.
        seed: The seed of the initial weights and of the order of the examples.
        head_width: n, the width of a head's keys and values.
        embedding_width: E = h·n.
        task: "maxima", "max_and_min", "digits", or the fingerprint of examples that the caller passes to the training.
        layers: L, the number of attention layers.
        mlp_width: The number of hidden units of each MLP.
        input_width: d, the numbers of a token.
        problem_seed: The seed of the directions and the examples; `seed` if None.
        initial_sharpness: ln(β·√n) of every head before training.
        warm_up: The number of steps in which the learning rate rises to its maximum.
        training_examples: The number of training examples.
        validation_examples: The number of validation examples.
        batch: The number of examples in a training step.
        learning_rate: The largest learning rate.
        beta1, beta2: Adam's decay rates of the mean gradient and of the mean squared gradient, in [0, 1).
        epsilon: The number that Adam adds to a denominator.
        steps: The number of training steps.
        validate_every: The number of steps between two validation checks.

    >>> RetrievalRun(dimension=4, length=8, heads=2, head_width=8, seed=0).embedding
    16
    """

    OWN_FIELDS: ClassVar = ("seed", "problem_seed", "heads", "head_width", "embedding_width")

    dimension: int
    length: int
    heads: int
    seed: int
    head_width: int | None = None
    embedding_width: int | None = None
    task: str = "maxima"
    layers: int = 1
    mlp_width: int = 32
    input_width: int = 4
    problem_seed: int | None = None
    training_examples: int = 8_000
    validation_examples: int = 2_000
    initial_sharpness: float = 1.0
    batch: int = 32
    learning_rate: float = 1e-2
    warm_up: int = 100
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    steps: int = 12_000
    validate_every: int = 2_000

    def __post_init__(self) -> None:
        normalise_numbers(self)
        self._check_shape()
        self._check_protocol()

    @property
    def width(self) -> int:
        """n, the width of a head's keys and values."""
        return self.head_width if self.head_width is not None else (self.embedding_width or 0) // self.heads

    @property
    def embedding(self) -> int:
        """E = h·n."""
        return self.heads * self.width

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The fields, with both widths and `problem_seed` as numbers, and the version of the protocol."""
        numbers = {"head_width": self.width, "embedding_width": self.embedding, "problem_seed": self.problem}
        return asdict(self) | numbers | {"kind": "retrieval", "protocol": PROTOCOL}

    def _check_shape(self) -> None:
        h, n, E = self.heads, self.head_width, self.embedding_width
        if n is None and E is None:
            raise InputError("the width of the heads is missing: give head_width or embedding_width")
        if n is not None and E is not None and h * n != E:
            raise InputError(f"{in_heads(h, n)} make up {h * n} dimensions, not E = {E}")
        if n is None and E is not None and E % h:
            raise InputError(f"E = {E} cannot be divided into {counted(h, 'head')}")
        if self.task not in get_args(TaskName) and not self.task.startswith(GIVEN):
            raise InputError(f"unknown task '{self.task}': choose from {', '.join(get_args(TaskName))}")
        if self.task == "max_and_min" and (self.dimension, self.input_width) != (2, 1):
            raise InputError(f"max + min has D = 2 and d = 1, not D = {self.dimension} and d = {self.input_width}")
        if self.task == "digits" and (self.dimension, self.input_width) != (4, 4):
            raise InputError(f"digits have D = 4 and d = 4, not D = {self.dimension} and d = {self.input_width}")
        if self.task == "digits" and self.length < 16:
            raise InputError(f"a digit has 16 patches: the length must be at least 16, not {self.length}")

    def _check_protocol(self) -> None:
        if self.validation_examples < 2:
            raise InputError(f"a variance needs at least 2 validation examples, not {self.validation_examples}")
        if self.batch > self.training_examples:
            raise InputError(f"a batch of {self.batch} is larger than the {self.training_examples} training examples")


@dataclass(frozen=True)
class RetrievalCheck:
    """One validation check.

    Attributes:
        step: The number of training steps before the check.
        nmse: The validation error: mean squared error over the variance of the targets.
        loss: The mean training loss since the previous check, in the same unit.
    """

    step: int
    nmse: float
    loss: float


@dataclass(frozen=True, eq=False)
class RetrievalOutcome:
    """The result of a run: NMSE = MSE/Var(y) after the last step. A value that was not measured is None.

    Attributes:
        run: The run.
        stopped: Why the training stopped.
        steps: The number of steps taken.
        nmse: The NMSE on the validation examples; None unless the run took all its steps.
        training_nmse: The NMSE on the training examples; None unless the run took all its steps.
        weights: The weights after the last step by name, for targets in units of their standard deviation.
        curve: All validation checks.
        seconds: The time of the whole batch divided by the number of its runs.
    """

    run: RetrievalRun
    stopped: StopReason
    steps: int
    nmse: float | None
    training_nmse: float | None
    weights: Mapping[str, Float32[ndarray, "*shape"]] | None
    curve: tuple[RetrievalCheck, ...]
    seconds: float
