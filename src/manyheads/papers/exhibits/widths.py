"""Widths: the key width that construction II needs with so many heads, under max and under softmax (Sec. 5 and 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads.construct import RADEMACHER, Block, split_sources
from manyheads.construct.smallest_construction import draw_layer, separates
from manyheads.construct.width_limit import limit_tiles
from manyheads.layer.rules import MAX, rule_named
from manyheads.papers.exhibits.contexts import (
    SOFTMAX_FLOPS,
    Context,
    Units,
    draw_contexts,
    fewest_wrong,
    parted,
    sharpnesses,
    window,
)
from manyheads.papers.trial import Scores, Trial
from manyheads.problem.embedding_generators import gaussian
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import permutation_graph
from manyheads.problem.problem import Problem

FIRST_WIDTH = 8
NEAR = 1.05  # a width is known when one so much smaller fails


@dataclass(frozen=True)
class NeededWidth(Trial):
    """The smallest key width at which all of a few draws of the signatures separate, with the best threshold.

    Under max over all pairs. Under softmax in random contexts of one length, all decided by one threshold and one
    scale of the logits, the best of a few. The limit d_k → ∞ comes first: where it does not separate no width does,
    and `limit_wrong` is the share that its best threshold has wrong, in relations (those present in the contexts).
    """

    KIND: ClassVar[str] = "width"

    rule: str
    items: int
    d_model: int
    heads: int
    draws: int
    max_budget: int
    seed: int
    context: int = 0  # under softmax
    contexts: int = 0

    def make(self) -> Scores:
        """The width, None where there is none within the budget, and what is wrong in the limit."""
        graph = permutation_graph(self.items, seed=self.seed)
        embedding = gaussian(self.items, self.d_model, seed=self.seed)
        blocks = split_sources(graph, size=-(-self.items // self.heads))
        rng = np.random.default_rng(self.seed)
        contexts = draw_contexts(rng, items=self.items, length=self.context, count=self.contexts)
        wrong = limit_wrong(graph, embedding, blocks, None if rule_named(self.rule) is MAX else contexts)
        if wrong:
            return {"key_width": None, "limit_wrong": wrong}

        def works(width: int, draw: int) -> bool:
            layer = draw_layer(embedding, blocks, width, self.seed + draw)
            if rule_named(self.rule) is MAX:
                return separates(Problem(graph, embedding), layer, "best")
            return opens(graph, layer.head_scores(embedding) / width, contexts)

        def all_work(width: int) -> bool:
            return all(works(width, draw) for draw in range(self.draws))

        return {"key_width": smallest_width(all_work, most=self.max_budget // self.heads), "limit_wrong": wrong}

    def seconds(self, flops: float) -> float:
        """About eight widths of a budget of 2·m, all draws each."""
        each = 2 * 2 * self.items * self.items * (self.items + 2 * self.d_model)
        soft = SOFTMAX_FLOPS * self.contexts * self.heads * self.context**2 * len(sharpnesses(max(2, self.context)))
        return 8 * self.draws * (each + soft) / flops


def limit_wrong(
    graph: Graph,
    embedding: Float64[ndarray, "items d_model"] | ndarray,
    blocks: list[Block],
    contexts: list[Context] | None,
) -> float:
    """The fewest wrong pairs in the limit d_k → ∞, over the relations there are; without contexts under max."""
    related = graph.adjacency()
    if contexts is None:
        scores = np.empty((graph.items, graph.items))
        for row, column, tile in limit_tiles(embedding, blocks, signatures=RADEMACHER, mu=1.0):
            scores[row : row + tile.shape[0], column : column + tile.shape[1]] = tile
        return fewest_wrong(scores[~related], scores[related]) / graph.relations
    units, fewest = limit_units(embedding, blocks), math.inf
    for sharpness in sharpnesses(len(contexts[0])):
        false, true = (np.concatenate(ends) for ends in zip(*parted(units, related, contexts, sharpness), strict=True))
        fewest = min(fewest, fewest_wrong(false, true) / max(1, len(true)))
    return fewest


def limit_units(embedding: ndarray, blocks: list[Block]) -> Units:
    """score/d_k of every head in the limit: G[:, V_k]·G[π(V_k), :] with G = XXᵀ."""
    x = embedding.astype(np.float64)
    return np.stack([(x @ x[sources].T) @ (x[targets] @ x.T) for sources, targets in blocks])


def opens(graph: Graph, units: Units, contexts: list[Context]) -> bool:
    """Whether one scale and one threshold decide all these contexts."""
    related = graph.adjacency()
    windows = (window(units, related, contexts, sharpness) for sharpness in sharpnesses(len(contexts[0])))
    return any(low < high for low, high in windows)


def smallest_width(works: Callable[[int], bool], *, most: int) -> int | None:
    """A width that works where one NEAR times smaller does not, by doubling and bisecting; None up to `most`."""
    low, high = 0, min(FIRST_WIDTH, most)
    while not works(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1 and high > NEAR * low:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high
