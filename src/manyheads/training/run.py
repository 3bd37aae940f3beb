"""Run: everything that decides what is trained, and nothing about where or how fast."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.identity import Identified, check_ranges, settle_numbers
from manyheads.layer.rules import MAX, rule_named
from manyheads.problem.graph import Graph

PROTOCOL = 1
"""Raised whenever the same fields come to mean another training; part of every id."""

Objective = Literal["edges", "values"]
Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class Run(Identified):
    """One training run of the paper's protocol (Sec. 6, App. A.1), every constant of it a field.

    What is None by default follows from the other fields: `problem_seed` is the seed, `positive_weight` the paper's
    (ℓ − 1 for permutation graphs, "balanced" = negatives/positives of each context for all others), `initial_scale`
    is d_model^(−1/2), the standard deviation of the first weights, and `message_width` is d_model.

    >>> Run(items=64, d_model=16, heads=4, key_width=5, seed=0).key_budget
    20
    """

    items: int
    d_model: int
    heads: int
    key_width: int
    seed: int
    problem_seed: int | None = None
    graph: str = "permutation"  # or "regular", or the fingerprint of a given graph
    degree: int = 1
    embedding: str = "gaussian"  # or the fingerprint of a given embedding
    rule: Any = MAX  # a Rule, or its name: looked up below
    objective: Objective = "edges"  # "values": the value channel of Sec. 7.2
    message_width: int | None = None
    context: int = 16
    target_rate: float = 0.5
    sharpness: float = 10.0
    positive_weight: float | Literal["balanced"] | None = None
    initial_scale: float | None = None
    initial_threshold: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    steps: int = 20_000
    validate_every: int = 500
    validation_contexts: int = 500
    test_contexts: int = 2_000
    stop_above: float = 0.995
    patience: int = 5
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        settle_numbers(self)
        object.__setattr__(self, "rule", rule_named(self.rule))
        self._check_shape()
        self._check_task()
        self._check_protocol()

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    @property
    def meaning(self) -> dict[str, int | float | str]:
        """The fields with every None replaced by what it stands for, and the version of the protocol."""
        settled = {
            "rule": str(self.rule),
            "problem_seed": self.seed if self.problem_seed is None else self.problem_seed,
            "message_width": self.d_model if self.message_width is None else self.message_width,
            "initial_scale": self.d_model**-0.5 if self.initial_scale is None else self.initial_scale,
            "positive_weight": self._paper_weight() if self.positive_weight is None else self.positive_weight,
        }
        return asdict(self) | settled | {"protocol": PROTOCOL}

    def _paper_weight(self) -> float | str:
        return float(self.context - 1) if self.graph == "permutation" else "balanced"

    def _check_shape(self) -> None:
        sizes = ("items", "d_model", "heads", "key_width", "degree", "message_width")
        check_ranges(self, counts=sizes, not_negative=("seed", "problem_seed"))
        if not 2 <= self.context <= self.items:
            raise InputError(
                f"a context of {self.context} distinct items cannot be drawn from {self.items}"
                if self.context > self.items
                else f"a context needs at least 2 items, not {self.context}"
            )

    def _check_task(self) -> None:
        for name, choices in (("objective", Objective), ("precision", Precision)):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"unknown {name} '{getattr(self, name)}': choose from {', '.join(get_args(choices))}")
        for name, made in (("graph", ("permutation", "regular")), ("embedding", ("gaussian",))):
            value = getattr(self, name)
            if value not in made and not value.startswith(GIVEN):
                raise InputError(f"unknown {name} '{value}': choose from {', '.join(made)} or fingerprint a given one")
        if self.degree >= self.items:
            raise InputError(f"a loop-free graph of {self.items} items cannot have degree {self.degree}")
        if self.degree != 1 and self.graph != "regular":
            raise InputError(f"only regular graphs have a degree to choose, not '{self.graph}'")
        if self.objective == "values" and (self.rule is not MAX or self.degree != 1):
            raise InputError("the value channel is defined for the rule max and one relation out of each item")
        if isinstance(self.positive_weight, str) and self.positive_weight != "balanced":
            raise InputError(f"positive_weight is a number or 'balanced', not '{self.positive_weight}'")

    def _check_protocol(self) -> None:
        check_ranges(
            self,
            counts=("steps", "validate_every", "validation_contexts", "test_contexts", "patience"),
            positive=("sharpness", "epsilon"),
            not_negative=("learning_rate", "weight_decay", "positive_weight", "initial_scale"),
            below_one=("beta1", "beta2"),
        )
        if not 0 <= self.target_rate <= 1:
            raise InputError(f"target_rate must lie in [0, 1], not {self.target_rate}")


GIVEN = "given:"


def weight_for(graph: Graph | None, context: int) -> float | None:
    """The `positive_weight` of a run on a given graph: a permutation has the paper's, whoever drew it.

    None leaves it to the run: where it draws its graph itself, or the graph is no permutation.
    """
    return float(context - 1) if graph is not None and graph.is_permutation else None


def fingerprint(thing: Graph | ndarray) -> str:
    """How a run names a graph or an embedding of the caller's: "given:" and 16 digits of its SHA-256.

    Labels do not count, and an embedding counts as float32, which is what the engines read.
    """
    digest = hashlib.sha256()
    if isinstance(thing, Graph):
        digest.update(np.array([thing.items, *thing.sources, *thing.targets], dtype="<i8").tobytes())
    else:
        digest.update(np.array(thing.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(thing, dtype="<f4").tobytes())
    return GIVEN + digest.hexdigest()[:16]
