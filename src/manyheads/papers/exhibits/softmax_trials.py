"""Trials of constructions: errors under softmax in random contexts (Sec. 8), and the key width needed (Sec. 5, 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from scipy.special import softmax

from manyheads import construct
from manyheads.construct import RADEMACHER, Matching, split_sources
from manyheads.construct.smallest_construction import draw_layer, separates
from manyheads.construct.width_limit import limit_tiles
from manyheads.layer.rules import MAX, rule_named
from manyheads.papers.trial import Scores, Trial
from manyheads.problem.embedding_kinds import gaussian
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import permutation_graph
from manyheads.problem.problem import Problem

# Scores in units of d_k: the head that holds a relation gives it about 1. The logits are β times these units; in the
# paper β = √d_k.
Units = Float64[ndarray, "heads items items"]
Context = Int64[ndarray, " context"]
EXCESSES = range(5)  # β − ln ℓ. β has to exceed ln ℓ (Lemma 8.2); a larger β only adds noise from the other heads
SOFTMAX_FLOPS = 500  # the cost of gathering a score and of its exponential, in operations of a matrix product
HALF = 0.5  # the published threshold
FIRST_WIDTH = 8
NEAR = 1.05  # a width is found if a width smaller by this factor fails


def random_contexts(rng: np.random.Generator, *, items: int, length: int, count: int) -> list[Context]:
    """Uniform random contexts of `length` distinct items."""
    return [rng.choice(items, size=length, replace=False) for _ in range(count)]


def sharpnesses(length: int) -> list[float]:
    """The values of β that are tried for contexts of this length."""
    return [math.log(length) + excess for excess in EXCESSES]


def attention(units: Units, context: Context, sharpness: float) -> Float64[ndarray, "context context"]:
    """The attention of each item of the context to each other one, summed over the heads."""
    return softmax(sharpness * units[:, context[:, None], context[None, :]], axis=2).sum(axis=0)


def window(
    units: Units, related: Bool[ndarray, "items items"], contexts: Sequence[Context], sharpness: float
) -> tuple[float, float]:
    """The largest score of an unrelated pair and the smallest score of a relation, over the contexts."""
    low, high = -np.inf, np.inf
    for false, true in split_scores(units, related, contexts, sharpness):
        low, high = max(low, float(false.max(initial=-np.inf))), min(high, float(true.min(initial=np.inf)))
    return low, high


def split_scores(
    units: Units, related: Bool[ndarray, "items items"], contexts: Sequence[Context], sharpness: float
) -> Iterator[tuple[Float64[ndarray, " false"], Float64[ndarray, " true"]]]:
    """For every context, the scores of its unrelated pairs and of its relations."""
    for context in contexts:
        true, scores = related[np.ix_(context, context)], attention(units, context, sharpness)
        yield scores[~true], scores[true]


def fewest_wrong(false: Float64[ndarray, " false"], true: Float64[ndarray, " true"]) -> int:
    """The number of wrong decisions with the best threshold.

    >>> fewest_wrong(np.array([0.1, 0.4, 0.8]), np.array([0.5, 0.9, 0.3]))
    2
    """
    # With the threshold below the k-th smallest true score, k relations are missed, and every unrelated pair with this
    # score or a larger one is wrong.
    ends = np.append(np.sort(true), np.inf)
    exceeding = len(false) - np.searchsorted(np.sort(false), ends)
    return int((np.arange(len(ends)) + exceeding).min())


@dataclass(frozen=True)
class SampledContexts(Trial):
    """The errors of Algorithm 2 in uniform random contexts of one length.

    A source is wrong if any pair of its row is wrong. Each context contributes one random source whose target is
    present and one whose target is absent, so the contexts are independent trials of both kinds. A context is wrong if
    any pair is: Theorem 8.1 is about this.

    As published: threshold ½ and no scale of the logits. Mended: the scale and the threshold with the widest window in
    `calibration` other contexts.
    """

    KIND: ClassVar[str] = "contexts"

    items: int
    d_model: int
    block_size: int
    key_width: int
    context: int
    contexts: int
    calibration: int  # contexts that choose scale and threshold; 0: as published
    seed: int

    def make(self) -> Scores:
        """Counts: contexts with a source of each kind, wrong sources of each kind, and contexts with an error."""
        graph, embedding = permutation_graph(self.items, seed=self.seed), gaussian(*self._shape, seed=self.seed)
        width, size = self.key_width, self.block_size
        layer = construct.softmax(Problem(graph, embedding), key_width=width, seed=self.seed, matching_size=size)
        related, units = graph.adjacency(), layer.head_scores(embedding) / width
        rng = np.random.default_rng((self.seed, self.context))
        sharpness, threshold = math.sqrt(width), HALF
        if self.calibration:
            contexts = random_contexts(rng, items=self.items, length=self.context, count=self.calibration)
            trials = [(window(units, related, contexts, beta), beta) for beta in sharpnesses(self.context)]
            (low, high), sharpness = max(trials, key=lambda trial: trial[0][1] - trial[0][0])
            threshold = (low + high) / 2
        counts = dict.fromkeys(("present", "present_wrong", "absent", "absent_wrong", "wrong"), 0)
        for context in random_contexts(rng, items=self.items, length=self.context, count=self.contexts):
            true = related[np.ix_(context, context)]
            wrong = ((attention(units, context, sharpness) > threshold) != true).any(axis=1)
            present = true.any(axis=1)
            for kind, rows in (("present", np.flatnonzero(present)), ("absent", np.flatnonzero(~present))):
                if rows.size:
                    counts[kind] += 1
                    counts[f"{kind}_wrong"] += int(wrong[rng.choice(rows)])
            counts["wrong"] += int(wrong.any())
        return {**counts, "scale": sharpness / math.sqrt(width), "threshold": threshold}

    def seconds(self, flops: float) -> float:
        """Counted are the scores of all pairs in every head and the softmax in every context."""
        heads = -(-self.items // self.block_size)
        scores = 2 * heads * self.key_width * self.items * (self.items + 2 * self.d_model)
        looked = self.contexts + len(sharpnesses(self.context)) * self.calibration
        return (scores + SOFTMAX_FLOPS * looked * heads * self.context**2) / flops

    @property
    def _shape(self) -> tuple[int, int]:
        return self.items, self.d_model


@dataclass(frozen=True)
class NeededWidth(Trial):
    """The smallest key width at which construction II separates, with the best threshold, for all of a few signatures.

    Under max it has to separate all pairs. Under softmax it has to decide random contexts of one length, with one
    threshold and one scale of the logits, the best of a few. If the limit d_k → ∞ does not separate, no width does.
    `limit_wrong` is the number of wrong pairs in that limit over the number of relations (in the contexts).
    """

    KIND: ClassVar[str] = "width"

    rule: str  # its name
    items: int
    d_model: int
    heads: int
    draws: int  # of the signatures
    max_budget: int
    seed: int
    context: int = 0  # length of a context, under softmax
    contexts: int = 0  # number of contexts, under softmax

    def make(self) -> Scores:
        """The width, or None if no width within the budget works; and the share of errors in the limit."""
        graph = permutation_graph(self.items, seed=self.seed)
        embedding = gaussian(self.items, self.d_model, seed=self.seed)
        blocks = split_sources(graph, size=-(-self.items // self.heads))
        rng = np.random.default_rng(self.seed)
        contexts = random_contexts(rng, items=self.items, length=self.context, count=self.contexts)
        wrong = limit_wrong(graph, embedding, blocks, None if rule_named(self.rule) is MAX else contexts)
        if wrong:
            return {"key_width": None, "limit_wrong": wrong}

        def works(width: int, draw: int) -> bool:
            layer = draw_layer(embedding, blocks, width, self.seed + draw)
            if rule_named(self.rule) is MAX:
                return separates(layer, Problem(graph, embedding), "best")
            return opens(graph, layer.head_scores(embedding) / width, contexts)

        def all_work(width: int) -> bool:
            return all(works(width, draw) for draw in range(self.draws))

        return {"key_width": smallest_width(all_work, most=self.max_budget // self.heads), "limit_wrong": wrong}

    def seconds(self, flops: float) -> float:
        """Counted are eight widths at a key budget of 2·m, with all draws."""
        each = 2 * 2 * self.items * self.items * (self.items + 2 * self.d_model)
        soft = SOFTMAX_FLOPS * self.contexts * self.heads * self.context**2 * len(sharpnesses(max(2, self.context)))
        return 8 * self.draws * (each + soft) / flops


def limit_wrong(
    graph: Graph,
    embedding: Float64[ndarray, "items d_model"] | ndarray,
    blocks: list[Matching],
    contexts: list[Context] | None,
) -> float:
    """The fewest wrong pairs in the limit d_k → ∞ over the number of relations; under max if contexts is None."""
    related = graph.adjacency()
    if contexts is None:
        scores = np.empty((graph.items, graph.items))
        for row, column, tile in limit_tiles(embedding, blocks, signatures=RADEMACHER, mu=1.0):
            scores[row : row + tile.shape[0], column : column + tile.shape[1]] = tile
        return fewest_wrong(scores[~related], scores[related]) / graph.relations
    units, fewest = limit_units(embedding, blocks), math.inf
    for sharpness in sharpnesses(len(contexts[0])):
        false, true = (
            np.concatenate(ends) for ends in zip(*split_scores(units, related, contexts, sharpness), strict=True)
        )
        fewest = min(fewest, fewest_wrong(false, true) / max(1, len(true)))
    return fewest


def limit_units(embedding: ndarray, blocks: list[Matching]) -> Units:
    """Scores over d_k of every head in the limit d_k → ∞: G[:, V_k]·G[π(V_k), :] with G = XXᵀ."""
    x = embedding.astype(np.float64)
    return np.stack([(x @ x[sources].T) @ (x[targets] @ x.T) for sources, targets in blocks])


def opens(graph: Graph, units: Units, contexts: list[Context]) -> bool:
    """Whether one scale and one threshold decide all contexts without error."""
    related = graph.adjacency()
    windows = (window(units, related, contexts, sharpness) for sharpness in sharpnesses(len(contexts[0])))
    return any(low < high for low, high in windows)


def smallest_width(works: Callable[[int], bool], *, most: int) -> int | None:
    """The smallest width that works, up to the factor NEAR, by doubling and bisecting; None if it exceeds `most`."""
    low, high = 0, min(FIRST_WIDTH, most)
    while not works(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1 and high > NEAR * low:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high
