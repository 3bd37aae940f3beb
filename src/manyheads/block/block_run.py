"""BlockRun: everything that decides how a Transformer block is trained, and nothing about where or how fast."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from manyheads.block.matching_task import check_context
from manyheads.errors import InputError
from manyheads.identity import Identified, check_ranges, normalise_numbers
from manyheads.problem.embedding import GIVEN

PROTOCOL = 1
"""Raised whenever the same fields come to mean another training; part of every id."""

Precision = Literal["float32", "bfloat16"]
Reduction = Literal["none", "pca"]


@dataclass(frozen=True)
class BlockRun(Identified):
    """One block trained on permutation→matching retrieval (Sec. 7.3), every constant of it a field.

    The paper's values are the defaults where it gives them. It does not give, and this project chose: batch size,
    learning rate, first weights (normal, of standard deviation `initial_scale` · fan-in^(−1/2); gains 1, biases 0),
    how often and on how much is validated and tested. AdamW's decay acts on every weight, gain and bias. The paper's
    mixed precision is `bfloat16`; it is a matter of throughput, and slower on most CPUs. `problem_seed`, from which
    permutation, examples and a drawn embedding derive, is the seed by default.

    >>> BlockRun(items=6144, d_model=768, heads=4, key_width=64, seed=0).key_budget
    256
    """

    items: int
    d_model: int
    heads: int
    key_width: int
    seed: int
    problem_seed: int | None = None
    embedding: str = "gaussian"  # or the fingerprint of a given table, NULL's row its last
    reduction: Reduction = "none"  # pca: a given table that is wider is reduced to d_model principal directions
    context: int = 16  # pairs
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
        normalise_numbers(self)
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
    def problem(self) -> int:
        """The seed of permutation, examples and embedding."""
        return self.seed if self.problem_seed is None else self.problem_seed

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The fields with the problem's seed settled, and the version of the protocol."""
        return asdict(self) | {"problem_seed": self.problem, "kind": "block", "protocol": PROTOCOL}

    def _check_shape(self) -> None:
        sizes = ("items", "d_model", "heads", "key_width", "mlp_width", "batch")
        check_ranges(self, counts=sizes, not_negative=("seed", "problem_seed"))
        if self.d_model % self.heads:
            raise InputError(f"d_model = {self.d_model} cannot be divided into the values of {self.heads} heads")
        check_context(self.items, self.context)
        if self.embedding != "gaussian" and not self.embedding.startswith(GIVEN):
            raise InputError(f"unknown embedding '{self.embedding}': choose gaussian or fingerprint a given one")
        if self.reduction not in get_args(Reduction):
            raise InputError(f"unknown reduction '{self.reduction}': choose from {', '.join(get_args(Reduction))}")
        if self.reduction != "none" and self.embedding == "gaussian":
            raise InputError("a Gaussian table is drawn at its width: there is nothing to reduce")

    def _check_protocol(self) -> None:
        if not isinstance(self.final_norm, bool):
            raise InputError(f"final_norm must be true or false, not {self.final_norm!r}")
        if self.precision not in get_args(Precision):
            raise InputError(f"unknown precision '{self.precision}': choose from {', '.join(get_args(Precision))}")
        check_ranges(
            self,
            counts=("steps", "validate_every", "validation_examples", "test_examples"),
            positive=("norm_epsilon", "epsilon"),
            not_negative=("initial_scale", "learning_rate", "weight_decay"),
            below_one=("beta1", "beta2"),
        )
