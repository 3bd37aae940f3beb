"""Refutation under softmax by counting alone: a source's scores in any context add up to h."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from manyheads.certificate.softmax.frontier import Suspect
from manyheads.layer.layer import Layer
from manyheads.problem.problem import Problem


def crowded_out(layer: Layer, problem: Problem, lengths: tuple[int, int]) -> Iterator[tuple[Suspect, bool]]:
    """Pairs that must be wrong in some context whatever the weights, and whether they are relations.

    ℓ items that are no targets of the source, itself among them, share h, so one scores h/ℓ or more: a threshold below
    that fails. r targets in one context share at most h, so one scores h/r or less: a threshold from there on fails.
    """
    graph, (shortest, longest) = problem.graph, lengths
    items = np.arange(graph.items)
    loops = np.isin(items, graph.sources[graph.sources == graph.targets])
    lonely = np.flatnonzero(~loops & (graph.items - graph.out_degrees >= shortest))
    if lonely.size and layer.threshold < layer.heads / shortest:
        source = int(lonely[0])
        strangers = ~graph.adjacency(source, source + 1)[0] & (items != source)
        context = np.array([source, *items[strangers][: shortest - 1]])
        scores = layer.scores(problem.rows[context])[0]
        yield _suspect(context, scores, int(scores.argmax())), False

    room = np.minimum(graph.out_degrees, np.where(loops, longest, longest - 1))
    if room.any() and layer.threshold >= layer.heads / room.max():
        source = int(room.argmax())
        targets = graph.adjacency(source, source + 1)[0]
        by_kind = np.concatenate([items[targets & (items != source)], items[~targets & (items != source)]])
        context = np.array([source, *by_kind])[:longest]
        scores = layer.scores(problem.rows[context])[0]
        yield _suspect(context, scores, int(np.where(targets[context], scores, np.inf).argmin())), True


def _suspect(context: Int[ndarray, " length"], scores: Float64[ndarray, " length"], worst: int) -> Suspect:
    source, target = int(context[0]), int(context[worst])
    others = tuple(item for item in context.tolist() if item not in (source, target))
    return Suspect(source, target, float(scores[worst]), others)
