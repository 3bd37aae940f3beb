"""The certificate of the rule softmax: every pair's worst score over all contexts of given lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from manyheads.certificate.certificate import Evidence, Witness
from manyheads.certificate.core_map import core_map
from manyheads.certificate.projection import Projection, row_blocks
from manyheads.certificate.softmax.frontier import Frontier, ScoredPair
from manyheads.certificate.softmax.pair_bounds import score_bounds, softmax_rounding
from manyheads.layer.layer import Layer
from manyheads.machine import cores
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

EFFORT = 1 << 27  # numbers in the arrays of all pairs of one kind that are examined one by one
NODES = 4096  # branches for the pairs that the bounds do not decide


def examine_contexts(
    layer: Layer,
    problem: Problem,
    projection: Projection,
    lengths: tuple[int, int],
    progress: Callable[[int, int], None],
) -> Evidence:
    """Bound every pair's score over all contexts with lengths in a range, then examine the undecided pairs.

    Adding an item to a context lowers every share. So a relation has its smallest score in a context of the greatest
    length, and another pair its largest score in a context of the least length.
    """
    graph = problem.graph
    tau, rounding = layer.threshold, softmax_rounding(projection, lengths[1])
    keep = max(1, EFFORT // (projection.heads * projection.items))
    missing = Frontier(relations=True, length=lengths[1], keep=keep)
    spurious = Frontier(relations=False, length=lengths[0], keep=keep)
    sides = (missing, spurious)
    unproved = _bound_all_pairs(graph, projection, missing, spurious, tau, rounding, progress)
    for known, relation in counted_failures(layer, problem, lengths):
        (missing if relation else spurious).add(known)
    unlisted = unproved - sum(int(side.doubtful(tau, rounding).sum()) for side in sides)

    def refuted() -> bool:
        return any(side.wrong(tau, rounding).any() for side in sides)

    def unresolved(side: Frontier) -> bool:
        if side.examined == len(side.bounds):
            return False
        # no threshold is proved to work, and not every threshold is known to fail
        window_open = spurious.proved >= missing.proved and spurious.attained < missing.attained
        # once refuted, examine the other pairs only where that gives the full count of wrong pairs
        verdict_open = side.doubtful(tau, rounding)[side.examined :].any() and not (refuted() and unlisted)
        return bool(window_open or verdict_open)

    while todo := [side for side in sides if unresolved(side)]:
        _measure_ahead(todo, projection)
        for side in todo:
            side.examine()
        done = min(side.examined / len(side.bounds) for side in todo)
        progress(graph.items + int(done * graph.items), 2 * graph.items)

    nodes = 0 if unlisted else NODES
    for side in sides:
        limit = tau - side.sign * rounding
        for pair in np.flatnonzero(side.doubtful(tau, rounding) & (side.found < side.sign * limit)):
            if nodes <= 0 or refuted():
                break
            nodes -= side.decide(projection, int(pair), limit, nodes)
    progress(2 * graph.items, 2 * graph.items)

    wrong = [side.wrong(tau, rounding) for side in sides]
    witnesses = [_witness(layer, problem, side) for side, bad in zip(sides, wrong, strict=True) if bad.any()]
    confirmed = [witness for witness in witnesses if (witness.score > tau) != witness.is_relation]
    distance = min(missing.proved - tau, tau - spurious.proved) - rounding
    open_pairs = [side.doubtful(tau, rounding) & ~bad for side, bad in zip(sides, wrong, strict=True)]
    return Evidence(
        low=spurious.proved,
        high=missing.proved,
        rounding=rounding,
        missed=int(wrong[0].sum()),
        false_pairs=int(wrong[1].sum()),
        open_pairs=unlisted + sum(int(pairs.sum()) for pairs in open_pairs),
        witness=max(confirmed, key=lambda witness: abs(witness.score - tau), default=None),
        distances=np.full(graph.items, distance),
    )


def _bound_all_pairs(
    graph: Graph,
    projection: Projection,
    missing: Frontier,
    spurious: Frontier,
    tau: float,
    rounding: float,
    progress: Callable[[int, int], None],
) -> int:
    """Offer every pair with its bound to its side; returns the number of pairs that these bounds do not prove."""
    unproved = 0

    def bound(block: tuple[int, int]) -> tuple[ndarray, ...]:
        start, stop = block
        rows = np.arange(start, stop)
        logits = projection.logits(rows)
        first, last = graph.row_starts[start], graph.row_starts[stop]
        sources, targets = graph.sources[first:last], graph.targets[first:last]
        lower = score_bounds(logits, rows, missing.length - 2, largest=True)[sources - start, targets]
        upper = score_bounds(logits, rows, spurious.length - 2, largest=False)
        absent = np.ones(upper.shape, dtype=bool)
        absent[sources - start, targets] = False
        rivals = np.nonzero(absent)
        return lower, sources, targets, upper[rivals], rivals[0] + start, rivals[1]

    blocks = list(row_blocks(graph.items, graph.items * projection.heads))
    for (_, stop), bounds in zip(blocks, core_map(bound, blocks), strict=True):
        lower, upper = bounds[0], bounds[3]
        missing.offer(*bounds[:3])
        spurious.offer(*bounds[3:])
        unproved += int((lower - rounding <= tau).sum() + (upper + rounding >= tau).sum())
        progress(stop, 2 * graph.items)
    return unproved


def _measure_ahead(sides: list[Frontier], projection: Projection) -> None:
    """Measure the next batch of pairs of each side on all cores; from the second time on, as many batches as cores."""
    ahead = max(1, cores() // len(sides))
    parts = [(side, batch) for side in sides for batch in side.next_batches(projection, ahead)]
    measures = core_map(lambda part: part[0].measure(projection, part[1]), parts)
    for (side, batch), measure in zip(parts, measures, strict=True):
        side.measured.append((batch, measure))


def counted_failures(layer: Layer, problem: Problem, lengths: tuple[int, int]) -> Iterator[tuple[ScoredPair, bool]]:
    """Pairs that are wrong in some context with any weights, and whether each is a relation.

    A source's scores in a context add up to h. Take a context of ℓ items that are no targets of the source, itself
    included: one of them scores h/ℓ or more, so a threshold below h/ℓ fails. Take r targets in one context: one of them
    scores h/r or less, so a threshold of h/r or more fails.
    """
    graph, (shortest, longest) = problem.graph, lengths
    items = np.arange(graph.items)
    loops = np.isin(items, graph.sources[graph.sources == graph.targets])
    eligible = np.flatnonzero(~loops & (graph.items - graph.out_degrees >= shortest))
    if eligible.size and layer.threshold < layer.heads / shortest:
        source = int(eligible[0])
        others = ~graph.adjacency(source, source + 1)[0] & (items != source)
        context = np.array([source, *items[others][: shortest - 1]])
        scores = layer.scores(problem.rows[context])[0]
        yield _scored_pair(context, scores, int(scores.argmax())), False

    room = np.minimum(graph.out_degrees, np.where(loops, longest, longest - 1))
    if room.any() and layer.threshold >= layer.heads / room.max():
        source = int(room.argmax())
        targets = graph.adjacency(source, source + 1)[0]
        by_kind = np.concatenate([items[targets & (items != source)], items[~targets & (items != source)]])
        context = np.array([source, *by_kind])[:longest]
        scores = layer.scores(problem.rows[context])[0]
        yield _scored_pair(context, scores, int(np.where(targets[context], scores, np.inf).argmin())), True


def _scored_pair(context: Int[ndarray, " length"], scores: Float64[ndarray, " length"], worst: int) -> ScoredPair:
    source, target = int(context[0]), int(context[worst])
    others = tuple(item for item in context.tolist() if item not in (source, target))
    return ScoredPair(source, target, float(scores[worst]), others)


def _witness(layer: Layer, problem: Problem, side: Frontier) -> Witness:
    """The worst pair of a side in its context, with the layer's own score there."""
    graph, worst = problem.graph, side.worst
    assert worst is not None, "a pair that is wrong was found in a context"
    pair = (worst.source,) if worst.source == worst.target else (worst.source, worst.target)
    context = (*pair, *worst.others)
    return Witness(
        source=worst.source,
        target=worst.target,
        labels=(graph.name(worst.source), graph.name(worst.target)),
        is_relation=side.relations,
        score=float(layer.scores(problem.rows[list(context)])[0, len(pair) - 1]),
        context=context,
        context_labels=tuple(graph.name(item) for item in context),
    )
