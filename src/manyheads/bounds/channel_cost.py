"""Cost of the query–key channel (App. C), with key heads shared by groups of query heads or not."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The query–key channel of one layer: `heads` query heads over `key_heads` key heads, each `key_width` wide.

    key_heads = heads is ordinary attention, 1 multi-query, between the two grouped-query attention. The paper's D_K is
    both sides at once; here D_Q = heads·key_width and D_K = key_heads·key_width, and its statements about D_K hold
    up to a factor of two for D_Q + D_K (its footnote 3).
    """

    d_model: int
    heads: int
    key_width: int
    key_heads: int | None = None  # None: as many as heads

    def __post_init__(self) -> None:
        for name in ("d_model", "heads", "key_width"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.key_heads is None:
            object.__setattr__(self, "key_heads", self.heads)
        if self.groups < 1 or self.heads % self.groups:
            raise InputError(f"{self.heads} heads cannot share {self.key_heads} key heads evenly")

    @property
    def groups(self) -> int:
        """g, the number of key heads, each shared by heads/g query heads."""
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def query_budget(self) -> int:
        """D_Q = heads · key_width."""
        return self.heads * self.key_width

    @property
    def key_budget(self) -> int:
        """D_K = key_heads · key_width, the width of what a cache keeps for each position."""
        return self.groups * self.key_width

    @property
    def parameters(self) -> int:
        """Query and key weights: d_model·(D_Q + D_K)."""
        return self.d_model * (self.query_budget + self.key_budget)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of a head's bilinear form, a key head's shared out among its query heads.

        A group of q heads has q·d·d_k + d·d_k weights, and an invertible d_k × d_k matrix may move from one side to
        the other without changing a score: q·d·d_k + d·d_k − d_k². For q = 1: 2·d·d_k − d_k², a form of rank d_k.
        """
        d, width, sharing = self.d_model, min(self.key_width, self.d_model), self.heads // self.groups
        return d * width + (d * width - width**2) / sharing

    def multiply_adds(self, context_length: int) -> int:
        """Multiply-adds for one context: ℓ·d_model·(D_Q + D_K) to project and ℓ²·D_Q to score."""
        return context_length * self.parameters + context_length**2 * self.query_budget
