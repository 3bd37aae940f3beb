"""Plan: the advice for one problem as a value, its summary and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from manyheads.bounds import BitsPerWeight, Regime, Shape
from manyheads.layer.rules import Rule
from manyheads.planning.guarantee import Guarantee
from manyheads.planning.prediction import Alternative, Prediction, Split
from manyheads.tables import Shown, Summary, in_heads, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyheads.drawing.plan import CapacityMap


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Shown):
    """Advice for one problem. Every budget is a key budget D_K, in key dimensions.

    Attributes:
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        rule: How heads are joined.
        context_length: Items in a context, if it was given.
        permutation: Whether the graph counts as a permutation of the items.
        bit_bound: With a smaller key budget, no layer of weights with `bits` bits holds every such graph.
        margin_bound: The same for layers with the normalised margin 1/(2·d_model), at any precision; None for
            softmax, whose margin depends on the scale of the weights.
        unconditional_bound: No layer of any real weights holds every such graph with less; None for softmax, whose
            scores are no polynomials.
        log2_share_below: One key dimension below `unconditional_bound`, layers hold at most 2 to this power of all such
            graphs; None where there is no such budget.
        bits_per_weight: Of the recommended split.
        regime: The regime of Sec. 9.
        paper_law: The paper's empirical law.
        paper_heads: The paper's empirical number of heads.
        freedom_law: The degrees-of-freedom law.
        predicted: Prediction of the measured threshold.
        guaranteed: Key budget with a proof.
        unproved: The reason why nothing is guaranteed; None if something is.
        recommended: Recommended split.
        reason: Why this number of heads is recommended.
        friendly: Recommended split whose key width is a multiple of the number that was given.
        grouped: Recommended shape with the number of key heads that was given.
        alternatives: Other splits that are recommended by the same yardstick, with their price.
        notes: Conditions that do not hold, one sentence each.
    """

    items: int
    relations: int
    d_model: int
    rule: Rule
    context_length: int | None
    permutation: bool
    bit_bound: float
    margin_bound: float | None
    unconditional_bound: int | None
    log2_share_below: float | None
    bits_per_weight: BitsPerWeight
    regime: Regime
    paper_law: float
    paper_heads: float
    freedom_law: float
    predicted: Prediction
    guaranteed: Guarantee | None
    unproved: str | None
    recommended: Split
    reason: str
    friendly: Split | None
    grouped: Shape | None
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...]

    @property
    def price(self) -> float | None:
        """Additional key budget of the friendly split, as a share of the recommended key budget."""
        return None if self.friendly is None else self.friendly.key_budget / self.recommended.key_budget - 1

    @property
    def shape(self) -> Shape:
        """The recommended split as the query–key channel of a layer."""
        return Shape(d_model=self.d_model, heads=self.recommended.heads, key_width=self.recommended.key_width)

    def summary(self) -> Summary:
        """What is impossible, likely and guaranteed, the recommended split and the others."""
        best, likely, proof = self.recommended, self.predicted, self.guaranteed
        sizes = f"{self.relations:,} relations, {self.items:,} items, d_model {self.d_model}, rule {self.rule}"
        rows: list[tuple[str, object]] = [
            ("impossible", f"D_K < {self.bit_bound:.3g}"),
            ("predicted", f"D_K* {likely.key_budget:.0f}, from {likely.low:.0f} to {likely.high:.0f} in 9 of 10"),
            ("guaranteed", self.unproved if proof is None else f"D_K {proof.key_budget:,}: {proof.proof}"),
            ("recommended", f"{in_heads(best.heads, best.key_width)}, D_K {best.key_budget}"),
            ("because", self.reason),
            *(("or", alternative(one)) for one in self.alternatives),
            *(("note", note) for note in self.notes),
        ]
        return summary(f"plan for {sizes}", rows)

    def capacity_map(self) -> CapacityMap:
        """The relations that a layer holds against d_model, around the recommended key budget; `draw` draws it."""
        from manyheads.planning.answers import map_around

        return map_around(self)

    def picture(self) -> Figure:
        """The key budget against the number of heads: impossible, predicted and recommended budgets."""
        from manyheads.drawing.plan import draw_head_curve
        from manyheads.planning.answers import head_curve

        return draw_head_curve(head_curve(self))


def alternative(one: Alternative) -> str:
    """Another split in words: its heads, its key budget and its price.

    Args:
        one: The split.

    Returns:
        The words.
    """
    change = "more" if one.price > 0 else "less"
    price = f"{abs(one.price):.0%} {change}" if round(abs(one.price), 2) else "as much"
    return f"{in_heads(one.heads, one.key_width)}, D_K {one.key_budget}: {price}"
