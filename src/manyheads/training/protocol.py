"""Protocol: the constants of training and testing (App. A.1), and the step limits of Table 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from manyheads.errors import InputError
from manyheads.identity import normalise_numbers
from manyheads.numbers import check_numbers

if TYPE_CHECKING:
    from manyheads.layer.rules import Rule

PROTOCOL_VERSION = 1
"""The version of the training, part of every run's id: increase it when the same fields lead to another training."""

CONTEXT = 16  # items in a context
TARGET_RATE = 0.5  # share of a context's items whose target is brought in

Objective = Literal["edges", "values"]  # recognise relations, or pass on messages (Sec. 7.2)
Precision = Literal["float32", "float64"]

DEFAULT_STEPS, LONG_STEPS = 20_000, 80_000
TABLE_2 = {
    (256, 16): 30_000,
    (512, 16): LONG_STEPS,
    (1024, 128): LONG_STEPS,
    (2048, 256): LONG_STEPS,
    (4096, 512): 200_000,
    (1024, 32): LONG_STEPS,  # measured in Sec. 6.1 but absent from the table
}


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The constants of training. The defaults are the paper's values.

    Attributes:
        sharpness: Factor of (score − threshold) in the logistic loss, above 0.
        positive_weight: Weight of a relation in the loss, or "balanced": non-relations by relations of each context.
            None: the paper's, context − 1 for permutations and "balanced" for all other graphs.
        initial_scale: Standard deviation of the first weights. None: d_model^(−1/2).
        initial_threshold: The first threshold.
        learning_rate: AdamW's learning rate.
        weight_decay: AdamW's weight decay.
        beta1: AdamW's decay of the mean gradient, in [0, 1).
        beta2: AdamW's decay of the mean squared gradient, in [0, 1).
        epsilon: The number that AdamW adds to a denominator, above 0.
        steps: The step limit, one context a step.
        validate_every: Steps between two validation checks.
        validation_contexts: Contexts of a validation check.
        test_contexts: Contexts of the test at the end.
        stop_above: An early stop needs a validation F1 above this number.
        patience: Checks in a row above `stop_above` that stop the run; with messages, checks without a new best.
        precision: Precision of weights and arithmetic, "float32" or "float64".

    Raises:
        InputError: A constant is no number, or lies outside its range.

    >>> Protocol(steps=1_000).learning_rate
    0.001
    """

    sharpness: float = 10.0
    positive_weight: float | Literal["balanced"] | None = None
    initial_scale: float | None = None
    initial_threshold: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    steps: int = DEFAULT_STEPS
    validate_every: int = 500
    validation_contexts: int = 500
    test_contexts: int = 2_000
    stop_above: float = 0.995
    patience: int = 5
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        normalise_numbers(self)
        if self.precision not in get_args(Precision):
            raise InputError(f"unknown precision '{self.precision}': choose from {', '.join(get_args(Precision))}")
        if isinstance(self.positive_weight, str) and self.positive_weight != "balanced":
            raise InputError(f"positive_weight is a number or 'balanced', not '{self.positive_weight}'")


def step_limit(*, items: int, d_model: int, rule: Rule | None = None) -> int:
    """The paper's step limit for a size (Table 2).

    The table has some sizes only. For any other size, training is long where there are more than 512 items, or more
    than 16 for each dimension.

    Args:
        items: m, the number of items.
        d_model: The width of the embedding.
        rule: How the heads are joined; None is the paper's rule max. Softmax always trains long.

    Returns:
        Optimiser steps.

    >>> from manyheads.layer.rules import SOFTMAX
    >>> [step_limit(items=m, d_model=d) for m, d in ((64, 16), (256, 16), (512, 32))]
    [20000, 30000, 20000]
    >>> step_limit(items=64, d_model=16, rule=SOFTMAX)
    80000
    """
    check_numbers(items=items, d_model=d_model)
    if rule is not None and rule.long_training:
        return LONG_STEPS
    crowded = items > 512 or items > 16 * d_model
    return TABLE_2.get((items, d_model), LONG_STEPS if crowded else DEFAULT_STEPS)
