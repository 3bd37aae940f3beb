"""The certificate of rules blind to the context: one pass over all ordered pairs decides every context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from manyheads._native import multiply
from manyheads.certificate.certificate import Evidence, Witness
from manyheads.certificate.core_map import core_map
from manyheads.certificate.mixed_precision import judge_mixed
from manyheads.certificate.projection import Projection, row_blocks
from manyheads.certificate.row_evidence import RowEvidence
from manyheads.layer.layer import Layer
from manyheads.layer.rules import Rule
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

COLUMNS = 1024  # targets of one product: the keys stay in the cache
BLOCKS = 8  # blocks of scores in one array of several sources with all targets


def examine_pairs(
    layer: Layer, problem: Problem, projection: Projection, progress: Callable[[int, int], None]
) -> Evidence:
    """Score all ordered pairs and compare each score with the threshold.

    A pair has the same score in every context that holds it, so one comparison decides all contexts (the paper's
    monotonicity). A pair is proved if its distance from the threshold exceeds its rounding bound. It is refuted if it
    is wrong by more than twice the bound: once for the arithmetic here, once for the layer's own.

    Float32 decides most pairs of the rules max and sum. Float64 scores the others, with the same result.
    """
    graph, items = problem.graph, problem.items
    bounds = layer.rule.error_bound(projection.row_errors())
    rows = RowEvidence.of(items)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        left = judge_mixed(layer, graph, projection, bounds, rows, lambda judged: progress(judged, items))
    for judged in judge_sources(layer, graph, projection, bounds, rows, left):
        progress(items - len(left) + judged, items)

    low, high = float(rows.low.max()), float(rows.high.min())
    missed, false_pairs = int(rows.missed.sum()), int(rows.false_pairs.sum())
    tightest, worst = int(rows.remaining.argmin()), int(rows.excess.argmax())
    # the pair of the margin and the pair with the least distance after rounding may differ; `rounding` includes that
    margin = min(high - layer.threshold, layer.threshold - low)
    rounding = rows.tightest_bound[tightest] - (rows.tightest_distance[tightest] - margin)
    witness = None
    if missed + false_pairs:
        rounding = rows.worst_bound[worst]
        witness = _witness(layer, problem, worst, int(rows.worst_target[worst]))
    return Evidence(
        low=low,
        high=high,
        rounding=float(rounding),
        missed=missed,
        false_pairs=false_pairs,
        open_pairs=int(rows.open_pairs.sum()),
        witness=witness,
        distances=rows.remaining,
    )


def source_blocks(sources: Int[ndarray, " sources"], items: int) -> list[Int[ndarray, " rows"]]:
    """The sources in blocks, so that the scores of a block with all items are BLOCKS · BLOCK numbers at most."""
    return [sources[start:stop] for start, stop in row_blocks(len(sources), max(1, items // BLOCKS))]


def row_scores(rule: Rule, projection: Projection, sources: Int[ndarray, " rows"]) -> Float64[ndarray, "rows items"]:
    """The joined scores of some sources with all items."""
    queries, items = projection.queries[:, sources], projection.items
    scores = np.empty((len(sources), items))
    joined, other = np.empty((2, len(sources), min(COLUMNS, items)))
    for start in range(0, items, COLUMNS):
        stop = min(start + COLUMNS, items)
        one, more = joined[:, : stop - start], other[:, : stop - start]
        multiply(queries[0], projection.head_keys(0)[:, start:stop], out=one)
        for head in range(1, projection.heads):
            multiply(queries[head], projection.head_keys(head)[:, start:stop], out=more)
            rule.add_head(one, more)
        scores[:, start:stop] = one
    return scores


def judge_sources(
    layer: Layer,
    graph: Graph,
    projection: Projection,
    bounds: Float64[ndarray, " items"],
    rows: RowEvidence,
    sources: Int[ndarray, " sources"],
) -> Iterator[int]:
    """Judge all pairs of these sources in float64, on all cores, and write their rows.

    Args:
        layer: The layer; its rule joins heads one by one and has a rounding bound.
        graph: The relations.
        projection: The layer's queries and keys.
        bounds: For each of all items, a bound on the rounding errors of its scores.
        rows: Receives the results.
        sources: The sources to judge.

    Returns:
        The number of sources judged so far, after each block. A block is judged when its number is read.
    """

    def judge(block: Int[ndarray, " rows"]) -> int:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            _judge_block(layer, graph, projection, bounds, rows, block)
        return len(block)

    return accumulate(core_map(judge, source_blocks(sources, graph.items)))


def _judge_block(
    layer: Layer,
    graph: Graph,
    projection: Projection,
    bounds: Float64[ndarray, " items"],
    rows: RowEvidence,
    sources: Int[ndarray, " rows"],
) -> None:
    scores, own = row_scores(layer.rule, projection, sources), bounds[sources]
    edges = _edges(graph, sources)
    distance = layer.threshold - scores
    distance[edges] *= -1
    target = distance.argmin(axis=1)
    wrong = distance < 0
    missed = np.bincount(edges[0], weights=wrong[edges], minlength=len(sources)).astype(np.int64)
    high = np.full(len(sources), np.inf)
    np.minimum.at(high, edges[0], scores[edges])
    scores[edges] = -np.inf
    rows.set_clear(
        sources, own, scores.max(axis=1), high, distance[np.arange(len(sources)), target], target, missed,
        wrong.sum(axis=1) - missed,
    )  # fmt: skip
    for row in np.flatnonzero(np.abs(distance).min(axis=1) <= 2 * own).tolist():
        _judge_pairs(layer.rule, graph, projection, rows, int(sources[row]), distance[row])


def _judge_pairs(
    rule: Rule,
    graph: Graph,
    projection: Projection,
    rows: RowEvidence,
    source: int,
    distance: Float64[ndarray, " items"],
) -> None:
    """Judge a row whose pairs the bound of the row does not decide: each pair has its own bound."""
    bounds = rule.error_bound(projection.score_errors(source))
    remaining, excess = distance - bounds, -distance - 2 * bounds
    wrong, targets = excess > 0, graph.targets[graph.row_starts[source] : graph.row_starts[source + 1]]
    tightest, worst = int(remaining.argmin()), int(excess.argmax())
    rows.missed[source] = np.count_nonzero(wrong[targets])
    rows.false_pairs[source] = np.count_nonzero(wrong) - rows.missed[source]
    rows.open_pairs[source] = wrong.size - np.count_nonzero(remaining > 0) - np.count_nonzero(wrong)
    rows.tightest_distance[source], rows.tightest_bound[source] = distance[tightest], bounds[tightest]
    rows.worst_distance[source], rows.worst_bound[source] = distance[worst], bounds[worst]
    rows.worst_target[source] = worst


def _edges(graph: Graph, sources: Int[ndarray, " rows"]) -> tuple[Int[ndarray, " edges"], Int[ndarray, " edges"]]:
    """The relations of some sources: for each the position of its source, and its target."""
    degrees = graph.out_degrees[sources]
    places = np.repeat(np.arange(len(sources)), degrees)
    first = graph.row_starts[sources] - (np.cumsum(degrees) - degrees)
    return places, graph.targets[first[places] + np.arange(len(places))]


def _witness(layer: Layer, problem: Problem, source: int, target: int) -> Witness:
    graph = problem.graph
    context = [source] if source == target else [source, target]
    return Witness(
        source=source,
        target=target,
        labels=(graph.name(source), graph.name(target)),
        is_relation=bool(graph.adjacency(source, source + 1)[0, target]),
        score=float(layer.scores(problem.rows[context])[0, -1]),
    )
