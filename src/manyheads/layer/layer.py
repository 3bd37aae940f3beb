"""Layer: the query and key weights of one attention layer, its threshold and the rule that joins its heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Float64
from numpy import ndarray

from manyheads.errors import InputError

Rule = Literal["max", "softmax", "sum", "logsumexp"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, eq=False)
class Layer:
    """Heads of query and key weights; a pair (p, q) of a context is recognised where its score exceeds the threshold.

    The rules, with s_k = (x_p W_Q^k)·(x_q W_K^k) of head k:
    `max` takes the largest s_k, `sum` adds them, `logsumexp` is log Σ exp s_k, all three blind to the rest of the
    context; `softmax` adds each head's share exp(s_k/√d_k) among all items of the context, the source included.
    """

    query: ndarray  # Float (heads, d_model, key_width): checked below, with a sentence
    key: ndarray
    threshold: float
    rule: Rule = "max"

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InputError(f"unknown rule '{self.rule}': choose from {', '.join(RULES)}")
        query, key = np.array(self.query), np.array(self.key)
        if query.ndim != 3 or query.shape != key.shape:
            raise InputError(
                f"query and key weights are (heads, d_model, key_width) alike, not {query.shape} and {key.shape}"
            )
        if 0 in query.shape:
            raise InputError(f"a layer needs heads, d_model and key_width of at least 1, not {query.shape}")
        for name, weights in (("query", query), ("key", key)):
            if weights.dtype.kind != "f":
                raise InputError(f"{name} weights are floating-point numbers, not {weights.dtype}")
            if not np.isfinite(weights).all():
                raise InputError(f"the {name} weights hold NaN or infinite values")
            weights.flags.writeable = False
        if not np.isfinite(self.threshold):
            raise InputError(f"the threshold must be a finite number, not {self.threshold}")
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "threshold", float(self.threshold))

    @property
    def heads(self) -> int:
        """h, the number of heads."""
        return int(self.query.shape[0])

    @property
    def d_model(self) -> int:
        """Width of the embedding the layer reads."""
        return int(self.query.shape[1])

    @property
    def key_width(self) -> int:
        """d_k, the width of one head."""
        return int(self.query.shape[2])

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    def head_scores(self, x: Float[ndarray, "n d_model"]) -> Float64[ndarray, "heads n n"]:
        """Every head's raw score for every ordered pair of the rows of x."""
        if x.ndim != 2 or x.shape[1] != self.d_model:
            raise InputError(f"the layer reads rows of {self.d_model} numbers, not an array of shape {x.shape}")
        rows = x.astype(np.float64)
        queries, keys = rows @ self.query.astype(np.float64), rows @ self.key.astype(np.float64)
        return queries @ keys.swapaxes(1, 2)

    def scores(self, x: Float[ndarray, "n d_model"]) -> Float64[ndarray, "n n"]:
        """The score of every ordered pair of a context whose items have the rows of x."""
        return self.joined(self.head_scores(x))

    def joined(self, scores: Float64[ndarray, "heads n k"]) -> Float64[ndarray, "n k"]:
        """The rule, applied to every head's raw scores; under softmax the columns are the items of the context."""
        from scipy.special import logsumexp, softmax  # takes longer to open than the command line

        match self.rule:
            case "max":
                return scores.max(axis=0)
            case "sum":
                return scores.sum(axis=0)
            case "logsumexp":
                return logsumexp(scores, axis=0)
            case "softmax":
                return softmax(scores / np.sqrt(self.key_width), axis=2).sum(axis=0)

    def recognise(self, x: Float[ndarray, "n d_model"]) -> Bool[ndarray, "n n"]:
        """Which ordered pairs of the context are recognised as relations."""
        return self.scores(x) > self.threshold
