"""Rules: how the scores that the heads give a pair are joined into one score.

To add a rule, write a class in any module and register it. Then `Layer` scores by it, `certify` proves it if it
has a rounding bound, and the reference engine trains it. The native engine trains the rules that have a `kernel`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.errors import InputError, did_you_mean, require_type

if TYPE_CHECKING:
    from torch import Tensor

UNIT = 2.0**-53  # u: a float64 operation returns its exact result times (1 + δ), |δ| ≤ u


def gamma(terms: int, unit: float = UNIT) -> float:
    """γ_n = nu/(1 − nu): the relative error of a sum of n products, whatever the order of summation.

    Args:
        terms: n, the number of products.
        unit: u of the arithmetic; float64 if it is not given.
    """
    return terms * unit / (1 - terms * unit) if terms * unit < 1 else math.inf


class Rule(ABC):
    """How the heads' scores of a pair become one score.

    Attributes:
        name: The word for it in files, runs and commands.
        context_blind: Whether a pair has the same score in every context. Then one pass over all pairs certifies a
            layer for every context.
        kernel: The native engine's word for it; None where only the reference engine trains it.
        long_training: Whether training by the paper's protocol always takes its longest step limit.
    """

    name: ClassVar[str]
    context_blind: ClassVar[bool] = True
    kernel: ClassVar[str | None] = None
    long_training: ClassVar[bool] = False

    @abstractmethod
    def join(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "n k"]:
        """The joined scores.

        Args:
            scores: Every head's raw scores, of shape (heads, n, k). For a rule that looks at the context, the k columns
                are all items of the context.
            key_width: d_k.

        Returns:
            Scores of shape (n, k).
        """

    @abstractmethod
    def join_tensor(self, scores: Tensor) -> Tensor:
        """The joined scores for the reference engine, with their gradient.

        Args:
            scores: A tensor of shape (runs, contexts, heads, context, context), each head's raw scores over `divisor`.

        Returns:
            A tensor of shape (runs, contexts, context, context).
        """

    def contributions(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "heads n k"]:
        """How much each head contributes to each pair: the head with the largest contribution holds the pair.

        Args:
            scores: Every head's raw scores, of shape (heads, n, k).
            key_width: d_k.

        Returns:
            Numbers of the same shape.
        """
        return scores

    def add_head(self, joined: Float64[ndarray, "n k"], scores: Float64[ndarray, "n k"]) -> None:
        """Join one more head's scores into `joined`, in place; for rules blind to the context.

        Args:
            joined: The scores of the heads so far, of shape (n, k).
            scores: The scores of one more head, of the same shape.

        Raises:
            InputError: The rule does not join heads one by one.
        """
        raise InputError(f"the rule {self.name} does not join heads one by one: certify cannot prove it")

    def error_bound(self, errors: Float64[ndarray, " heads *shape"]) -> Float64[ndarray, "*shape"]:
        """A bound on the rounding error of the score that `add_head` joins.

        Args:
            errors: A bound on the rounding error of each head's score, of shape (heads, …).

        Returns:
            The bounds, without the axis of the heads.

        Raises:
            InputError: The rule has no rounding bound.
        """
        raise InputError(f"the rule {self.name} has no rounding bound: certify cannot prove it")

    def reduced_error_bound(
        self, errors: Float64[ndarray, " heads *shape"], sizes: Float64[ndarray, " heads *shape"], unit: float
    ) -> Float64[ndarray, "*shape"]:
        """A bound on the error of the joined score in an arithmetic of fewer digits than float64.

        Args:
            errors: A bound on the error of each head's score.
            sizes: A bound on the size of each head's score, errors included.
            unit: u of the arithmetic in which the heads are joined.

        Returns:
            The bound; infinite for a rule without such a bound.
        """
        return np.full(errors.shape[1:], np.inf)

    @property
    def has_rounding_bound(self) -> bool:
        """Whether the rule has both `add_head` and `error_bound`, so that one pass over all pairs certifies a layer."""
        own = type(self)
        return own.add_head is not Rule.add_head and own.error_bound is not Rule.error_bound

    def divisor(self, key_width: int) -> float:
        """The number by which each raw score is divided before the heads are joined.

        Args:
            key_width: d_k.

        Returns:
            The divisor, above 0.
        """
        return 1.0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)  # the constructors of a layer and a run take this name

    def __reduce__(self) -> tuple[object, ...]:
        return rule_named, (self.name,)  # each process has one object for a rule


class Max(Rule):
    """The largest of the heads' scores: the paper's rule."""

    name = "max"
    kernel = "max"

    def join(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "n k"]:
        """The largest score."""
        return scores.max(axis=0)

    def join_tensor(self, scores: Tensor) -> Tensor:
        """The largest score; of equal heads the first receives the whole gradient."""
        return scores.max(dim=2).values

    def add_head(self, joined: Float64[ndarray, "n k"], scores: Float64[ndarray, "n k"]) -> None:
        """The larger of the two scores."""
        np.maximum(joined, scores, out=joined)

    def error_bound(self, errors: Float64[ndarray, " heads *shape"]) -> Float64[ndarray, "*shape"]:
        """The error of a maximum is at most the largest error of a head."""
        return errors.max(axis=0)

    def reduced_error_bound(
        self, errors: Float64[ndarray, " heads *shape"], sizes: Float64[ndarray, " heads *shape"], unit: float
    ) -> Float64[ndarray, "*shape"]:
        """The maximum is one of the scores: it is not rounded again."""
        return self.error_bound(errors)


class Sum(Rule):
    """The sum of the heads' scores."""

    name = "sum"

    def join(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "n k"]:
        """The sum of the scores."""
        return scores.sum(axis=0)

    def join_tensor(self, scores: Tensor) -> Tensor:
        """The sum of the scores."""
        return scores.sum(dim=2)

    def add_head(self, joined: Float64[ndarray, "n k"], scores: Float64[ndarray, "n k"]) -> None:
        """The sum of the two scores."""
        np.add(joined, scores, out=joined)

    def error_bound(self, errors: Float64[ndarray, " heads *shape"]) -> Float64[ndarray, "*shape"]:
        """The error of a sum is at most the sum of the heads' errors, and the rounding of the sum itself."""
        return errors.sum(axis=0) * (1 + gamma(len(errors)))

    def reduced_error_bound(
        self, errors: Float64[ndarray, " heads *shape"], sizes: Float64[ndarray, " heads *shape"], unit: float
    ) -> Float64[ndarray, "*shape"]:
        """Each of the h − 1 sums is rounded."""
        return errors.sum(axis=0) + gamma(len(errors), unit) * sizes.sum(axis=0)


class LogSumExp(Rule):
    """log Σ exp of the heads' scores: a smooth maximum."""

    name = "logsumexp"

    def join(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "n k"]:
        """log Σ exp of the scores."""
        from scipy.special import logsumexp  # takes longer to import than the command line

        return logsumexp(scores, axis=0)

    def join_tensor(self, scores: Tensor) -> Tensor:
        """log Σ exp of the scores."""
        return scores.logsumexp(dim=2)

    def add_head(self, joined: Float64[ndarray, "n k"], scores: Float64[ndarray, "n k"]) -> None:
        """log(exp a + exp b)."""
        np.logaddexp(joined, scores, out=joined)

    def error_bound(self, errors: Float64[ndarray, " heads *shape"]) -> Float64[ndarray, "*shape"]:
        """At most the sum of the heads' errors; each of the h − 1 steps adds at most u·(|score| + ln h + 8)."""
        heads = len(errors)
        return errors.sum(axis=0) * (1 + gamma(heads)) + heads * (np.log(heads) + 8) * UNIT


class Softmax(Rule):
    """The sum of the heads' shares: each head's softmax over all items of the context, of its scores over √d_k."""

    name = "softmax"
    context_blind = False
    kernel = "softmax"
    long_training = True

    def join(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "n k"]:
        """The sum of the shares; the columns are the items of the context, the source included."""
        return self.contributions(scores, key_width=key_width).sum(axis=0)

    def contributions(self, scores: Float64[ndarray, "heads n k"], *, key_width: int) -> Float64[ndarray, "heads n k"]:
        """Each head's share of the attention."""
        from scipy.special import softmax  # takes longer to import than the command line

        return softmax(scores / np.sqrt(key_width), axis=2)

    def join_tensor(self, scores: Tensor) -> Tensor:
        """The sum of the shares."""
        return scores.softmax(dim=-1).sum(dim=2)

    def divisor(self, key_width: int) -> float:
        """√d_k."""
        return math.sqrt(key_width)


RULES: dict[str, Rule] = {}


def register_rule(rule: Rule) -> Rule:
    """Make a rule known by its name.

    Args:
        rule: The rule; its name must be new.

    Returns:
        The same rule.

    Raises:
        InputError: It is no rule, or a rule of this name exists already.
    """
    require_type(rule, Rule, "the rule to register")
    if rule.name in RULES:
        raise InputError(f"a rule '{rule.name}' exists already")
    RULES[rule.name] = rule
    return rule


def rule_named(name: str | Rule) -> Rule:
    """The rule of this name; a rule is returned as it is.

    Raises:
        InputError: There is no such rule.
    """
    if isinstance(name, Rule):
        return name
    if name not in RULES:
        raise InputError(f"unknown rule '{name}'{did_you_mean(name, RULES)}: choose from {', '.join(RULES)}")
    return RULES[name]


MAX = register_rule(Max())
SOFTMAX = register_rule(Softmax())
SUM = register_rule(Sum())
LOGSUMEXP = register_rule(LogSumExp())
