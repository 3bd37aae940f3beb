"""Sharing: what heads lose that share keys or make them from a latent, by a measured law with its range.

The measurement (docs/results/shared-keys.md): the narrowest heads that a fit certified, for heads with own keys and for
heads that share them. A price is the degrees of freedom that a layer with shared keys needed, over those that the same
number of heads with own keys needed for the same graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyheads.bounds import Shape, bits_per_weight, constraint_positives
from manyheads.bounds.inverse import relations_by_freedom
from manyheads.errors import InputError
from manyheads.planning.architectures import find_architecture
from manyheads.tables import Shown, Summary, summary

# heads for each key head: the lowest, the median and the highest price; tests/pages/test_shared_keys.py compares them
# with the rows
PRICES = {2: (0.764, 1.025, 1.058), 4: (0.91, 1.094, 1.206), 8: (0.971, 1.191, 1.49)}
LATENT_PRICES = (0.687, 1.05, 1.239)
LARGEST_MEASURED = (1024, 128)  # items and d_model
CONTEXT_LENGTH = 1024  # tokens that a token attends to, for its multiply-adds


@dataclass(frozen=True, kw_only=True)
class SharingLoss:
    """The relations that heads with shared keys hold, beside the same heads with own keys.

    Attributes:
        own: Relations with own keys, by the degrees-of-freedom law.
        low: Relations with shared keys at the highest measured price.
        likely: At the median price.
        high: At the lowest price.
        extrapolated: Whether more heads share a key head than in any measurement.
    """

    own: int
    low: int
    likely: int
    high: int
    extrapolated: bool

    def __str__(self) -> str:
        kept = [number / max(1, self.own) for number in (self.low, self.likely, self.high)]
        beyond = "; more heads share a key head than was measured" if self.extrapolated else ""
        return (
            f"{kept[1]:.0%} of the relations of own keys ({kept[0]:.0%} to {kept[2]:.0%}), by prices measured up to "
            f"{LARGEST_MEASURED[0]:,} items{beyond}"
        )


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """What the query–key channel of one layer costs, and what that buys by the degrees-of-freedom law.

    Attributes:
        query_budget: D_Q.
        key_budget: D_K, the numbers to cache for each token.
        weights: Of queries and keys.
        freedom: Degrees of freedom of all heads.
        multiply_adds: For one token that attends to CONTEXT_LENGTH tokens.
        relations: By the degrees-of-freedom law.
        bits_per_weight: log2 of the number of graphs with as many relations, over the weights.
        bits_per_cached_number: The same over the numbers that a cache of all items stores, items · D_K.
        loss: Beside own keys; None if heads have own keys.
    """

    query_budget: int
    key_budget: int
    weights: int
    freedom: int
    multiply_adds: int
    relations: int
    bits_per_weight: float
    bits_per_cached_number: float
    loss: SharingLoss | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shown):
    """Two layers side by side.

    Attributes:
        names: Of the two layers.
        shapes: Their query–key channels.
        items: m, for both.
        costs: What each costs and holds.
    """

    names: tuple[str, str]
    shapes: tuple[Shape, Shape]
    items: int
    costs: tuple[LayerCost, LayerCost]

    def summary(self) -> Summary:
        """The numbers of both layers, and the second over the first."""
        first, second = self.costs
        rows: list[tuple[str, object]] = [("layers", " | ".join(shape.words() for shape in self.shapes))]
        for name in vars(first):
            one, other = getattr(first, name), getattr(second, name)
            if isinstance(one, int | float):
                ratio = f" ({other / one:.2f} times)" if one else ""
                rows.append((name.replace("_", " "), f"{one:,.4g} | {other:,.4g}{ratio}"))
        return summary(f"{self.names[0]} | {self.names[1]}, {self.items:,} items", rows)


def sharing_price(shape: Shape) -> tuple[float, float, float]:
    """The lowest, the median and the highest measured price of the way in which a layer shares keys.

    Args:
        shape: The query–key channel of the layer.

    Returns:
        Three numbers; 1 for own keys. Between measured numbers of heads for a key head, the price is interpolated in
        their logarithm; beyond them, it is that of the largest number.

    >>> sharing_price(Shape(d_model=64, heads=8, key_width=8))
    (1.0, 1.0, 1.0)
    """
    if shape.latent is not None:
        return LATENT_PRICES
    points = {1: (1.0, 1.0, 1.0)} | PRICES
    sharing = min(shape.heads / shape.groups, max(points))
    below = max(number for number in points if number <= sharing)
    above = min(number for number in points if number >= sharing)
    part = 0.0 if below == above else math.log(sharing / below) / math.log(above / below)
    low, median, high = (one + part * (other - one) for one, other in zip(points[below], points[above], strict=True))
    return low, median, high


def sharing_loss(shape: Shape, *, items: int) -> SharingLoss | None:
    """The relations that a layer with shared keys holds, beside the same heads with own keys.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.

    Returns:
        The numbers; None if every head has its own keys.

    Raises:
        InputError: There are fewer than 2 items, or too many.

    >>> loss = sharing_loss(Shape(d_model=64, heads=8, key_width=8, key_heads=2), items=512)
    >>> loss.low <= loss.likely <= loss.high <= loss.own
    True
    """
    if not shape.is_shared:
        return None
    low, median, high = sharing_price(shape)
    return SharingLoss(
        own=relations_by_freedom(shape.unshared, items=items),
        low=_held(shape, items, high),
        likely=_held(shape, items, median),
        high=_held(shape, items, low),
        extrapolated=shape.latent is None and shape.heads / shape.groups > max(PRICES),
    )


def _held(shape: Shape, items: int, price: float) -> int:
    """The relations by the degrees-of-freedom law, where each costs `price` times as many."""
    share = min(shape.freedom / price / items**2, 0.5 - 1e-12)
    return min(items * (items - 1) // 2, round(float(shape.heads * items**2 * constraint_positives(share))))


def layer_cost(shape: Shape, *, items: int) -> LayerCost:
    """What the query–key channel of one layer costs and holds.

    Args:
        shape: The query–key channel of the layer.
        items: m, at least 2.

    Returns:
        The numbers.

    Raises:
        InputError: There are fewer than 2 items, or too many.
    """
    relations = relations_by_freedom(shape, items=items)
    bits = bits_per_weight(f"random:{items}:{relations}", weights=shape.parameters)
    return LayerCost(
        query_budget=shape.query_budget,
        key_budget=shape.key_budget,
        weights=shape.parameters,
        freedom=shape.all_freedom,
        multiply_adds=shape.token_multiply_adds(CONTEXT_LENGTH),
        relations=relations,
        bits_per_weight=bits.value,
        bits_per_cached_number=bits.log2_graphs / (items * shape.key_budget),
        loss=sharing_loss(shape, items=items),
    )


def compare(first: str, second: str, *, items: int | None = None) -> Comparison:
    """Two models or shapes side by side.

    Args:
        first: A name, a file, or a shape such as `d_model=4096,heads=32,key_width=128,key_heads=8`; `latent=512` in
            place of key_heads for keys from a latent.
        second: Likewise.
        items: m; None: the vocabulary of the first model that has one.

    Returns:
        Both, with the same number of items.

    Raises:
        InputError: A word is no model and no shape, or no number of items is known.
    """
    shapes, vocabularies = [], list[int]()
    for word in (first, second):
        if "=" in word:
            shapes.append(parse_shape(word))
        else:
            architecture = find_architecture(word)
            shapes.append(architecture.shape)
            vocabularies += [] if architecture.vocabulary is None else [architecture.vocabulary]
    if items is None and not vocabularies:
        raise InputError("two shapes have no vocabulary: give the number of items with --items")
    count = vocabularies[0] if items is None else items
    costs = [layer_cost(shape, items=count) for shape in shapes]
    return Comparison(names=(first, second), shapes=(shapes[0], shapes[1]), items=count, costs=(costs[0], costs[1]))


SHAPE_WORDS = ("d_model", "heads", "key_width", "key_heads", "latent", "query_latent")


def parse_shape(text: str) -> Shape:
    """A shape from words such as `d_model=4096,heads=32,key_width=128,key_heads=8`.

    Args:
        text: Names and whole numbers; d_model, heads and key_width are needed.

    Returns:
        The shape.

    Raises:
        InputError: A word is unknown, missing or no whole number, or there is no layer of this shape.

    >>> parse_shape("d_model=64,heads=8,key_width=8,key_heads=2").key_budget
    16
    """
    parts = [part.partition("=") for part in text.split(",")]
    sizes = {name.strip().replace("-", "_"): value.strip() for name, _, value in parts}
    needed = [name for name in SHAPE_WORDS[:3] if name not in sizes]
    unknown = [name for name in sizes if name not in SHAPE_WORDS]
    if needed or unknown or not all(value.isascii() and value.isdigit() for value in sizes.values()):
        raise InputError(
            f"'{text}' is no shape: write whole numbers as in d_model=4096,heads=32,key_width=128,key_heads=8, or "
            f"latent=512 in place of key_heads"
        )
    return Shape(**{name: int(value) for name, value in sizes.items()})
