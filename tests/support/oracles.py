"""Slow and obvious counterparts of the library's clever parts, for tests on tiny cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from mpmath import mp, mpf

from manyheads import Graph, Layer

Range = tuple[int, int]


def every_context(items: int, lengths: Range) -> Iterator[tuple[int, ...]]:
    """Every set of items with a length in the range; scores do not depend on the order of a context."""
    for length in range(lengths[0], lengths[1] + 1):
        yield from combinations(range(items), length)


@dataclass(frozen=True)
class Tried:
    """Of every ordered pair: its smallest and largest score in any context, and whether some context gets it wrong."""

    smallest: np.ndarray
    largest: np.ndarray
    wrong: np.ndarray


def try_every_context(layer: Layer, embedding: np.ndarray, graph: Graph, lengths: Range) -> Tried:
    """Look at every context with a length in the range, one by one."""
    relation = graph.adjacency()
    smallest, largest = np.full(relation.shape, np.inf), np.full(relation.shape, -np.inf)
    wrong = np.zeros_like(relation)
    for context in every_context(graph.items, lengths):
        pairs = np.ix_(context, context)
        scores = layer.scores(embedding[list(context)])
        smallest[pairs] = np.minimum(smallest[pairs], scores)
        largest[pairs] = np.maximum(largest[pairs], scores)
        wrong[pairs] |= (scores > layer.threshold) != relation[pairs]
    return Tried(smallest, largest, wrong)


def exact_head_scores(layer: Layer, embedding: np.ndarray) -> list[list[list[Fraction]]]:
    """Every head's score of every ordered pair as a rational number, [head][source][target]: no rounding at all."""

    def dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))

    def rational(matrix: np.ndarray) -> list[list[Fraction]]:
        return [[Fraction(float(value)) for value in row] for row in matrix]

    rows, heads = rational(embedding), []
    for head, query in enumerate(layer.query):
        key = layer.key[head * len(layer.key) // len(layer.query)]
        queries, keys = ([[dot(row, column) for column in rational(w.T)] for row in rows] for w in (query, key))
        heads.append([[dot(q, k) for k in keys] for q in queries])
    return heads


def exact_scores(layer: Layer, embedding: np.ndarray) -> list[list[mpf]]:
    """The scores of one context, embedding, joined by the layer's rule with 60 digits."""
    with mp.workdps(60):
        heads = [
            [[mpf(s.numerator) / s.denominator for s in row] for row in head]
            for head in exact_head_scores(layer, embedding)
        ]
        pairs = [[[head[p][q] for head in heads] for q in range(len(embedding))] for p in range(len(embedding))]
        if layer.rule.name == "max":
            return [[max(scores) for scores in row] for row in pairs]
        if layer.rule.name == "sum":
            return [[mp.fsum(scores) for scores in row] for row in pairs]
        if layer.rule.name == "logsumexp":
            return [[mp.log(mp.fsum(mp.exp(s) for s in scores)) for scores in row] for row in pairs]
        root = mp.sqrt(layer.key_width)
        shares = [[[mp.exp(s / root) for s in row] for row in head] for head in heads]
        return [
            [mp.fsum(head[p][q] / mp.fsum(head[p]) for head in shares) for q in range(len(embedding))]
            for p in range(len(embedding))
        ]
