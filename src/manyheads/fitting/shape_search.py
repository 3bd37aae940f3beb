"""Searches over shapes: the smallest key budget that certifies in a given time, or the best split of a given budget."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import chain

import numpy as np

from manyheads.bounds.shape import require_even_sharing
from manyheads.certificate import Certificate, described
from manyheads.errors import InputError
from manyheads.fitting.descent import (
    DescentResult,
    Engine,
    Weights,
    fewer_heads_start,
    narrowed_start,
    random_start,
    shrunk_start,
)
from manyheads.fitting.layer_fit import CHAIN, MappedProblem, require_fit, widened
from manyheads.fitting.options import (
    DEFAULT_OPTIONS,
    Descent,
    FitOptions,
    FitSearchResult,
    ShapeTrial,
    Start,
    suitable_descent,
)
from manyheads.fitting.shapes import least_budgets, likeliest, predicted_shape, require_possible, shapes_within
from manyheads.layer.layer import Layer
from manyheads.numbers import check_numbers
from manyheads.problem.problem import Problem

SECONDS = 60.0  # of a search without a time limit
SPLIT_TRIALS = 3  # trials of every split of a given key budget
FIRST_STEP = 0.2  # after a budget certifies, the next is smaller by this part at first
HOPELESS = 1.5  # wrong pairs for each relation; a failure with more is not continued
NARROWEST = 1.5  # a certified width is narrowed by at most this factor


class FitSearch:
    """Trials on one problem, as many at once as there are workers, until the time is up."""

    def __init__(self, problem: Problem, options: FitOptions, *, key_heads: int | None = None) -> None:
        if options.latent is not None:
            raise InputError("a search has no latent: fit one shape of heads, key width and latent")
        self.graph, self.d_model, self.options = problem.graph, problem.d_model, options
        self.key_heads = key_heads  # None: as many as heads
        self.inner = MappedProblem.of(problem, options)
        self.descent = options.descent or suitable_descent(problem.items, problem.d_model)
        self.workers = options.workers or os.cpu_count() or 1
        self.begun = time.monotonic()
        self.deadline = self.begun + (options.time_limit or SECONDS)
        self.trials: list[ShapeTrial] = []
        self.best: tuple[ShapeTrial, Layer, Certificate] | None = None
        self._spare: dict[tuple[int, int], Weights] = {}  # of certified shapes; one smaller shape may start from each

    def run(
        self, shapes: Iterator[tuple[int, int]], better: Callable[[ShapeTrial, ShapeTrial], bool]
    ) -> FitSearchResult:
        """Try one shape after another. `shapes` may choose the next one by the trials so far, in self.trials."""
        running: set[Future[tuple[ShapeTrial, DescentResult, Layer | None, Certificate | None]]] = set()
        serial = 0
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while time.monotonic() < self.deadline:
                    while len(running) < self.workers and (shape := next(shapes, None)) is not None:
                        try:
                            running.add(pool.submit(self._attempt, *shape, self.options.seed + serial))
                        except RuntimeError:  # the system starts no further thread
                            raise InputError(
                                f"this machine does not start {self.workers} threads: use fewer workers"
                            ) from None
                        serial += 1
                    if not running:
                        break
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._take(*future.result(), better)
            finally:
                self.deadline = 0.0  # the trials that still run end at their next survey
        for future in running:
            self._take(*future.result(), better)
        best, layer, certificate = self.best or (None, None, None)
        if layer is not None and certificate is not None:
            layer = described(layer, self.inner.problem, certificate, self.options.provenance())
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
        """A chain of attempts at one shape: the first from a start, each next from the shrunk weights of the last."""

        def run(weights: Weights, descent: Descent) -> DescentResult:
            return Engine(
                self.graph, self.inner.rows, heads=heads, key_width=key_width, key_heads=self.key_heads,
                descent=descent, ratio=self.inner.ratio(heads), progress=self.options.progress, begun=self.begun,
                deadline=self.deadline,
            ).run(weights, warm=descent is not self.descent)  # fmt: skip

        start, weights = self._start(heads, key_width, seed)
        for _ in range(CHAIN):
            result = run(weights, self.descent)
            if result.separated or self._hopeless(result) or time.monotonic() >= self.deadline:
                break
            weights = shrunk_start(result.weights)
        layer, certificate = None, None
        if result.separated:
            best = *self.inner.judge(result), result
            layer, certificate, result = widened(self.inner, best, run, self.descent)
        certified = certificate is not None and certificate.holds_in(self.options.precision)
        margin = certificate.normalised_margin if certificate is not None else math.nan
        seconds = time.monotonic() - self.begun
        trial = ShapeTrial(
            heads,
            key_width,
            self.key_heads or heads,
            seed,
            start,
            certified,
            result.wrong,
            margin,
            result.steps,
            seconds,
        )
        return (trial, result, layer, certificate) if certified else (trial, result, None, None)

    def _start(self, heads: int, key_width: int, seed: int) -> tuple[Start, Weights]:
        """The weights of a larger certified shape, cut down to this shape, if some are unused; else random weights."""
        wider = min(
            (width for h, width in list(self._spare) if h == heads and key_width < width <= NARROWEST * key_width),
            default=0,
        )
        if (weights := self._spare.pop((heads, wider), None)) is not None:
            return "narrowed", narrowed_start(weights, key_width=key_width)
        if (weights := self._spare.pop((heads + self.step, key_width), None)) is not None:
            return "fewer heads", fewer_heads_start(weights)
        return "random", random_start(
            self.d_model, heads=heads, key_width=key_width, key_heads=self.key_heads, seed=seed
        )

    @property
    def step(self) -> int:
        """The smallest change of the number of heads."""
        return self.key_heads or 1

    def both(self, heads: int) -> int:
        """The number of heads and key heads together."""
        return heads + (self.key_heads or heads)

    def cuts(self, target: int, only_heads: int | None, only_width: int | None) -> list[tuple[int, int]]:
        """Smaller shapes than the best that can start from the unused weights of a certified shape."""
        spare = sorted(self._spare)
        narrower = [
            (heads, min(width - 1, max(target // self.both(heads), math.ceil(width / NARROWEST))))
            for heads, width in spare
        ]
        fewer = [(heads - self.step, width) for heads, width in spare]
        best = self.best[0].both_budgets if self.best else 0
        return [
            (heads, width)
            for heads, width in chain(narrower, fewer)
            if heads and width and self.both(heads) * width < best
            and only_heads in (None, heads) and only_width in (None, width)
        ]  # fmt: skip

    def shapes(self, target: int, only_heads: int | None, only_width: int | None) -> list[tuple[int, int]]:
        """The shapes with D_Q + D_K of about the target, with the number of heads or the width that is given."""
        if only_heads is not None:
            width = min(target // self.both(only_heads), self.d_model)
            return [(only_heads, width)] if width else []
        if only_width is not None:  # with key heads: (h + g) · d_k ≤ target
            heads = (target // only_width - self.step) // self.step * self.step
            return [(heads, only_width)] if 0 < heads <= self.inner.most_heads else []
        within = shapes_within(target, self.d_model, key_heads=self.key_heads)
        return [shape for shape in within if shape[0] <= self.inner.most_heads]

    def _hopeless(self, result: DescentResult) -> bool:
        return result.wrong > HOPELESS * max(1, self.graph.relations)


def smallest(
    problem: Problem,
    *,
    options: FitOptions = DEFAULT_OPTIONS,
    time_limit: float | None = None,
    max_budget: int | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
) -> FitSearchResult:
    """Search for the smallest key budget that certifies within the time limit; with shared keys, the fewest weights.

    The degrees of freedom predict the first budget. After a budget certifies, the next is smaller by a fifth,
    later by less, in the end by one. At each budget, several splits with about the best number of heads are tried.

    Args:
        problem: The graph to hold and the rows of its items.
        options: All have a default.
        time_limit: Seconds of the search, above 0; None: the time limit of the options, or 60.
        max_budget: The largest key budget to try; by default one for each relation, or the predicted budget if that
            is larger.
        heads: Only layers with this number of heads.
        key_heads: Only layers whose heads share this number of key heads; None: layers that share no keys. Layers with
            shared keys are compared by their weights, and `max_budget` limits (D_Q + D_K)/2.

    Returns:
        The layer with the fewest weights that certified, or none, and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_fit(problem, options)
    if time_limit is not None:
        options = replace(options, time_limit=time_limit)
    check_numbers(heads=heads, key_heads=key_heads, max_key_budget=max_budget)
    if heads is not None:
        require_even_sharing(heads=heads, key_heads=key_heads)
    require_possible(problem, both_budgets=max_budget and 2 * max_budget)
    search = FitSearch(problem, options, key_heads=key_heads)
    return search.run(_downwards(search, max_budget=max_budget, only_heads=heads), _fewer_weights)


def best_split(
    problem: Problem, *, key_budget: int, key_heads: int | None = None, options: FitOptions = DEFAULT_OPTIONS
) -> FitSearchResult:
    """Split a key budget into heads in every way that uses nearly all of it; keep the widest normalised margin.

    A key budget and a number of key heads fix the key width. The search then looks for the fewest heads.

    Args:
        problem: The graph to hold and the rows of its items.
        key_budget: D_K, the sum of the key heads' widths.
        key_heads: The number of key heads that the heads share; it divides `key_budget`. None: as many as heads.
        options: The seed, and what has a default.

    Returns:
        The layer with the widest normalised margin, with key heads the layer with the fewest heads; or none that
        certified; and every trial.

    Raises:
        InputError: As `fit`.
    """
    require_fit(problem, options)
    check_numbers(key_budget=key_budget, key_heads=key_heads)
    if key_heads is not None:
        if key_budget % key_heads:
            raise InputError(
                f"a key budget of {key_budget} cannot be split evenly into {key_heads} key heads: give a multiple of it"
            )
        require_possible(problem, both_budgets=None)
        search = FitSearch(problem, options, key_heads=key_heads)
        return search.run(_downwards(search, only_width=key_budget // key_heads), _fewer_weights)
    require_possible(problem, both_budgets=2 * key_budget)
    search = FitSearch(problem, options)
    return search.run(
        iter(search.shapes(2 * key_budget, None, None) * SPLIT_TRIALS),
        lambda one, other: one.normalised_margin > other.normalised_margin,
    )


def _fewer_weights(one: ShapeTrial, other: ShapeTrial) -> bool:
    return one.both_budgets < other.both_budgets


def _downwards(
    search: FitSearch, *, max_budget: int | None = None, only_heads: int | None = None, only_width: int | None = None
) -> Iterator[tuple[int, int]]:
    """Shapes with smaller and smaller D_Q + D_K; each is chosen by the trials so far.

    The budgets are counted in units: 2 without shared keys, where D_Q + D_K is twice a key budget. Heads that share
    keys can have every number.
    """
    rng, unit = np.random.default_rng(search.options.seed), 2 if search.key_heads is None else 1
    least = -(-least_budgets(search.graph, search.d_model) // unit)
    key_budget, centre = predicted_shape(search.graph, search.d_model, heads=only_heads, key_heads=search.key_heads)
    target = search.both(centre) * (key_budget // (search.key_heads or centre)) // unit
    # a head of width 1 for each relation always works on distinct rows of length one, so no search needs more; where
    # heads share keys of width d_model, a head for each relation always works
    full = search.both(search.graph.relations) * (1 if search.key_heads is None else search.d_model) // unit
    most = max(target, full) if max_budget is None else 2 * max_budget // unit
    target = max(least, min(target, most))
    if only_width is not None:  # at least one group of heads
        least = max(least, 2 * search.step * only_width // unit)
        target = max(target, least)
    step = growth = FIRST_STEP
    while True:
        shapes = search.shapes(target * unit, only_heads, only_width)
        if not shapes:
            return
        cuts = search.cuts(target * unit, only_heads, only_width)
        for shape in [*cuts, *likeliest(shapes, search.trials, centre, rng)]:
            if search.best is not None and search.best[0].both_budgets <= target * unit:
                break
            yield shape
        best = None if search.best is None else search.best[0].both_budgets // unit
        if search.best is not None and best is not None and best <= target:  # it certified: smaller by the same part
            centre = search.best[0].heads
            target = best - max(1, round(step * best))
        elif best is None:  # nothing has certified yet: a larger budget, by a growing part
            grown = target + max(1, round(growth * target))
            target, growth = min(grown, most), min(2 * growth, 1.0)
        else:  # nothing below the best certified: the next is smaller by half the part
            step /= 2
            target = best - max(1, round(step * best))
        if target < least:
            return
