"""Layer: the query and key weights of one attention layer, its threshold, and the rule that joins its heads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Float64
from numpy import ndarray

from manyheads.errors import InputError, require_texts
from manyheads.layer.layer_record import LayerRecord
from manyheads.layer.rules import MAX, Rule, rule_named
from manyheads.numbers import check_number
from manyheads.tables import Shown, Summary, counted, in_heads, summary

if TYPE_CHECKING:
    from manyheads.problem.embedding import Embedding


def degrees_of_freedom(
    *,
    d_model: int,
    heads: int,
    key_width: int,
    key_heads: int,
    latent: int | None = None,
    query_latent: int | None = None,
) -> int:
    """Degrees of freedom of the bilinear forms W_Q·W_Kᵀ of all heads: h·d·d_k + g·d·d_k − g·d_k².

    An invertible d_k × d_k matrix can move from a key head to the queries that read it without changing a score: each
    of the g key heads has d_k² weights less that matter. For g = h this is h times 2·d·d_k − d_k², the dimension of the
    forms of rank d_k. A width above d_model adds nothing.

    With a latent of width r, the keys of all heads are made from r numbers: h·(d·d_k + r·d_k − d_k²) + d·r − r². Where
    the queries too are made from a latent, of width s, its s replaces d in each head, and d·s − s² are added.

    Args:
        d_model: Width of the rows, d.
        heads: h.
        key_width: d_k.
        key_heads: g; not used where there is a latent.
        latent: r, the width of the latent of the keys; None: each key head is made from the row.
        query_latent: s, the width of the latent of the queries; None: each query is made from the row.

    Returns:
        The number.

    >>> degrees_of_freedom(d_model=16, heads=4, key_width=5, key_heads=1)
    375
    >>> degrees_of_freedom(d_model=16, heads=4, key_width=5, key_heads=1, latent=8)
    444
    """
    width = min(key_width, d_model)
    if latent is None:
        return (heads + key_heads) * d_model * width - key_heads * width**2
    keys = min(latent, d_model, heads * width)
    queries = d_model if query_latent is None else min(query_latent, d_model, heads * width)
    width = min(width, keys, queries)
    inner = heads * width * (queries + keys - width)
    return inner + keys * (d_model - keys) + queries * (d_model - queries)


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Shown):
    """Heads of query and key weights; a pair (p, q) of a context is recognised where its score exceeds the threshold.

    Head k scores the pair s_k = (x_p W_Q^k)·(x_q W_K^k). The rule joins these scores into one (`layer.rules`).
    Heads can share keys: with g key heads, head k of h reads key head ⌊k·g/h⌋.

    Attributes:
        query: W_Q, floating-point numbers of shape (heads, d_model, key_width).
        key: W_K, of shape (key_heads, d_model, key_width); key_heads divides heads.
        threshold: τ, a finite number.
        rule: A rule or its name.
        labels: The names of the items in the order of their rows, or None.
        record: The origin and the certificate of the layer, or None. Other weights than those of the record drop it.

    Raises:
        InputError: The weights have other shapes or are not finite, the threshold is not finite, the rule is unknown,
            or the labels are not texts.

    >>> shared = Layer(np.ones((4, 16, 5)), np.ones((1, 16, 5)), threshold=0.5)
    >>> shared.heads, shared.key_heads, shared.weights, shared.key_budget, shared.freedom
    (4, 1, 400, 5, 375)
    """

    query: ndarray  # Float (heads, d_model, key_width): checked below, with a sentence
    key: ndarray  # Float (key_heads, d_model, key_width)
    threshold: float
    rule: Rule
    labels: tuple[str, ...] | None = None
    record: LayerRecord | None = None

    def __init__(
        self,
        query: ndarray,
        key: ndarray,
        threshold: float,
        rule: Rule | str = MAX,
        labels: Sequence[str] | None = None,
        record: LayerRecord | None = None,
    ) -> None:
        rule = rule_named(rule)
        query, key = np.array(query), np.array(key)
        if query.ndim != 3 or key.ndim != 3 or query.shape[1:] != key.shape[1:]:
            raise InputError(
                f"query weights are (heads, d_model, key_width) and key weights (key_heads, d_model, key_width), not "
                f"{query.shape} and {key.shape}"
            )
        if 0 in query.shape + key.shape:
            raise InputError(
                f"a layer needs heads, key_heads, d_model and key_width of at least 1, not {query.shape} and "
                f"{key.shape}"
            )
        if len(query) % len(key):
            raise InputError(
                f"{counted(len(query), 'head')} cannot share {counted(len(key), 'key head')} evenly: the number of key "
                f"heads divides the number of heads"
            )
        for name, weights in (("query", query), ("key", key)):
            if weights.dtype.kind != "f":
                raise InputError(f"{name} weights are floating-point numbers, not {weights.dtype}")
            if not np.isfinite(weights).all():
                raise InputError(f"the {name} weights hold NaN or infinite values")
            weights.flags.writeable = False
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "threshold", check_number("threshold", threshold, said="the threshold"))
        object.__setattr__(self, "rule", rule)
        require_texts(() if labels is None else labels, "the labels of a layer")
        object.__setattr__(self, "labels", None if labels is None else tuple(labels))
        kept = record is not None and record.weights == self.fingerprint
        object.__setattr__(self, "record", record if kept else None)

    @property
    def fingerprint(self) -> str:
        """16 digits of the SHA-256 of the weights' numbers, the threshold and the rule."""
        digest = hashlib.sha256(f"{self.rule} {self.threshold.hex()}".encode())
        for weights in (self.query, self.key):
            digest.update(f" {weights.shape}".encode() + np.ascontiguousarray(weights, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    @property
    def heads(self) -> int:
        """h, the number of heads."""
        return int(self.query.shape[0])

    @property
    def d_model(self) -> int:
        """The width of the rows that the layer reads."""
        return int(self.query.shape[1])

    @property
    def key_width(self) -> int:
        """d_k, the width of one head."""
        return int(self.query.shape[2])

    @property
    def key_heads(self) -> int:
        """g, the number of key heads; h/g heads read each of them."""
        return int(self.key.shape[0])

    @property
    def query_budget(self) -> int:
        """D_Q = heads · key_width."""
        return self.heads * self.key_width

    @property
    def key_budget(self) -> int:
        """D_K = key_heads · key_width: the numbers that a key cache stores for each token."""
        return self.key_heads * self.key_width

    @property
    def weights(self) -> int:
        """The numbers in W_Q and W_K together."""
        return int(self.query.size + self.key.size)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the scores of all heads (`degrees_of_freedom`)."""
        return degrees_of_freedom(
            d_model=self.d_model, heads=self.heads, key_width=self.key_width, key_heads=self.key_heads
        )

    @property
    def head_keys(self) -> ndarray:
        """W_K as every head reads it, of shape (heads, d_model, key_width): equal for heads that share a key head."""
        return self.by_head(self.key)

    def by_head(self, values: ndarray) -> ndarray:
        """One value for each key head becomes one value for each head.

        Args:
            values: An array whose first axis has the key heads.

        Returns:
            The array whose first axis has the heads; without shared keys, the same array.
        """
        return values if self.key_heads == self.heads else values.repeat(self.heads // self.key_heads, axis=0)

    def summary(self) -> Summary:
        """The shape, the rule and the threshold."""
        rows: list[tuple[str, object]] = [
            ("rule", self.rule),
            ("key budget", f"D_K {self.key_budget:,}"),
            ("threshold", f"{self.threshold:.6g}"),
            ("weights", f"{self.weights:,} numbers, {self.query.dtype}"),
            ("labels", None if self.labels is None else f"{len(self.labels):,}: {', '.join(self.labels[:5])}, …"),
            ("its record says", self.record),
        ]
        shape = in_heads(self.heads, self.key_width, self.key_heads)
        return summary(f"layer of {shape}, d_model {self.d_model}", rows)

    def head_scores(self, x: Embedding | Float[ndarray, "n d_model"]) -> Float64[ndarray, "heads n n"]:
        """Every head's raw score for every ordered pair of the rows of x.

        Args:
            x: Rows of n items, of shape (n, d_model).

        Returns:
            Scores of shape (heads, n, n); entry (k, p, q) is head k's score of the pair p → q.

        Raises:
            InputError: The rows are not d_model wide.
        """
        rows = np.asarray(x)
        if rows.ndim != 2 or rows.shape[1] != self.d_model:
            raise InputError(f"the layer reads rows of {self.d_model} numbers, not an array of shape {rows.shape}")
        rows = rows.astype(np.float64)
        queries, keys = rows @ self.query.astype(np.float64), rows @ self.key.astype(np.float64)
        return queries @ self.by_head(keys).swapaxes(1, 2)

    def scores(self, x: Embedding | Float[ndarray, "n d_model"]) -> Float64[ndarray, "n n"]:
        """The score of every ordered pair of a context whose items have the rows of x.

        Args:
            x: Rows of the n items of a context, of shape (n, d_model).

        Returns:
            The joined scores, of shape (n, n).

        Raises:
            InputError: The rows are not d_model wide.
        """
        return self.rule.join(self.head_scores(x), key_width=self.key_width)

    def recognise(self, x: Embedding | Float[ndarray, "n d_model"]) -> Bool[ndarray, "n n"]:
        """The ordered pairs of a context that the layer recognises as relations: those whose score exceeds the
        threshold.

        Args:
            x: Rows of the n items of a context, of shape (n, d_model).

        Returns:
            True for a recognised pair, of shape (n, n).

        Raises:
            InputError: The rows are not d_model wide.
        """
        return self.scores(x) > self.threshold

    def attends(
        self, word: str, *, context: Sequence[str] | None = None, rows: Embedding | ndarray | None = None
    ) -> tuple[str, ...]:
        """The items that an item attends to, by their names, the widest margin first.

        Args:
            word: The name of an item; its number as text, if the items have no names.
            context: The names of the items of the context; None: all items, for a rule that is blind to the context.
            rows: The rows of all items in the order of the labels; None: the rows of the fit or the construction that
                made the layer. A layer that was read from a file has no rows.

        Returns:
            The names of the items.

        Raises:
            InputError: There are no rows, a name is unknown, or the rule looks at the context and none is given.

        >>> from manyheads import Graph, Problem, fit
        >>> capitals = Graph(3, np.array([0]), np.array([1]), ("Paris", "France", "river"))
        >>> fit(Problem(capitals, np.eye(3)), heads=1, key_width=1).layer.attends("Paris")
        ('France',)
        """
        from manyheads.layer.layer_vocabulary import Vocabulary  # a vocabulary has a layer

        kept = None if self.record is None else self.record.rows
        if rows is None and kept is None:
            raise InputError("the layer does not have the rows of its items: give them as rows=")
        vocabulary = Vocabulary(self, np.asarray(kept if rows is None else rows), self.labels)
        items = vocabulary.items([word])
        within = items if context is None else vocabulary.items([word, *context])
        found = vocabulary.all_from(items) if context is None else vocabulary.within(within)
        return tuple(dict.fromkeys(vocabulary.name(pair.target) for pair in found if pair.source in items))
