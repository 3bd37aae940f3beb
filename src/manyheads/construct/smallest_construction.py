"""Smallest: how large is "sufficiently large"? The least key budget at which a construction reliably certifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.certificate import Certificate, certify
from manyheads.certificate.calibration import middle
from manyheads.construct.assembly import assemble, de_embed
from manyheads.construct.score_window import Tile, Window, window
from manyheads.construct.signatures import RADEMACHER
from manyheads.construct.split import Block, pack, split_sources
from manyheads.construct.width_limit import Limit, Threshold, limit
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

DRAWS = 20
NEEDED = 19  # a width counts if so many of the draws certify
FIRST_WIDTH = 16  # where the widths begin to double, while no budget is known to beat
ROWS = 64


@dataclass(frozen=True)
class Attempt:
    """A key width tried at a block size: how many draws of the signatures separated, of those that were looked at."""

    heads: int
    block_size: int
    key_width: int
    separated: int
    draws: int  # fewer than DRAWS where too many had failed already

    @property
    def passes(self) -> bool:
        """Whether the width counts."""
        return self.separated >= NEEDED

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width


@dataclass(frozen=True, eq=False)
class Smallest:
    """The least key budget found, and everything that was tried on the way."""

    threshold: Threshold
    max_budget: int
    limits: tuple[Limit, ...]  # of each block size visited: where it does not separate, no width works
    attempts: tuple[Attempt, ...]
    best: Attempt | None  # None: no width works at any block size, or none within max_budget
    certified: int  # of the DRAWS layers of the best width, those that certify
    layer: Layer | None  # the first of these
    certificate: Certificate | None


def smallest(
    problem: Problem,
    *,
    threshold: Threshold,
    seed: int,
    block_sizes: Sequence[int] | None = None,
    max_budget: int | None = None,
    progress: Callable[[Limit | Attempt], None] | None = None,
) -> Smallest:
    """Minimise D_K of construction II (of IV, where the graph is no permutation) over block size and key width.

    `threshold` is the paper's d_k/2 or, "best", any that the window of a draw allows. At each block size the limit
    d_k → ∞ comes first; where it does not separate, no width works and none is tried. Then the width is bisected: it
    counts if NEEDED of DRAWS draws (the seeds seed, seed + 1, …) separate, and the draws of the best are certified.
    The width found passes where the one below fails; by luck of the draws, one still smaller may pass again.

    Budgets above max_budget, by default one for each relation, are not looked at: one head of width 1 for each relation
    costs no more, and does all that any width can.
    """
    graph = problem.graph
    report = progress or (lambda _: None)
    sizes = default_block_sizes(graph, problem.d_model) if block_sizes is None else block_sizes
    budget = max(1, graph.relations) if max_budget is None else max_budget
    limits: list[Limit] = []
    attempts: list[Attempt] = []
    best: Attempt | None = None

    for size in sizes:
        blocks = blocks_of(graph, size=size)
        widest = (budget if best is None else best.key_budget - 1) // len(blocks)
        if widest < 1:
            continue  # more heads than budget: nothing to gain here
        limits.append(limit(problem, blocks))
        report(limits[-1])
        if not limits[-1].separates(threshold):
            continue
        attempt_width = partial(_attempt, problem, blocks, threshold, seed)
        for attempt in _bisect(attempt_width, widest, known=best is not None):
            attempts.append(attempt)
            report(attempt)
            if attempt.passes:
                best = attempt

    layers = [] if best is None else _certified(problem, best, threshold, seed)
    layer, certificate = layers[0] if layers else (None, None)
    return Smallest(threshold, budget, tuple(limits), tuple(attempts), best, len(layers), layer, certificate)


def default_block_sizes(graph: Graph, d_model: int) -> list[int]:
    """The sizes that make 1, 2, 3, 4, 6, 8, 12, … heads, those nearest to d_model first, and 1 at the end.

    Two to seven relations a head are left out: words short enough to be worth it there are too few to differ.
    """
    heads = sorted({step * 2**power for step in (2, 3) for power in range(32)} | {1})
    sizes = {-(-graph.relations // count) for count in heads if graph.max_degree <= count}
    return [*sorted((size for size in sizes if size >= 8), key=lambda size: abs(np.log(size / d_model))), 1]


def blocks_of(graph: Graph, *, size: int) -> list[Block]:
    """The blocks of construction II for a permutation, those of IV for any other graph."""
    return split_sources(graph, size=size) if graph.is_permutation else pack(graph, size=size)


def _bisect(attempt: Callable[[int], Attempt], widest: int, *, known: bool) -> Iterator[Attempt]:
    """Attempts that close in on the smallest width that passes; the last one that passes is it."""
    # where a budget is known that works, see first whether it can be beaten at all; else double until one works
    low, high = 0, widest if known else min(FIRST_WIDTH, widest)
    while True:
        outcome = attempt(high)
        yield outcome
        if outcome.passes:
            break
        if high == widest:
            return
        low, high = high, min(2 * high, widest)
    while high - low > 1:
        middle = (low + high) // 2
        outcome = attempt(middle)
        yield outcome
        low, high = (low, middle) if outcome.passes else (middle, high)


def _attempt(
    problem: Problem,
    blocks: list[Block],
    threshold: Threshold,
    seed: int,
    key_width: int,
) -> Attempt:
    """Draw the signatures again and again, until enough draws separate or too many do not."""
    draws = separated = 0
    while draws < DRAWS and draws - separated <= DRAWS - NEEDED:
        layer = draw_layer(problem.rows, blocks, key_width, seed + draws)
        separated += separates(problem, layer, threshold)
        draws += 1
    return Attempt(len(blocks), max(len(sources) for sources, _ in blocks), key_width, separated, draws)


def draw_layer(embedding: Float[ndarray, "items d_model"], blocks: list[Block], key_width: int, seed: int) -> Layer:
    """The construction on these blocks, with one draw of the signatures."""
    words = RADEMACHER.draw(len(embedding), key_width, seed=seed)
    return assemble([de_embed(embedding, block, words) for block in blocks], threshold=RADEMACHER.threshold(key_width))


def separates(problem: Problem, layer: Layer, threshold: Threshold) -> bool:
    """Whether the layer's threshold, or any, separates all pairs; looks no further than the first no."""

    def still(so_far: Window) -> bool:
        return so_far.is_open if threshold == "best" else so_far.holds(layer.threshold)

    return still(window(problem.graph, _tiles(layer, problem.rows), until=lambda so_far: not still(so_far)))


def _tiles(layer: Layer, embedding: Float[ndarray, "items d_model"]) -> Iterator[Tile]:
    x = embedding.astype(np.float64)
    queries, keys = x @ layer.query.astype(np.float64), (x @ layer.key.astype(np.float64)).swapaxes(1, 2)
    for row in range(0, len(x), ROWS):
        joined = queries[0, row : row + ROWS] @ keys[0]
        score = np.empty_like(joined)
        for head in range(1, layer.heads):
            np.matmul(queries[head, row : row + ROWS], keys[head], out=score)
            np.maximum(joined, score, out=joined)
        yield row, 0, joined


def _certified(problem: Problem, best: Attempt, threshold: Threshold, seed: int) -> list[tuple[Layer, Certificate]]:
    """The draws of the best width that certify."""
    blocks = blocks_of(problem.graph, size=best.block_size)
    layers = []
    for draw in range(DRAWS):
        layer = draw_layer(problem.rows, blocks, best.key_width, seed + draw)
        if threshold == "best":
            found = window(problem.graph, _tiles(layer, problem.rows))
            layer = replace(layer, threshold=middle(found.low, found.high))
        certificate = certify(layer, problem)
        if certificate.holds:
            layers.append((layer, certificate))
    return layers
