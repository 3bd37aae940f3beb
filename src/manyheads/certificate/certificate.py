"""Certificate: the verdict on a layer and a problem, with its evidence, and the threshold that it suggests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from manyheads.bounds.graph_counts import BitsPerWeight, bits_per_weight
from manyheads.layer.layer import Layer
from manyheads.layer.layer_record import LayerRecord, contexts_in_words
from manyheads.layer.rules import Rule
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem
from manyheads.tables import Shown, Summary, counted, graph_sizes, in_heads, summary

Verdict = Literal["holds", "refuted", "not proved"]


@dataclass(frozen=True)
class Witness:
    """A pair that the layer gets wrong. Under softmax it comes with a context in which the layer gets the pair wrong.

    Attributes:
        source: The pair's source.
        target: The pair's target.
        labels: The names of source and target.
        is_relation: Whether the pair is a relation of the graph.
        score: The layer's own score of the pair in that context.
        context: The items of the context, the source first; None for rules blind to the context.
        context_labels: The names of the items of the context.
    """

    source: int
    target: int
    labels: tuple[str, str]
    is_relation: bool
    score: float
    context: tuple[int, ...] | None = None
    context_labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Evidence:
    """The result of an examination of all pairs, before a verdict."""

    low: float  # the largest score of a pair without a relation (softmax: a proved upper bound on it)
    high: float  # the smallest score of a relation (softmax: a proved lower bound on it)
    rounding: float  # bound on the error of the score that decides
    missed: int  # relations that are certainly wrong
    false_pairs: int  # other pairs that are certainly wrong
    open_pairs: int  # pairs neither proved nor refuted
    witness: Witness | None
    distances: Float64[ndarray, " items"] | None = None  # of a source's exact scores from the threshold, at least


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """Proof that a layer recognises a graph in every context, or a pair that it gets wrong, or neither.

    For the rules blind to the context, `window` is exact up to rounding, and the certificate covers every context of
    every length (`context_lengths` is None). Under softmax it covers the contexts with lengths in a range, and
    window and margin come from proved bounds: every threshold in the window works, and others may work as well.

    Attributes:
        verdict: "holds", "refuted" or "not proved".
        reason: The verdict in one sentence.
        rule: The layer's rule.
        items: m.
        relations: m'.
        d_model: Width of the embedding.
        heads: h.
        key_width: d_k.
        key_heads: g, the number of key heads; h unless heads share keys.
        context_lengths: The least and the greatest length of a context; None: every length.
        threshold: τ, the layer's threshold.
        margin: Smallest signed distance of a score from the threshold, over all pairs.
        normalised_margin: margin/(‖W_Q‖_F·‖W_K‖_F·max‖x‖²), the γ of the lower bounds; NaN for zero weights.
        window: (low, high): every threshold from low to just below high works; none works if low ≥ high.
        rounding: Bound on the rounding error of the margin; for a refuted layer, of the witness's score.
        missed: Number of relations that are wrong (softmax: a lower bound).
        false_pairs: Number of other pairs that are wrong (softmax: a lower bound).
        open_pairs: Number of pairs neither proved nor refuted.
        witness: A pair that is wrong, or None.
        bits_per_weight: Of the graph's family, over the weights of W_Q and W_K.
        precisions: Whether it is proved that PyTorch recognises the same relations in "float32" and in "bfloat16".
    """

    verdict: Verdict
    reason: str
    rule: Rule
    items: int
    relations: int
    d_model: int
    heads: int
    key_width: int
    key_heads: int
    context_lengths: tuple[int, int] | None
    threshold: float
    margin: float
    normalised_margin: float
    window: tuple[float, float]
    rounding: float
    missed: int
    false_pairs: int
    open_pairs: int
    witness: Witness | None
    bits_per_weight: BitsPerWeight
    precisions: dict[str, bool] = field(default_factory=lambda: {"float32": False, "bfloat16": False})

    @property
    def holds(self) -> bool:
        """Whether the layer is proved to recognise the graph."""
        return self.verdict == "holds"

    def holds_in(self, precision: str) -> bool:
        """Whether the layer is proved to recognise the graph, also where PyTorch computes in a number type.

        Args:
            precision: "float64", which means `holds`, "float32" or "bfloat16".

        Returns:
            True where it is proved.
        """
        return self.holds and self.precisions.get(precision, precision == "float64")

    def record(self) -> dict[str, str | int]:
        """The number types in which the certificate holds, for the provenance of a layer's file."""
        return {"proved": ", ".join(name for name in ("float64", *self.precisions) if self.holds_in(name))}

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values; numbers that are infinite or undefined become null."""
        return _plain(asdict(self))

    def rows(self) -> list[tuple[str, str]]:
        """The evidence for people: pairs of a name and a text."""
        low, high = self.window
        shape = in_heads(self.heads, self.key_width, self.key_heads)
        rows = [
            ("layer", f"rule {self.rule}, {shape}, d_model {self.d_model}"),
            ("graph", graph_sizes(self.items, self.relations)),
            ("contexts", contexts_in_words(self.context_lengths)),
            ("threshold", f"{self.threshold:.6g}, window {low:.6g} … {high:.6g}{'' if low < high else ' (empty)'}"),
            ("margin", f"{self.margin:.3g} (normalised {self.normalised_margin:.3g}), rounding {self.rounding:.2g}"),
            ("pairs", f"{self.missed} missed, {self.false_pairs} false, {self.open_pairs} open of {self.items**2}"),
            ("bits per weight", str(self.bits_per_weight)),
        ]
        if self.holds:
            words = [f"{name} {'proved' if proved else 'not proved'}" for name, proved in self.precisions.items()]
            rows.append(("PyTorch", ", ".join(words)))
        if self.witness is not None:
            source, target = self.witness.labels
            kind = "a relation" if self.witness.is_relation else "no relation"
            rows.append(("witness", f"{source} → {target}, {kind}, scores {self.witness.score:.6g}"))
            if self.witness.context_labels is not None:
                rows.append(("in", " ".join(self.witness.context_labels)))
        return rows

    def summary(self) -> Summary:
        """The verdict and its evidence."""
        return summary(f"{self.verdict}: {self.reason}", self.rows())


def conclude(layer: Layer, problem: Problem, lengths: tuple[int, int] | None, evidence: Evidence) -> Certificate:
    """Decide the verdict by the evidence."""
    margin = min(evidence.high - layer.threshold, layer.threshold - evidence.low)
    verdict, reason = _verdict(evidence, margin, problem.graph)
    return Certificate(
        verdict=verdict,
        reason=reason,
        rule=layer.rule,
        items=problem.items,
        relations=problem.relations,
        d_model=layer.d_model,
        heads=layer.heads,
        key_width=layer.key_width,
        key_heads=layer.key_heads,
        context_lengths=lengths,
        threshold=layer.threshold,
        margin=margin,
        normalised_margin=_normalised(margin, layer, problem.rows),
        window=(evidence.low, evidence.high),
        rounding=evidence.rounding,
        missed=evidence.missed,
        false_pairs=evidence.false_pairs,
        open_pairs=evidence.open_pairs,
        witness=evidence.witness,
        bits_per_weight=bits_per_weight(problem.graph, weights=layer.weights),
    )


def calibrate(layer: Layer, certificate: Certificate) -> Layer:
    """The same weights with the threshold in the middle of the certificate's window.

    Args:
        layer: The layer that was certified.
        certificate: Its certificate.

    Returns:
        The layer with the new threshold, or the layer itself if the window is empty. A graph without relations, or
        with all relations, has a window that is infinite on one side: the threshold is then 1 from its finite end.
    """
    low, high = certificate.window
    return replace(layer, threshold=middle(low, high)) if low < high else layer


def described(
    layer: Layer, problem: Problem, certificate: Certificate, provenance: Mapping[str, str | int] | None = None
) -> Layer:
    """The layer with the names of its items, and with the record of its certificate and its origin.

    Args:
        layer: The layer that was certified.
        problem: The graph and the embedding of the certificate.
        certificate: The certificate.
        provenance: Facts on the origin of the layer, by name.

    Returns:
        The same weights, threshold and rule, with labels and a record (`layer.layer_record`).
    """
    record = LayerRecord(
        weights=layer.fingerprint,
        graph=problem.graph.fingerprint,
        embedding=problem.embedding.fingerprint,
        certificate=certificate.to_json(),
        provenance={**(provenance or {}), **certificate.record()},
        rows=problem.rows,
    )
    return replace(layer, labels=problem.graph.labels, record=record)


def middle(low: float, high: float) -> float:
    """The middle of a window; if one side is infinite, the number at distance 1 from the finite end."""
    if math.isinf(low) or math.isinf(high):
        return high - 1 if math.isinf(low) else low + 1
    return (low + high) / 2


def _verdict(evidence: Evidence, margin: float, graph: Graph) -> tuple[Verdict, str]:
    if evidence.witness is not None:
        others, bound = graph.items**2 - graph.relations, "at least " if evidence.open_pairs else ""
        missed = f"it misses {bound}{evidence.missed} of {graph.relations} relations"
        return "refuted", f"{missed} and takes {bound}{evidence.false_pairs} of {others} other pairs for relations"
    if evidence.missed + evidence.false_pairs + evidence.open_pairs == 0:
        return "holds", "it recognises every relation, and nothing else, in every context"
    if not math.isfinite(margin):
        return "not proved", "its scores overflow float64"
    if abs(margin) <= 2 * evidence.rounding:
        return "not proved", f"the margin {margin:.2g} is within the rounding error {evidence.rounding:.2g}"
    return "not proved", f"no bad context was found, but {counted(evidence.open_pairs, 'pair')} could not be proved"


def _normalised(margin: float, layer: Layer, embedding: Float[ndarray, "items d_model"]) -> float:
    """The margin of the layer scaled to ‖W_Q‖ = ‖W_K‖ = max‖x‖ = 1: γ of the bounds, under softmax γ/(R_U·R_V)."""
    with np.errstate(over="ignore"):
        longest = float(np.einsum("id,id->i", embedding, embedding, dtype=np.float64).max())
    scale = longest
    for weights in (layer.query, layer.key):
        scale *= float(np.hypot.reduce(weights, axis=None, dtype=np.float64))
    return margin / scale if scale else math.nan


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, Rule):
        return value.name
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
