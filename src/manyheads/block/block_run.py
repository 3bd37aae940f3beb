"""BlockRun: everything that decides how a Transformer block is trained; BlockOutcome: the result of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, get_args

from jaxtyping import Float32
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.identity import BatchedRun, normalise_numbers
from manyheads.problem.embedding import GIVEN
from manyheads.training.batched_runs import StopReason

PROTOCOL = 1
"""The version of the training protocol, part of every id: raise it when the same fields lead to another training."""

NUMBERS_AT_ONCE = 1 << 24
"""The largest tensor of an evaluation, in numbers; it limits the examples that are evaluated at a time."""

Precision = Literal["float32", "bfloat16"]
Reduction = Literal["none", "pca"]


@dataclass(frozen=True)
class BlockRun(BatchedRun):
    """One block trained on permutation→matching retrieval (Sec. 7.3). Every constant of the training is a field.

    Defaults are the paper's values where the paper gives them. The paper does not give the batch size, the learning
    rate, the initial weights, the validation interval and the sizes of the validation and test sets: this project chose
    them. Initial weights are normal with standard deviation `initial_scale` · fan-in^(−1/2); gains are 1, biases are 0.
    AdamW's weight decay acts on every weight, gain and bias. The paper's mixed precision is `bfloat16`; it changes the
    speed, and is slower on most CPUs.

    Attributes:
        items: m, the number of items; the table of embedding rows has one row more, for NULL.
        d_model: The width of an embedding row; a multiple of `heads`.
        heads: h.
        key_width: d_k, the width of a head's queries and keys.
        seed: The seed of the initial weights.
        problem_seed: The seed of the permutation, the examples and a Gaussian embedding; `seed` if None.
        embedding: "gaussian", or the fingerprint of a table that the caller passes to the training.
        reduction: "pca" reduces a passed table that is wider than d_model to its first d_model principal components.
        context: ℓ, the number of pairs in a context; `items` must be at least 2·ℓ + 1.
        mlp_width: The number of hidden units of the MLP.
        final_norm: Whether a layer norm precedes the read-out.
        steps: The number of training steps; a run has no early stopping.
        validate_every: The number of steps between two validation checks.
        norm_epsilon: The number that a layer norm adds to the variance.
        initial_scale: The factor of the initial weights' standard deviation.
        batch: The number of examples in a training step.
        learning_rate: AdamW's learning rate.
        weight_decay: AdamW's weight decay.
        beta1, beta2: AdamW's decay rates of the mean gradient and of the mean squared gradient, in [0, 1).
        epsilon: The number that AdamW adds to a denominator.
        validation_examples: The number of examples of a validation check.
        test_examples: The number of examples of the test at the end.
        precision: "float32", or "bfloat16" for mixed precision.

    >>> BlockRun(items=6144, d_model=768, heads=4, key_width=64, seed=0).key_budget
    256
    """

    OWN_FIELDS: ClassVar = ("seed", "problem_seed", "embedding")

    items: int
    d_model: int
    heads: int
    key_width: int
    seed: int
    problem_seed: int | None = None
    embedding: str = "gaussian"
    reduction: Reduction = "none"
    context: int = 16
    mlp_width: int = 16
    final_norm: bool = False
    norm_epsilon: float = 1e-5
    initial_scale: float = 1.0
    batch: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    steps: int = 100_000
    validate_every: int = 500
    validation_examples: int = 2_000
    test_examples: int = 10_000
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        normalise_numbers(self, context="pairs")
        self._check_shape()
        self._check_protocol()

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    @property
    def value_width(self) -> int:
        """d_v = d_model / heads."""
        return self.d_model // self.heads

    @property
    def numbers(self) -> int:
        """The most numbers that one example has in a tensor of an evaluation: answers, inputs, MLP or queries."""
        return max(self.items + 1, (self.context + 2) * self.d_model, self.mlp_width, self.key_budget)

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The fields, with `problem_seed` as a number, and the version of the protocol."""
        return asdict(self) | {"problem_seed": self.problem, "kind": "block", "protocol": PROTOCOL}

    def _check_shape(self) -> None:
        if self.d_model % self.heads:
            raise InputError(f"d_model = {self.d_model} cannot be divided into the values of {self.heads} heads")
        check_context(self.items, self.context)
        if self.embedding != "gaussian" and not self.embedding.startswith(GIVEN):
            raise InputError(
                f"unknown embedding '{self.embedding}': choose gaussian, or the fingerprint of a table of your own"
            )
        if self.reduction not in get_args(Reduction):
            raise InputError(f"unknown reduction '{self.reduction}': choose from {', '.join(get_args(Reduction))}")
        if self.reduction != "none" and self.embedding == "gaussian":
            raise InputError("a Gaussian table is generated at its final width: there is nothing to reduce")

    def _check_protocol(self) -> None:
        if not isinstance(self.final_norm, bool):
            raise InputError(f"final_norm must be true or false, not {self.final_norm!r}")
        if self.precision not in get_args(Precision):
            raise InputError(f"unknown precision '{self.precision}': choose from {', '.join(get_args(Precision))}")


@dataclass(frozen=True)
class BlockCheck:
    """One validation check.

    Attributes:
        step: The number of training steps before the check.
        accuracy: The share of right answers on the validation examples, from 0 to 1.
        loss: The mean training loss since the previous check.
    """

    step: int
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Answers:
    """Counts of a block's answers to a set of examples; the answer NULL is never correct.

    Attributes:
        right: The number of right answers.
        null: The number of answers NULL.
        total: The number of examples.
    """

    right: int
    null: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.right / self.total

    @property
    def null_rate(self) -> float:
        """The share of the answer NULL. It is near 1 for a block that has learnt to answer NULL always."""
        return self.null / self.total


@dataclass(frozen=True, eq=False)
class BlockOutcome:
    """The result of a run. A value that was not measured is None.

    Attributes:
        run: The run.
        stopped: Why the training stopped.
        steps: The number of steps taken.
        best: The check with the best validation accuracy, the first of equal ones.
        test: The test answers with the weights of the best check; None unless the run took all its steps.
        weights: The weights of the best check by name.
        curve: All validation checks.
        seconds: The time of training, validation and test.
    """

    run: BlockRun
    stopped: StopReason
    steps: int
    best: BlockCheck | None
    test: Answers | None
    weights: Mapping[str, Float32[ndarray, "*shape"]] | None
    curve: tuple[BlockCheck, ...]
    seconds: float


def check_context(items: int, context: int) -> None:
    """Check that the items suffice for a context.

    Args:
        items: m, the number of items.
        context: ℓ, the number of pairs in a context.

    Raises:
        InputError: ℓ is below 1, or a query and ℓ disjoint pairs need more than m items.
    """
    if context < 1:
        raise InputError(f"a context needs at least 1 pair, not {context}")
    if 2 * context + 1 > items:
        needed = 2 * context + 1
        raise InputError(f"a query and {context} disjoint pairs need 2·{context} + 1 = {needed} items, not {items}")
