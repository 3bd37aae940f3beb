"""Shape: the query–key channel of one layer, its cost (App. C), and its numbers in other papers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.errors import InputError
from manyheads.layer.latent import require_latent
from manyheads.layer.layer import degrees_of_freedom
from manyheads.numbers import HEADS, check_numbers
from manyheads.tables import counted, in_heads


def require_even_sharing(*, heads: int, key_heads: int | None) -> None:
    """Refuse key heads that do not divide the heads.

    Args:
        heads: h.
        key_heads: g; None: as many as heads.

    Raises:
        InputError: The number of key heads does not divide the number of heads.
    """
    if key_heads is not None and heads % key_heads:
        raise InputError(
            f"{counted(heads, 'head')} cannot share {counted(key_heads, 'key head')} evenly: the number of key heads "
            f"divides the number of heads"
        )


def key_heads_for(*, heads: int, key_heads: int | str | None) -> int | None:
    """The number of key heads of a number of heads.

    Args:
        heads: h.
        key_heads: g, or "h/N": a key head for every N heads. None: as many as heads.

    Returns:
        g; None where every head has its own keys.

    Raises:
        InputError: The number of key heads does not divide the number of heads, or the word is another one.

    >>> [key_heads_for(heads=8, key_heads=given) for given in (2, "h/2", 8)]
    [2, 4, None]
    """
    if not isinstance(key_heads, str):
        check_numbers(key_heads=key_heads)
        require_even_sharing(heads=heads, key_heads=key_heads)
        return None if key_heads == heads else key_heads
    number = key_heads.removeprefix("h/")
    if number == key_heads or not number.isascii() or not number.isdigit() or len(number) > 9 or int(number) < 1:
        raise InputError(f"key heads are a number such as 2, or h/2: a key head for every 2 heads, not {key_heads!r}")
    if heads % int(number):
        raise InputError(f"{counted(heads, 'head')} cannot share {key_heads} key heads: {heads}/{number} is not whole")
    return None if int(number) == 1 else heads // int(number)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The query–key channel of one layer: `heads` query heads over `key_heads` key heads, each `key_width` wide.

    key_heads = heads is ordinary attention, key_heads = 1 is multi-query attention, any number between is grouped-query
    attention. The paper has one key budget D_K for queries and keys. Here D_Q = heads·key_width and
    D_K = key_heads·key_width. The paper's statements about D_K hold for D_Q + D_K up to a factor of 2 (its footnote 3).

    Attributes:
        d_model: Width of the embedding, at least 1.
        heads: Number of query heads, at least 1.
        key_width: d_k, the width of each head, at least 1.
        key_heads: Number of key heads; it divides `heads`. None stands for `heads`.
        latent: r, the width of a latent from which the keys of all heads are made (MLA); None: there is none.
        query_latent: The width of a latent from which the queries of all heads are made; None: there is none.

    Raises:
        InputError: A size is outside its range, the key heads do not divide the query heads, a latent is wider than
            d_model, or a latent is given together with key heads.

    >>> Shape(d_model=64, heads=8, key_width=16, key_heads=2).key_budget
    32
    >>> Shape(d_model=64, heads=8, key_width=16, latent=24).parameters  # 64·128 + 64·24 + 8·24·16
    12800
    """

    d_model: int
    heads: int
    key_width: int
    key_heads: int | None = None  # None: as many as heads
    latent: int | None = None
    query_latent: int | None = None

    def __post_init__(self) -> None:
        check_numbers(d_model=self.d_model, heads=self.heads, key_width=self.key_width, key_heads=self.key_heads)
        check_numbers(key_budget=self.query_budget, latent=self.latent, query_latent=self.query_latent)
        for latent in (self.latent, self.query_latent):
            require_latent(d_model=self.d_model, latent=latent or 1)
        if self.latent is not None and self.key_heads not in (None, self.heads):
            raise InputError("all heads make their keys from the latent: key heads do not go with a latent")
        if self.latent is None and self.query_latent is not None:
            raise InputError("a latent of the queries goes with a latent of the keys")
        if self.key_heads is None:
            object.__setattr__(self, "key_heads", self.heads)
        require_even_sharing(heads=self.heads, key_heads=self.key_heads)

    @property
    def groups(self) -> int:
        """g, the number of key heads, each shared by heads/g query heads."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def query_budget(self) -> int:
        """D_Q = heads · key_width."""
        return self.heads * self.key_width

    @property
    def is_shared(self) -> bool:
        """Whether heads share keys, or make them from a latent."""
        return self.latent is not None or self.groups != self.heads

    @property
    def unshared(self) -> Shape:
        """The same heads, each with its own keys."""
        return Shape(d_model=self.d_model, heads=self.heads, key_width=self.key_width)

    @property
    def key_budget(self) -> int:
        """D_K = key_heads · key_width, or the width of the latent: the numbers that a cache stores for each token."""
        return self.groups * self.key_width if self.latent is None else self.latent

    @property
    def parameters(self) -> int:
        """Query and key weights: d_model·(D_Q + D_K); those of a latent go from d_model to it and from it to heads."""
        queries = self.query_budget * self.d_model
        if self.query_latent is not None:
            queries = self.query_latent * (self.d_model + self.query_budget)
        return queries + self.key_budget * self.d_model + (self.latent or 0) * self.query_budget

    @property
    def all_freedom(self) -> int:
        """Degrees of freedom of the scores of all heads (`layer.degrees_of_freedom`)."""
        return degrees_of_freedom(
            d_model=self.d_model,
            heads=self.heads,
            key_width=self.key_width,
            key_heads=self.groups,
            latent=self.latent,
            query_latent=self.query_latent,
        )

    @property
    def freedom(self) -> float:
        """Degrees of freedom of one head's bilinear form W_Q·W_Kᵀ, on average over the heads.

        A group of q query heads and its key head have q·d·d_k + d·d_k − d_k² degrees of freedom, and each head a q-th
        part. For q = 1 this is 2·d·d_k − d_k².
        """
        return self.all_freedom / self.heads

    def multiply_adds(self, context_length: int) -> int:
        """Multiply-adds for one context: ℓ for each weight for the projections, and ℓ²·D_Q for the scores.

        With a latent, the form is the absorbed one (`layer.LatentKeys`): a score costs r for each head, not d_k.

        Args:
            context_length: ℓ, the number of items in the context.

        Returns:
            The number of multiply-adds.
        """
        return context_length * self.token_multiply_adds(context_length)

    def token_multiply_adds(self, context_length: int) -> int:
        """Multiply-adds for one token that attends to ℓ tokens: one for each weight, and ℓ·D_Q (or ℓ·h·r) for scores.

        Args:
            context_length: ℓ, the number of items in the context.

        Returns:
            The number of multiply-adds.
        """
        return self.parameters + context_length * self.heads * (self.latent or self.key_width)

    def words(self) -> str:
        """The shape as a phrase: heads, their width, and how they share keys."""
        latent = "" if self.latent is None else f", keys from a latent of width {self.latent:,}"
        return in_heads(self.heads, self.key_width, self.groups) + latent


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of a model that decide its query–key channel; all layers have the same shape.

    Attributes:
        name: Name of the model.
        layers: Number of layers, at least 1.
        d_model: Width of the embedding.
        heads: Query heads of a layer.
        key_heads: Key heads of a layer; the number divides `heads`.
        key_width: Width of each head.
        vocabulary: Number of tokens, at least 1; None if a file does not say it.
        source: The publication or file that states these numbers.
        latent: The width of the latent of the keys; None: no latent attention.
        query_latent: The width of the latent of the queries; None: there is none.
        position_width: Further dimensions of each head that carry positions only, with one key for all heads. They are
            no part of `shape`.

    Raises:
        InputError: A size is outside its range, the key heads do not divide the query heads, or a latent is wider than
            d_model.
    """

    name: str
    layers: int
    d_model: int
    heads: int
    key_heads: int
    key_width: int
    vocabulary: int | None
    source: str
    latent: int | None = None
    query_latent: int | None = None
    position_width: int = 0

    def __post_init__(self) -> None:
        check_numbers(layers=self.layers, vocabulary=self.vocabulary, position_width=self.position_width)
        _ = self.shape  # Shape checks the other sizes

    @property
    def shape(self) -> Shape:
        """The query–key channel of one layer."""
        return Shape(
            d_model=self.d_model,
            heads=self.heads,
            key_width=self.key_width,
            key_heads=self.key_heads,
            latent=self.latent,
            query_latent=self.query_latent,
        )


@dataclass(frozen=True)
class Neighbour:
    """A quantity of another paper at one shape, for comparison: its task and conditions differ from those here.

    Attributes:
        work: The other paper.
        quantity: The name of the quantity.
        condition: The condition under which that paper states it.
        value: The number; infinite if it is beyond float64.
    """

    work: str
    quantity: str
    condition: str
    value: float


def neighbours(shape: Shape, *, context_length: int) -> list[Neighbour]:
    """The formulas of other papers at one shape.

    Args:
        shape: The query–key channel of the layer.
        context_length: ℓ, the number of items in a context.

    Returns:
        One entry for each formula.
    """
    check_numbers(context_length=context_length)
    heads, width = shape.heads, shape.key_width
    facts = 2.0 * shape.parameters  # bits
    return [
        Neighbour(
            "Bhojanapalli et al. 2020", "least d_k for every ℓ×ℓ pattern", "low-rank bottleneck", float(context_length)
        ),
        Neighbour(
            "Likhosherstov et al. 2021",
            "ln ℓ, to which d_k is proportional for sparse patterns",
            "inputs adapt",
            math.log(context_length),
        ),
        Neighbour(
            "Mahdavi et al. 2024",
            "examples memorised, Ω(h·min(ℓ, d_k))",
            "linearly independent inputs",
            float(heads * min(context_length, width)),
        ),
        Neighbour(
            "Kajitsuka & Sato 2025",
            "next tokens memorised, Õ(parameters²)",
            "token-wise separation",
            float(shape.parameters) ** 2 if shape.parameters < 1e150 else math.inf,
        ),
        Neighbour("Zhong et al. 2025", "pairs retrieved by a linear kernel, O(d_k)", "random unit keys", float(width)),
        Neighbour(
            "Zhong et al. 2025",
            "pairs retrieved by a softmax kernel, exp(d_k/2)",
            "random unit keys",
            math.exp(width / 2) if width < 1400 else math.inf,
        ),
        Neighbour("Allen-Zhu & Li 2024", "bits stored, about 2 a parameter", "trained language models", facts),
    ]


def equal_splits(shape: Shape) -> list[Shape]:
    """Every split of a query budget into heads of equal width, each head with its own keys.

    Args:
        shape: Its query budget is split.

    Returns:
        A shape for each number of heads that divides the query budget. No head is wider than d_model; the number of
        heads of `shape` itself is always included.

    >>> [one.heads for one in equal_splits(Shape(d_model=4, heads=2, key_width=4))]
    [2, 4, 8]
    """
    budget = shape.query_budget
    small = [divisor for divisor in range(1, math.isqrt(budget) + 1) if budget % divisor == 0]
    return [
        Shape(d_model=shape.d_model, heads=heads, key_width=budget // heads)
        for heads in sorted({*small, *(budget // divisor for divisor in small)})
        if heads == shape.heads or (budget // heads <= shape.d_model and heads <= HEADS.most)
    ]
