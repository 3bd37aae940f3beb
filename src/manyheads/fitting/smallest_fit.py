"""Search: the smallest key budget that certifies in a given time, or the best split of a given one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from manyheads.bounds import freedom_key_width
from manyheads.certificate import Certificate
from manyheads.errors import InputError
from manyheads.fitting.descent import Attempt, Descent, Engine, Weights, suitable_descent
from manyheads.fitting.folding import Map
from manyheads.fitting.layer_fit import CHAIN, FitRule, Problem
from manyheads.fitting.possibility import least_key_budget, require_possible
from manyheads.fitting.progress import Watch
from manyheads.fitting.starts import beheaded_start, narrowed_start, random_start, shrunk_start
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph

FIRST_STEP = 0.2  # the part by which a budget that certifies is undercut at first
ROUND = 8  # splits tried before the step is halved
HOPELESS = 1.5  # wrong pairs for each relation: whoever is so far off does not start again from there
FEW = 1.2
WASTE = 0.12  # of a target budget that a split may leave unused


Start = Literal["random", "narrowed", "beheaded"]


@dataclass(frozen=True)
class Try:
    """One attempt of the search: a shape, the seed of its start, and what came of it."""

    heads: int
    key_width: int
    seed: int
    start: Start  # what its first attempt began with: random weights, or a larger layer's cut down
    certified: bool
    wrong: int
    normalised_margin: float  # of the certificate; NaN where there is none
    steps: int
    seconds: float  # since the search began, at its end

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width


@dataclass(frozen=True, eq=False)
class Found:
    """The best layer of a search with its certificate, or neither, and every try in the order they ended."""

    layer: Layer | None
    certificate: Certificate | None
    best: Try | None
    tries: tuple[Try, ...]
    seconds: float


Report = Callable[[Try], None]


class Search:
    """Attempts on one problem, two at a time or as many as there are cores, until the time is up."""

    def __init__(
        self,
        graph: Graph,
        embedding: Float[ndarray, "items d_model"],
        *,
        seed: int,
        time_limit: float,
        rule: FitRule,
        context_length: int | tuple[int, int] | None,
        map: Map,
        how: Descent | None,
        workers: int | None,
        progress: Watch | None,
        report: Report | None,
    ) -> None:
        if not time_limit > 0:
            raise InputError(f"the time limit must be a positive number of seconds, not {time_limit:g}")
        self.graph, self.d_model, self.seed = graph, embedding.shape[1], seed
        self.problem = Problem.of(graph, embedding, map, rule=rule, context_length=context_length)
        self.how = how or suitable_descent(graph.items, embedding.shape[1])
        self.workers = workers or os.cpu_count() or 1
        self.progress, self.report = progress, report
        self.begun = time.monotonic()
        self.deadline = self.begun + time_limit
        self.tries: list[Try] = []
        self.best: tuple[Try, Layer, Certificate] | None = None
        self._spare: dict[tuple[int, int], Weights] = {}  # of shapes certified: a smaller one may begin with them

    def run(self, shapes: Iterator[tuple[int, int]], better: Callable[[Try, Try], bool]) -> Found:
        """Try shape after shape; `shapes` sees in self.tries what came of those before."""
        running: set[Future[tuple[Try, Attempt, Layer | None, Certificate | None]]] = set()
        serial = 0
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while time.monotonic() < self.deadline:
                    while len(running) < self.workers and (shape := next(shapes, None)) is not None:
                        running.add(pool.submit(self._attempt, *shape, self.seed + serial))
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
        return Found(layer, certificate, best, tuple(self.tries), time.monotonic() - self.begun)

    def _take(
        self,
        tried: Try,
        came: Attempt,
        layer: Layer | None,
        certificate: Certificate | None,
        better: Callable[[Try, Try], bool],
    ) -> None:
        self.tries.append(tried)
        if tried.certified:
            self._spare[tried.heads, tried.key_width] = came.weights
        if layer is not None and certificate is not None and (self.best is None or better(tried, self.best[0])):
            self.best = tried, layer, certificate
        if self.report is not None:
            self.report(tried)

    def _attempt(self, heads: int, key_width: int, seed: int) -> tuple[Try, Attempt, Layer | None, Certificate | None]:
        """A chain of attempts at one shape: from a start, and then from what is left of each failure."""
        start, weights = self._start(heads, key_width, seed)
        for _ in range(CHAIN):
            came = Engine(
                self.graph, self.problem.rows, heads=heads, key_width=key_width, how=self.how,
                ratio=self.problem.ratio(heads), watch=self.progress, begun=self.begun, deadline=self.deadline,
            ).run(weights)  # fmt: skip
            if came.separated or self._hopeless(came) or time.monotonic() >= self.deadline:
                break
            weights = shrunk_start(came.weights)
        layer, certificate = self.problem.judge(came) if came.separated else (None, None)
        certified = certificate is not None and certificate.holds
        margin = certificate.normalised_margin if certificate is not None else math.nan
        seconds = time.monotonic() - self.begun
        tried = Try(heads, key_width, seed, start, certified, came.wrong, margin, came.steps, seconds)
        return (tried, came, layer, certificate) if certified else (tried, came, None, None)

    def _start(self, heads: int, key_width: int, seed: int) -> tuple[Start, Weights]:
        """A certified shape cut down to this one, if there is one that was not used yet; else a random start."""
        wider = min(
            (width for h, width in list(self._spare) if h == heads and key_width < width <= 1.5 * key_width), default=0
        )
        if (weights := self._spare.pop((heads, wider), None)) is not None:
            return "narrowed", narrowed_start(weights, key_width=key_width)
        if (weights := self._spare.pop((heads + 1, key_width), None)) is not None:
            return "beheaded", beheaded_start(weights)
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
        return [shape for shape in splits(budget, self.d_model) if shape[0] <= self.problem.most_heads]

    def _hopeless(self, came: Attempt) -> bool:
        return came.wrong > HOPELESS * max(1, self.graph.relations)


def smallest_fit(
    graph: Graph,
    embedding: Float[ndarray, "items d_model"],
    *,
    seed: int,
    time_limit: float,
    max_budget: int | None = None,
    heads: int | None = None,
    rule: FitRule = "max",
    context_length: int | tuple[int, int] | None = None,
    map: Map = "none",
    how: Descent | None = None,
    workers: int | None = None,
    progress: Watch | None = None,
    report: Report | None = None,
) -> Found:
    """Search down to the smallest key budget that certifies within the time limit (seconds).

    The first budget is the one the degrees of freedom predict. One that certifies is undercut by a fifth, then by less,
    in the end by one, each time with several splits into heads near the best so far and with new starts.
    """
    require_possible(graph, embedding, key_budget=max_budget)
    search = Search(
        graph, embedding, seed=seed, time_limit=time_limit, rule=rule, context_length=context_length, map=map, how=how,
        workers=workers, progress=progress, report=report,
    )  # fmt: skip
    return search.run(
        _downwards(search, max_budget=max_budget, only_heads=heads),
        lambda one, other: one.key_budget < other.key_budget,
    )


def best_split(
    graph: Graph,
    embedding: Float[ndarray, "items d_model"],
    *,
    key_budget: int,
    seed: int,
    time_limit: float,
    rule: FitRule = "max",
    context_length: int | tuple[int, int] | None = None,
    map: Map = "none",
    how: Descent | None = None,
    workers: int | None = None,
    progress: Watch | None = None,
    report: Report | None = None,
) -> Found:
    """Split a key budget into heads in every way that uses it (nearly) up; the widest normalised margin wins."""
    require_possible(graph, embedding, key_budget=key_budget)
    search = Search(
        graph, embedding, seed=seed, time_limit=time_limit, rule=rule, context_length=context_length, map=map, how=how,
        workers=workers, progress=progress, report=report,
    )  # fmt: skip
    return search.run(
        iter(search.splits(key_budget) * 3), lambda one, other: one.normalised_margin > other.normalised_margin
    )


def splits(budget: int, d_model: int) -> list[tuple[int, int]]:
    """All (heads, key_width) that leave less than WASTE of the budget, none wider than d_model."""
    shapes = [(heads, min(budget // heads, d_model)) for heads in range(1, budget + 1)]
    return [(heads, width) for heads, width in shapes if heads * width > budget * (1 - WASTE)]


def _downwards(search: Search, *, max_budget: int | None, only_heads: int | None) -> Iterator[tuple[int, int]]:
    """Shapes to try next, in the light of what search.tries says by then."""
    rng = np.random.default_rng(search.seed)
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
        for shape in [*search.cuts(target, only_heads), *_likeliest(shapes, search.tries, centre, rng)]:
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
    shapes: list[tuple[int, int]], tries: list[Try], centre: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """A round of shapes: those near the best head count, and those whose last failure was nearest to success, first."""

    def promise(shape: tuple[int, int]) -> float:
        heads = shape[0]
        near = [tried.wrong for tried in tries[-4 * ROUND :] if tried.heads == heads and not tried.certified]
        distance = abs(math.log(heads / centre))
        return distance + 0.3 * math.log1p(min(near, default=0)) / 3 + float(rng.exponential(0.3))

    return sorted(shapes, key=promise)[:ROUND]
