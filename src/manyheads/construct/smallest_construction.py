"""How large is "sufficiently large"? The least key budget at which a construction reliably certifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.certificate import Certificate, certify, described
from manyheads.certificate.certificate import middle
from manyheads.construct.heads import RADEMACHER, assemble, de_embed
from manyheads.construct.matchings import pack, split_sources
from manyheads.construct.width_limit import ScoreWindow, Threshold, Tile, WidthLimit, limit, window
from manyheads.layer.layer import Layer
from manyheads.numbers import check_numbers
from manyheads.problem.graph import Graph, Matching
from manyheads.problem.problem import Problem

DRAWS = 20  # draws of the signatures at one width
NEEDED = 19  # a width passes if this number of draws separate
FIRST_WIDTH = 16  # widths are doubled from this width on until a budget works
ROWS = 64  # sources in one tile of scores


@dataclass(frozen=True)
class WidthTrial:
    """The number of draws of the signatures that separated, at one key width and matching size.

    Attributes:
        heads: h.
        matching_size: The number of relations that a head holds at most.
        key_width: d_k.
        separated: The number of draws that separated.
        draws: The number of draws; fewer than DRAWS if the result was certain earlier.
    """

    heads: int
    matching_size: int
    key_width: int
    separated: int
    draws: int

    @property
    def passes(self) -> bool:
        """Whether enough draws separated."""
        return self.separated >= NEEDED

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width


@dataclass(frozen=True, eq=False)
class SmallestConstruction:
    """The smallest key budget that was found, with every limit and every trial of the search.

    Attributes:
        threshold: "paper" for the paper's threshold, "best" for the best one.
        max_budget: The largest key budget of the search.
        limits: The limit of each matching size. If a limit does not separate, no key width works at this matching size.
        trials: Every trial, in order.
        best: The trial with the smallest key budget; None: no key width works within max_budget at any matching size.
        certified: Among DRAWS layers of the best key width, the number that certify.
        layer: The first of the certified layers, or None.
        certificate: The certificate of that layer.
    """

    threshold: Threshold
    max_budget: int
    limits: tuple[WidthLimit, ...]
    trials: tuple[WidthTrial, ...]
    best: WidthTrial | None
    certified: int
    layer: Layer | None
    certificate: Certificate | None


def smallest(
    problem: Problem,
    *,
    threshold: Threshold,
    seed: int,
    matching_sizes: Sequence[int] | None = None,
    max_budget: int | None = None,
    progress: Callable[[WidthLimit | WidthTrial], None] | None = None,
) -> SmallestConstruction:
    """Minimise D_K of construction II, or of IV where the graph is no permutation, over matching size and key width.

    At each matching size the limit d_k → ∞ is examined first. Where it does not separate, no width works and none is
    tried. Otherwise the width is bisected: it passes if NEEDED of DRAWS draws separate. The draws of the best width are
    certified at the end. The width found passes and the next smaller width fails. A smaller one may pass by chance.

    Args:
        problem: Any graph, and rows of about length one.
        threshold: "paper" for d_k/2, or "best" for any threshold in the window of a draw.
        seed: The draws have the seeds seed, seed + 1, …
        matching_sizes: The sizes to try, in this order; by default `default_matching_sizes`.
        max_budget: The largest key budget to try, by default one for each relation: one head of width 1 for each
            relation costs no more, and separates wherever any width does.
        progress: Called with every limit and every trial.

    Returns:
        The best width, with a layer that certifies where there is one.

    Raises:
        InputError: A number is out of its range, or the items need more memory than there is.
    """
    check_numbers(max_key_budget=max_budget)
    graph = problem.graph
    report = progress or (lambda _: None)
    sizes = default_matching_sizes(graph, problem.d_model) if matching_sizes is None else matching_sizes
    budget = max(1, graph.relations) if max_budget is None else max_budget
    limits: list[WidthLimit] = []
    trials: list[WidthTrial] = []
    best: WidthTrial | None = None

    for size in sizes:
        matchings = matchings_of(graph, size=size)
        widest = (budget if best is None else best.key_budget - 1) // len(matchings)
        if widest < 1:
            continue  # the budget has less than one key dimension for each head
        limits.append(limit(problem, matchings))
        report(limits[-1])
        if not limits[-1].separates(threshold):
            continue
        try_width = partial(_try, problem, matchings, threshold, seed)
        for trial in _bisect(try_width, widest, known=best is not None):
            trials.append(trial)
            report(trial)
            if trial.passes:
                best = trial

    layers = [] if best is None else _certified(problem, best, threshold, seed)
    layer, certificate = layers[0] if layers else (None, None)
    return SmallestConstruction(threshold, budget, tuple(limits), tuple(trials), best, len(layers), layer, certificate)


def default_matching_sizes(graph: Graph, d_model: int) -> list[int]:
    """The sizes that make 1, 2, 3, 4, 6, 8, 12, … heads, those nearest to d_model first, and 1 at the end.

    Sizes from two to seven are left out. They would need signatures so short that too few different ones exist.
    """
    heads = sorted({step * 2**power for step in (2, 3) for power in range(32)} | {1})
    sizes = {-(-graph.relations // count) for count in heads if graph.max_degree <= count}
    return [*sorted((size for size in sizes if size >= 8), key=lambda size: abs(np.log(size / d_model))), 1]


def matchings_of(graph: Graph, *, size: int) -> list[Matching]:
    """The matchings of construction II for a permutation, those of IV for any other graph."""
    return split_sources(graph, size=size) if graph.is_permutation else pack(graph, size=size)


def _bisect(try_width: Callable[[int], WidthTrial], widest: int, *, known: bool) -> Iterator[WidthTrial]:
    """Trials that bisect the smallest width that passes; it is the last trial that passes."""
    # where a working budget is known, the widest width below it decides whether to go on; else widths double
    low, high = 0, widest if known else min(FIRST_WIDTH, widest)
    while True:
        outcome = try_width(high)
        yield outcome
        if outcome.passes:
            break
        if high == widest:
            return
        low, high = high, min(2 * high, widest)
    while high - low > 1:
        middle = (low + high) // 2
        outcome = try_width(middle)
        yield outcome
        low, high = (low, middle) if outcome.passes else (middle, high)


def _try(
    problem: Problem,
    matchings: list[Matching],
    threshold: Threshold,
    seed: int,
    key_width: int,
) -> WidthTrial:
    """Draw the signatures until the result of all DRAWS draws is certain."""
    draws = separated = 0
    while draws < DRAWS and draws - separated <= DRAWS - NEEDED:
        layer = draw_layer(problem.rows, matchings, key_width, seed + draws)
        separated += separates(layer, problem, threshold)
        draws += 1
    return WidthTrial(len(matchings), max(len(sources) for sources, _ in matchings), key_width, separated, draws)


def draw_layer(
    embedding: Float[ndarray, "items d_model"], matchings: list[Matching], key_width: int, seed: int
) -> Layer:
    """The construction on these matchings, with the signatures of one seed."""
    words = RADEMACHER.draw(len(embedding), key_width, seed=seed)
    return assemble(
        [de_embed(embedding, matching, words) for matching in matchings], threshold=RADEMACHER.threshold(key_width)
    )


def separates(layer: Layer, problem: Problem, threshold: Threshold) -> bool:
    """Whether the layer's threshold ("paper") or any threshold ("best") separates all pairs."""

    def still(so_far: ScoreWindow) -> bool:
        return so_far.is_open if threshold == "best" else so_far.holds(layer.threshold)

    return still(window(problem.graph, _tiles(layer, problem.rows), until=lambda so_far: not still(so_far)))


def _tiles(layer: Layer, embedding: Float[ndarray, "items d_model"]) -> Iterator[Tile]:
    x = embedding.astype(np.float64)
    queries, keys = x @ layer.query.astype(np.float64), (x @ layer.head_keys.astype(np.float64)).swapaxes(1, 2)
    for row in range(0, len(x), ROWS):
        joined = queries[0, row : row + ROWS] @ keys[0]
        score = np.empty_like(joined)
        for head in range(1, layer.heads):
            np.matmul(queries[head, row : row + ROWS], keys[head], out=score)
            layer.rule.add_head(joined, score)
        yield row, 0, joined


def _certified(problem: Problem, best: WidthTrial, threshold: Threshold, seed: int) -> list[tuple[Layer, Certificate]]:
    """The draws of the best width that certify."""
    matchings = matchings_of(problem.graph, size=best.matching_size)
    layers = []
    for draw in range(DRAWS):
        layer = draw_layer(problem.rows, matchings, best.key_width, seed + draw)
        if threshold == "best":
            found = window(problem.graph, _tiles(layer, problem.rows))
            layer = replace(layer, threshold=middle(found.low, found.high))
        certificate = certify(layer, problem)
        if certificate.holds:
            origin: dict[str, str | int] = {"construction": "smallest", "threshold": threshold, "seed": seed + draw}
            layers.append((described(layer, problem, certificate, origin), certificate))
    return layers
