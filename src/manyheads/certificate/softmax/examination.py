"""Rule softmax: a pair's score depends on its context, so the contexts of given lengths are searched for the worst."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manyheads.certificate.evidence import Evidence, Witness
from manyheads.certificate.projection import Projection, row_blocks
from manyheads.certificate.softmax.crowding import crowded_out
from manyheads.certificate.softmax.frontier import Frontier
from manyheads.certificate.softmax.share_bounds import score_bounds, softmax_rounding
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

EFFORT = 1 << 27  # numbers in the problems of all the pairs of one kind that are examined one by one
NODES = 4096  # branches for the pairs that even then stay open


def examine_contexts(
    layer: Layer,
    problem: Problem,
    projection: Projection,
    lengths: tuple[int, int],
    progress: Callable[[int, int], None],
) -> Evidence:
    """Bound every pair's score over all contexts with lengths in a range, then examine what the bounds leave open.

    A longer context only takes attention away: adding an item lowers every share. So the smallest score of a relation
    stands in a context of the greatest length, the largest score of any other pair in one of the least.
    """
    graph = problem.graph
    tau, rounding = layer.threshold, softmax_rounding(projection, lengths[1])
    keep = max(1, EFFORT // (projection.heads * projection.items))
    missing = Frontier(relations=True, length=lengths[1], keep=keep)
    spurious = Frontier(relations=False, length=lengths[0], keep=keep)
    sides = (missing, spurious)
    unproved = _bound_all_pairs(graph, projection, missing, spurious, tau, rounding, progress)
    for suspect, relation in crowded_out(layer, problem, lengths):
        (missing if relation else spurious).accuse(suspect)
    beyond_reach = unproved - sum(int(side.doubtful(tau, rounding).sum()) for side in sides)

    def refuted() -> bool:
        return any(side.wrong(tau, rounding).any() for side in sides)

    def unresolved(side: Frontier) -> bool:
        if side.examined == len(side.bounds):
            return False
        # no threshold is proved to work, and not every threshold is known to fail
        window_open = spurious.proved >= missing.proved and spurious.attained < missing.attained
        # once refuted, look at the other pairs only where that yields a full count of them
        verdict_open = side.doubtful(tau, rounding)[side.examined :].any() and not (refuted() and beyond_reach)
        return bool(window_open or verdict_open)

    while todo := [side for side in sides if unresolved(side)]:
        for side in todo:
            side.examine(projection)
        done = min(side.examined / len(side.bounds) for side in todo)
        progress(graph.items + int(done * graph.items), 2 * graph.items)

    nodes = 0 if beyond_reach else NODES
    for side in sides:
        limit = tau - side.sign * rounding
        for pair in np.flatnonzero(side.doubtful(tau, rounding) & (side.found < side.sign * limit)):
            if nodes <= 0 or refuted():
                break
            nodes -= side.decide(projection, int(pair), limit, nodes)
    progress(2 * graph.items, 2 * graph.items)

    wrong = [side.wrong(tau, rounding) for side in sides]
    witnesses = [_witness(layer, problem, side) for side, bad in zip(sides, wrong, strict=True) if bad.any()]
    convicted = [witness for witness in witnesses if (witness.score > tau) != witness.is_relation]
    open_pairs = [side.doubtful(tau, rounding) & ~bad for side, bad in zip(sides, wrong, strict=True)]
    return Evidence(
        low=spurious.proved,
        high=missing.proved,
        rounding=rounding,
        missed=int(wrong[0].sum()),
        false_pairs=int(wrong[1].sum()),
        open_pairs=beyond_reach + sum(int(pairs.sum()) for pairs in open_pairs),
        witness=max(convicted, key=lambda witness: abs(witness.score - tau), default=None),
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
    """Offer every pair with its sound bound to its side; how many pairs the bounds alone do not prove."""
    items, unproved = np.arange(graph.items), 0
    for start, stop in row_blocks(graph.items, graph.items * projection.heads):
        rows = items[start:stop]
        logits = projection.logits(rows)
        first, last = graph.row_starts[start], graph.row_starts[stop]
        sources, targets = graph.sources[first:last], graph.targets[first:last]
        lower = score_bounds(logits, rows, missing.length - 2, largest=True)[sources - start, targets]
        upper = score_bounds(logits, rows, spurious.length - 2, largest=False)
        absent = np.ones(upper.shape, dtype=bool)
        absent[sources - start, targets] = False
        missing.offer(lower, sources, targets)
        rivals = np.nonzero(absent)
        spurious.offer(upper[rivals], rivals[0] + start, rivals[1])
        unproved += int((lower - rounding <= tau).sum() + (upper[rivals] + rounding >= tau).sum())
        progress(stop, 2 * graph.items)
    return unproved


def _witness(layer: Layer, problem: Problem, side: Frontier) -> Witness:
    """The worst pair of the side in its context, with the score that the layer itself gives it there."""
    graph, suspect = problem.graph, side.suspect
    assert suspect is not None, "a pair that is wrong was found in a context"
    pair = (suspect.source,) if suspect.source == suspect.target else (suspect.source, suspect.target)
    context = (*pair, *suspect.others)
    return Witness(
        source=suspect.source,
        target=suspect.target,
        labels=(graph.name(suspect.source), graph.name(suspect.target)),
        is_relation=side.relations,
        score=float(layer.scores(problem.rows[list(context)])[0, len(pair) - 1]),
        context=context,
        context_labels=tuple(graph.name(item) for item in context),
    )
