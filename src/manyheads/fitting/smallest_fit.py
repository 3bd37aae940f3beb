"""Search: the smallest key budget that certifies in a given time, or the best split of a given one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain

import numpy as np

from manyheads.bounds import freedom_key_width
from manyheads.certificate import Certificate
from manyheads.fitting.descent import DescentResult, Engine, Weights
from manyheads.fitting.layer_fit import CHAIN, MappedProblem
from manyheads.fitting.options import FitOptions, ShapeTrial, Start, suitable_descent
from manyheads.fitting.possibility import least_key_budget, require_possible
from manyheads.fitting.starts import beheaded_start, narrowed_start, random_start, shrunk_start
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem

SECONDS = 60.0  # of a search without a time limit
SPLIT_TRIALS = 3  # of every split of a given key budget
FIRST_STEP = 0.2  # the part by which a budget that certifies is undercut at first
ROUND = 8  # splits trial before the step is halved
HOPELESS = 1.5  # wrong pairs for each relation: whoever is so far off does not start again from there
FEW = 1.2
WASTE = 0.12  # of a target budget that a split may leave unused


@dataclass(frozen=True, eq=False)
class FitSearchResult:
    """The best layer of a search with its certificate, or neither, and every try in the order they ended."""

    layer: Layer | None
    certificate: Certificate | None
    best: ShapeTrial | None
    trials: tuple[ShapeTrial, ...]
    seconds: float


class FitSearch:
    """Trials on one problem, as many at once as there are workers, until the time is up."""

    def __init__(self, problem: Problem, options: FitOptions) -> None:
        self.graph, self.d_model, self.options = problem.graph, problem.d_model, options
        self.inner = MappedProblem.of(problem, options)
        self.descent = options.descent or suitable_descent(problem.items, problem.d_model)
        self.workers = options.workers or os.cpu_count() or 1
        self.begun = time.monotonic()
        self.deadline = self.begun + (options.time_limit or SECONDS)
        self.trials: list[ShapeTrial] = []
        self.best: tuple[ShapeTrial, Layer, Certificate] | None = None
        self._spare: dict[tuple[int, int], Weights] = {}  # of shapes certified: a smaller one may begin with them

    def run(
        self, shapes: Iterator[tuple[int, int]], better: Callable[[ShapeTrial, ShapeTrial], bool]
    ) -> FitSearchResult:
        """ShapeTrial shape after shape; `shapes` sees in self.trials what result of those before."""
        running: set[Future[tuple[ShapeTrial, DescentResult, Layer | None, Certificate | None]]] = set()
        serial = 0
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while time.monotonic() < self.deadline:
                    while len(running) < self.workers and (shape := next(shapes, None)) is not None:
                        running.add(pool.submit(self._attempt, *shape, self.options.seed + serial))
                        serial += 1
                    if not running:
                        break
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._take(*future.result(), better)
            finally:
                self.deadline = 0.0  # whoever is still at work stops at its next look
        for future in running:
            self._take(*future.result(), better)
        best, layer, certificate = self.best or (None, None, None)
        return FitSearchResult(layer, certificate, best, tuple(self.trials), time.monotonic() - self.begun)

    def _take(
        self,
        trial: ShapeTrial,
        result: DescentResult,
        layer: Layer | None,
        certificate: Certificate | None,
        better: Callable[[ShapeTrial, ShapeTrial], bool],
    ) -> None:
        self.trials.append(trial)
        if trial.certified:
            self._spare[trial.heads, trial.key_width] = result.weights
        if layer is not None and certificate is not None and (self.best is None or better(trial, self.best[0])):
            self.best = trial, layer, certificate
        if self.options.report is not None:
            self.options.report(trial)

    def _attempt(
        self, heads: int, key_width: int, seed: int
    ) -> tuple[ShapeTrial, DescentResult, Layer | None, Certificate | None]:
        """A chain of attempts at one shape: from a start, and then from what is left of each failure."""
        start, weights = self._start(heads, key_width, seed)
        for _ in range(CHAIN):
            result = Engine(
                self.graph, self.inner.rows, heads=heads, key_width=key_width, descent=self.descent,
                ratio=self.inner.ratio(heads), progress=self.options.progress, begun=self.begun, deadline=self.deadline,
            ).run(weights)  # fmt: skip
            if result.separated or self._hopeless(result) or time.monotonic() >= self.deadline:
                break
            weights = shrunk_start(result.weights)
        layer, certificate = self.inner.judge(result) if result.separated else (None, None)
        certified = certificate is not None and certificate.holds
        margin = certificate.normalised_margin if certificate is not None else math.nan
        seconds = time.monotonic() - self.begun
        trial = ShapeTrial(heads, key_width, seed, start, certified, result.wrong, margin, result.steps, seconds)
        return (trial, result, layer, certificate) if certified else (trial, result, None, None)

    def _start(self, heads: int, key_width: int, seed: int) -> tuple[Start, Weights]:
        """A certified shape cut down to this one, if there is one that was not used yet; else a random start."""
        wider = min(
            (width for h, width in list(self._spare) if h == heads and key_width < width <= 1.5 * key_width), default=0
        )
        if (weights := self._spare.pop((heads, wider), None)) is not None:
            return "narrowed", narrowed_start(weights, key_width=key_width)
        if (weights := self._spare.pop((heads + 1, key_width), None)) is not None:
            return "fewer heads", beheaded_start(weights)
        return "random", random_start(self.d_model, heads=heads, key_width=key_width, seed=seed)

    def cuts(self, target: int, only_heads: int | None) -> list[tuple[int, int]]:
        """Shapes within the target that a certified one, whose weights nobody has used yet, can be cut down to."""
        spare = sorted(self._spare)
        narrower = [(heads, min(width - 1, max(target // heads, math.ceil(width / 1.5)))) for heads, width in spare]
        fewer = [(heads - 1, width) for heads, width in spare]
        best = self.best[0].key_budget if self.best else 0
        return [
            (heads, width)
            for heads, width in chain(narrower, fewer)
            if heads and width and heads * width < best and only_heads in (None, heads)
        ]

    def splits(self, budget: int) -> list[tuple[int, int]]:
        """The shapes of a budget that are possible at all."""
        return [shape for shape in splits(budget, self.d_model) if shape[0] <= self.inner.most_heads]

    def _hopeless(self, result: DescentResult) -> bool:
        return result.wrong > HOPELESS * max(1, self.graph.relations)


def smallest_fit(
    problem: Problem, *, options: FitOptions, max_budget: int | None = None, heads: int | None = None
) -> FitSearchResult:
    """Search for the smallest key budget that certifies within the time limit.

    The first budget is the one that the degrees of freedom predict. A budget that certifies is undercut by a fifth,
    then by less, in the end by one. Each time several splits into heads near the best so far are tried.

    Args:
        problem: The graph to hold and the rows of its items.
        options: The seed, and what has a default.
        max_budget: The largest key budget to try; by default one for each relation, or the predicted budget where that
            is larger.
        heads: Only layers with this number of heads.

    Returns:
        The layer with the smallest key budget that certified, or none, and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_possible(problem, key_budget=max_budget)
    search = FitSearch(problem, options)
    return search.run(
        _downwards(search, max_budget=max_budget, only_heads=heads),
        lambda one, other: one.key_budget < other.key_budget,
    )


def best_split(problem: Problem, *, key_budget: int, options: FitOptions) -> FitSearchResult:
    """Split a key budget into heads in every way that nearly uses it up; the widest normalised margin wins.

    Args:
        problem: The graph to hold and the rows of its items.
        key_budget: D_K, the sum of the heads' widths.
        options: The seed, and what has a default.

    Returns:
        The layer with the widest normalised margin, or none that certified, and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_possible(problem, key_budget=key_budget)
    search = FitSearch(problem, options)
    return search.run(
        iter(search.splits(key_budget) * SPLIT_TRIALS),
        lambda one, other: one.normalised_margin > other.normalised_margin,
    )


def splits(budget: int, d_model: int) -> list[tuple[int, int]]:
    """All (heads, key_width) that leave less than WASTE of the budget, none wider than d_model."""
    shapes = [(heads, min(budget // heads, d_model)) for heads in range(1, budget + 1)]
    return [(heads, width) for heads, width in shapes if heads * width > budget * (1 - WASTE)]


def _downwards(search: FitSearch, *, max_budget: int | None, only_heads: int | None) -> Iterator[tuple[int, int]]:
    """Shapes to try next, in the light of what search.trials says by then."""
    rng = np.random.default_rng(search.options.seed)
    least = least_key_budget(search.graph, search.d_model)
    target, centre = predicted_shape(search.graph, search.d_model)
    if only_heads is not None:
        target, centre = predicted_shape(search.graph, search.d_model, heads=only_heads)
    # a head of width 1 for each relation always works on distinct rows of length one: there is no use in more
    most = max(target, search.graph.relations) if max_budget is None else max_budget
    target = max(least, min(target, most))
    step = growth = FIRST_STEP
    while True:
        shapes = search.splits(target) if only_heads is None else _with_heads(only_heads, target, search.d_model)
        if not shapes:
            return
        for shape in [*search.cuts(target, only_heads), *_likeliest(shapes, search.trials, centre, rng)]:
            if search.best is not None and search.best[0].key_budget <= target:
                break
            yield shape
        best = search.best and search.best[0]
        if best is not None and best.key_budget <= target:  # undercut it, as boldly as before
            centre = best.heads
            target = best.key_budget - max(1, round(step * best.key_budget))
        elif best is None:  # nothing has worked yet: more room, and more each time
            grown = target + max(1, round(growth * target))
            target, growth = min(grown, most), min(2 * growth, 1.0)
        else:  # nothing below the best: undercut it by less
            step /= 2
            target = best.key_budget - max(1, round(step * best.key_budget))
        if target < least:
            return


def predicted_shape(graph: Graph, d_model: int, *, heads: int | None = None) -> tuple[int, int]:
    """The key budget and the head count that the degrees of freedom predict (bounds.freedom_key_width).

    The prediction is flat in the head count, and fits with few heads turn out better than it says: so the fewest heads
    whose budget is within a factor FEW of the smallest.
    """
    relations = max(1, graph.relations)
    if heads is not None:
        width = freedom_key_width(
            items=graph.items, relations=min(relations, graph.items**2 - 1), d_model=d_model, heads=heads
        )
        return heads * (width or d_model), heads
    shapes = []
    for heads in range(1, 4 * relations):
        width = freedom_key_width(
            items=graph.items, relations=min(relations, graph.items**2 - 1), d_model=d_model, heads=heads
        )
        if width is not None:
            shapes.append((heads * width, heads))
            if heads > 4 * min(shapes)[1]:
                break
    if not shapes:
        return relations, relations
    return min(
        shape for shape in shapes if shape[1] == min(h for budget, h in shapes if budget <= FEW * min(shapes)[0])
    )


def _with_heads(heads: int, budget: int, d_model: int) -> list[tuple[int, int]]:
    """The one shape with so many heads within the budget, if there is one."""
    return [(heads, min(budget // heads, d_model))] if budget >= heads else []


def _likeliest(
    shapes: list[tuple[int, int]], trials: list[ShapeTrial], centre: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """A round of shapes: those near the best head count, and those whose last failure was nearest to success, first."""

    def promise(shape: tuple[int, int]) -> float:
        heads = shape[0]
        near = [trial.wrong for trial in trials[-4 * ROUND :] if trial.heads == heads and not trial.certified]
        distance = abs(math.log(heads / centre))
        return distance + 0.3 * math.log1p(min(near, default=0)) / 3 + float(rng.exponential(0.3))

    return sorted(shapes, key=promise)[:ROUND]
