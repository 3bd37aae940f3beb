"""RetrievalRun: everything that decides how a network is trained on a retrieval task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from manyheads.errors import InputError
from manyheads.identity import Identified, check_ranges, normalise_numbers
from manyheads.problem.embedding import GIVEN

PROTOCOL = 2
"""Raised whenever the same fields come to mean another training; part of every id."""

Drawn = Literal["maxima", "max_and_min", "digits"]


@dataclass(frozen=True)
class RetrievalRun(Identified):
    """One network trained on a task of dimension D (arXiv 2510.06662), every constant of it a field.

    The paper's values are the defaults where it gives them: 8,000 examples for training and 2,000 for validation,
    MLPs of width 32, tokens from N(0, I_4), no positions, norms or residuals. It does not give, and this project chose:
    optimiser, rate, batch and steps (Adam, the rate falling to 0 along a cosine), the first weights, and a_i (uniform
    on the sphere, of the problem's seed, the same for every T and h). Targets are learnt in units of their standard
    deviation. Say how wide a head is (n) or how wide all are together (E); both must agree.

    >>> RetrievalRun(dimension=4, length=8, heads=2, head_width=8, seed=0).embedding
    16
    """

    dimension: int
    length: int
    heads: int
    seed: int
    head_width: int | None = None
    embedding_width: int | None = None
    task: str = "maxima"  # or max_and_min, digits, or the fingerprint of given examples
    layers: int = 1
    mlp_width: int = 32
    input_width: int = 4
    problem_seed: int | None = None
    training_examples: int = 8_000
    validation_examples: int = 2_000
    initial_sharpness: float = 1.0  # ln(β·√n) of every head before training
    batch: int = 32
    learning_rate: float = 1e-2
    warm_up: int = 100  # steps in which the rate rises to its height
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
    def problem(self) -> int:
        """The seed of directions and examples."""
        return self.seed if self.problem_seed is None else self.problem_seed

    @property
    def fields(self) -> dict[str, int | float | str]:
        """The fields with widths and the problem's seed settled, and the version of the protocol."""
        settled = {"head_width": self.width, "embedding_width": self.embedding, "problem_seed": self.problem}
        return asdict(self) | settled | {"kind": "retrieval", "protocol": PROTOCOL}

    @property
    def company(self) -> tuple[tuple[str, int | float | str], ...]:
        """What runs have in common that are trained in one call: all but seeds, heads and their widths."""
        own = ("seed", "problem_seed", "heads", "head_width", "embedding_width")
        return tuple((name, value) for name, value in self.fields.items() if name not in own)

    def _check_shape(self) -> None:
        if self.dimension < 1:
            raise InputError(f"a retrieval task has D ≥ 1 features, not {self.dimension}")
        sizes = ("length", "heads", "head_width", "embedding_width", "layers", "mlp_width", "input_width")
        check_ranges(self, counts=sizes, not_negative=("seed", "problem_seed"))
        h, n, E = self.heads, self.head_width, self.embedding_width
        if n is None and E is None:
            raise InputError("how wide are the heads? give head_width or embedding_width")
        if n is not None and E is not None and h * n != E:
            raise InputError(f"{h} heads of width {n} make up {h * n} dimensions, not E = {E}")
        if n is None and E is not None and E % h:
            raise InputError(f"E = {E} cannot be divided into {h} heads")
        if self.task not in get_args(Drawn) and not self.task.startswith(GIVEN):
            raise InputError(f"unknown task '{self.task}': choose from {', '.join(get_args(Drawn))}")
        if self.task == "max_and_min" and (self.dimension, self.input_width) != (2, 1):
            raise InputError(f"max + min has D = 2 and d = 1, not D = {self.dimension} and d = {self.input_width}")
        if self.task == "digits" and (self.dimension, self.input_width) != (4, 4):
            raise InputError(f"digits have D = 4 and d = 4, not D = {self.dimension} and d = {self.input_width}")
        if self.task == "digits" and self.length < 16:
            raise InputError(f"a digit has 16 patches, so that sequences have at least as many, not {self.length}")

    def _check_protocol(self) -> None:
        check_ranges(
            self,
            counts=("training_examples", "batch", "steps", "validate_every"),
            positive=("epsilon",),
            not_negative=("learning_rate", "warm_up"),
            below_one=("beta1", "beta2"),
        )
        if self.validation_examples < 2:
            raise InputError(f"a variance needs at least 2 validation examples, not {self.validation_examples}")
        if self.batch > self.training_examples:
            raise InputError(f"a batch of {self.batch} is larger than the {self.training_examples} training examples")
