"""Sampled: the softmax construction in contexts drawn at random, for claim 18b."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manyheads import construct
from manyheads.papers.exhibits.contexts import SOFTMAX_FLOPS, attention, draw_contexts, sharpnesses, window
from manyheads.papers.trial import Scores, Trial
from manyheads.problem.embedding_generators import gaussian
from manyheads.problem.graph_generators import permutation_graph
from manyheads.problem.problem import Problem

HALF = 0.5  # the published threshold


@dataclass(frozen=True)
class SampledContexts(Trial):
    """Algorithm 2 in `contexts` uniform contexts of one length: which decisions of a source are wrong, by its target.

    A source counts as wrong if any pair of its row is. From each context one source whose target is present is looked
    at and one whose target is absent, each chosen at random, so that contexts are independent trials of both kinds;
    and the context as a whole, which is what Theorem 8.1 speaks of.

    As published: τ = ½ and no scale. Mended: the scale and the threshold that leave the widest window in some other
    contexts (`calibration`).
    """

    KIND: ClassVar[str] = "contexts"

    items: int
    d_model: int
    block_size: int
    key_width: int
    context: int
    contexts: int
    calibration: int  # contexts that mend it; 0: as published
    seed: int

    def make(self) -> Scores:
        """How many contexts had a source of either kind, how often it was wrong, and how many had any error."""
        graph, embedding = permutation_graph(self.items, seed=self.seed), gaussian(*self._shape, seed=self.seed)
        width, size = self.key_width, self.block_size
        layer = construct.softmax(Problem(graph, embedding), key_width=width, seed=self.seed, block_size=size)
        related, units = graph.adjacency(), layer.head_scores(embedding) / width
        rng = np.random.default_rng((self.seed, self.context))
        sharpness, threshold = math.sqrt(width), HALF
        if self.calibration:
            contexts = draw_contexts(rng, items=self.items, length=self.context, count=self.calibration)
            trials = [(window(units, related, contexts, beta), beta) for beta in sharpnesses(self.context)]
            (low, high), sharpness = max(trials, key=lambda trial: trial[0][1] - trial[0][0])
            threshold = (low + high) / 2
        counts = dict.fromkeys(("present", "present_wrong", "absent", "absent_wrong", "wrong"), 0)
        for context in draw_contexts(rng, items=self.items, length=self.context, count=self.contexts):
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
        """All pairs' scores in every head, and softmax over the contexts' own."""
        heads = -(-self.items // self.block_size)
        scores = 2 * heads * self.key_width * self.items * (self.items + 2 * self.d_model)
        looked = self.contexts + len(sharpnesses(self.context)) * self.calibration
        return (scores + SOFTMAX_FLOPS * looked * heads * self.context**2) / flops

    @property
    def _shape(self) -> tuple[int, int]:
        return self.items, self.d_model
