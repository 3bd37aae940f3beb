"""The certificate of rules blind to the context: one pass over all ordered pairs decides every context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from manyheads._native import multiply
from manyheads.certificate.certificate import Evidence, Witness
from manyheads.certificate.projection import Projection, tile_sides
from manyheads.layer.layer import Layer
from manyheads.layer.rules import Rule
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem


def examine_pairs(
    layer: Layer, problem: Problem, projection: Projection, progress: Callable[[int, int], None]
) -> Evidence:
    """Score all ordered pairs, one square tile at a time, and compare each score with the threshold.

    A pair has the same score in every context that holds it, so one comparison decides all contexts (the paper's
    monotonicity). A pair is proved if its distance from the threshold exceeds its rounding bound. It is refuted if it
    is wrong by more than twice the bound: once for the arithmetic here, once for the layer's own.
    """
    graph = problem.graph
    row_bounds = layer.rule.error_bound(projection.row_errors())
    sides = tile_sides(graph.items)
    tallies = []
    distances = np.full(graph.items, np.inf)
    for sources in sides:
        for targets in sides:
            scores = tile_scores(layer.rule, projection, sources, targets)
            tallies.append(
                _judge(
                    layer, graph, projection, scores, row_bounds[sources], (sources.start, targets.start),
                    distances[sources],
                )
            )  # fmt: skip
        progress(sources.stop, graph.items)
    tally = reduce(add, tallies)
    # the pair of the margin and the pair with the least distance after rounding may differ; `rounding` includes that
    margin = min(tally.high - layer.threshold, layer.threshold - tally.low)
    return Evidence(
        low=tally.low,
        high=tally.high,
        rounding=tally.worst.bound if tally.wrong else tally.tightest.bound - (tally.tightest.distance - margin),
        missed=tally.missed,
        false_pairs=tally.wrong - tally.missed,
        open_pairs=tally.open_pairs,
        witness=_witness(layer, problem, tally.worst) if tally.wrong else None,
        distances=distances,
    )


def tile_scores(
    rule: Rule, projection: Projection, sources: slice, targets: slice
) -> Float64[ndarray, "sources targets"]:
    """The joined scores of some sources with some targets."""
    queries, keys = projection.queries[:, sources], projection.keys[:, :, targets]
    scores, head_scores = np.empty((2, queries.shape[1], keys.shape[2]))
    multiply(queries[0], keys[0], out=scores)
    for head in range(1, projection.heads):
        multiply(queries[head], keys[head], out=head_scores)
        rule.add_head(scores, head_scores)
    return scores


@dataclass(frozen=True)
class _Pair:
    """One pair's distance from the threshold (negative where it is wrong) and the rounding bound of its score."""

    source: int
    target: int
    distance: float
    bound: float

    @property
    def remaining(self) -> float:
        """The distance minus the rounding bound."""
        return self.distance - self.bound

    @property
    def excess(self) -> float:
        """The distance by which the pair is wrong, minus twice the rounding bound."""
        return -self.distance - 2 * self.bound


@dataclass(frozen=True)
class _Tally:
    """The result of a tile of pairs; the sum of two tallies is the result of both tiles."""

    low: float
    high: float
    missed: int
    wrong: int
    open_pairs: int
    tightest: _Pair  # the pair with the least `remaining`
    worst: _Pair  # the pair with the largest `excess`

    def __add__(self, other: _Tally) -> _Tally:
        return _Tally(
            low=max(self.low, other.low),
            high=min(self.high, other.high),
            missed=self.missed + other.missed,
            wrong=self.wrong + other.wrong,
            open_pairs=self.open_pairs + other.open_pairs,
            tightest=min(self.tightest, other.tightest, key=lambda pair: pair.remaining),
            worst=max(self.worst, other.worst, key=lambda pair: pair.excess),
        )


def _judge(
    layer: Layer,
    graph: Graph,
    projection: Projection,
    scores: Float64[ndarray, "sources targets"],
    row_bounds: Float64[ndarray, " sources"],
    corner: tuple[int, int],  # the first source and the first target
    distances: Float64[ndarray, " sources"],  # of each source's scores from the threshold: updated here
) -> _Tally:
    height, width = scores.shape
    first, last = graph.row_starts[corner[0]], graph.row_starts[corner[0] + height]
    rows, columns = graph.sources[first:last] - corner[0], graph.targets[first:last] - corner[1]
    inside = (columns >= 0) & (columns < width)
    edges = rows[inside], columns[inside]
    distance = layer.threshold - scores
    distance[edges] *= -1
    bounds = row_bounds[:, None]
    nearest = np.abs(distance).min(axis=1)
    unclear = np.flatnonzero(nearest <= 2 * row_bounds)
    nearest -= row_bounds
    if unclear.size:  # the bound of the whole row does not decide these pairs: take each pair's own bound
        bounds = np.repeat(bounds, width, axis=1)
        for row in unclear:
            errors = projection.score_errors(corner[0] + int(row))[:, corner[1] : corner[1] + width]
            bounds[row] = layer.rule.error_bound(errors)
            nearest[row] = (np.abs(distance[row]) - bounds[row]).min()
    np.minimum(distances, nearest, out=distances)

    def pair(flat_index: np.intp) -> _Pair:
        row, column = divmod(int(flat_index), width)
        bound = bounds[row, column if unclear.size else 0]
        return _Pair(corner[0] + row, corner[1] + column, float(distance[row, column]), float(bound))

    remaining = distance - bounds
    excess = -distance - 2 * bounds
    wrong = excess > 0
    high = float(scores[edges].min(initial=np.inf))
    scores[edges] = -np.inf
    return _Tally(
        low=float(scores.max()),
        high=high,
        missed=int(np.count_nonzero(wrong[edges])),
        wrong=int(np.count_nonzero(wrong)),
        open_pairs=int(wrong.size - np.count_nonzero(remaining > 0) - np.count_nonzero(wrong)),
        tightest=pair(remaining.argmin()),
        worst=pair(excess.argmax()),
    )


def _witness(layer: Layer, problem: Problem, pair: _Pair) -> Witness:
    graph = problem.graph
    context = [pair.source] if pair.source == pair.target else [pair.source, pair.target]
    return Witness(
        source=pair.source,
        target=pair.target,
        labels=(graph.name(pair.source), graph.name(pair.target)),
        is_relation=bool(graph.adjacency(pair.source, pair.source + 1)[0, pair.target]),
        score=float(layer.scores(problem.rows[context])[0, -1]),
    )
