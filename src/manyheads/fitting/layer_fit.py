"""Fit of one shape: attempts from several starts until a certificate proves the layer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64
from numpy import ndarray

from manyheads.bounds.shape import Shape
from manyheads.certificate import Certificate, certify, described
from manyheads.certificate.certificate import calibrate
from manyheads.certificate.precisions import Precision
from manyheads.errors import InputError, require_type
from manyheads.fitting.descent import DescentResult, Engine, Weights, after_failure, random_start, widening_start
from manyheads.fitting.folding import Map, fold, levelling_map, linear_map, map_rows, suitable_map, unfold
from manyheads.fitting.options import DEFAULT_OPTIONS, Descent, FitOptions, FitProgress, suitable_descent
from manyheads.fitting.shapes import Band, completed_shape, most_heads, narrowest_band, require_possible
from manyheads.layer.latent import LatentKeys
from manyheads.layer.layer import Layer
from manyheads.layer.rules import MAX, SOFTMAX
from manyheads.numbers import check_numbers
from manyheads.problem.problem import Problem
from manyheads.tables import Shown, Summary, counted, data_frame, in_heads, summary

WIDENINGS, WIDER, SLOWER = 8, 20, 0.3  # rounds of widening; factors on the steps and on the rate of each
CHAIN = 6  # attempts from one random start; all but the first start from the weights of the last


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Shown):
    """A layer with its certificate, which may not hold, and the course of the fit.

    Attributes:
        layer: The layer of the best attempt.
        certificate: The layer's certificate.
        trace: The state of the fit at each survey of all pairs.
        attempts: The number of attempts.
        steps: The number of steps of the attempt that gave the layer.
        seconds: Wall time of the fit.
        map: The linear map of the rows that the fit used.
    """

    layer: Layer
    certificate: Certificate
    trace: tuple[FitProgress, ...]
    attempts: int
    steps: int
    seconds: float
    map: Map

    def summary(self) -> Summary:
        """The effort of the fit, and the certificate."""
        told = self.certificate.summary()
        rows = [
            ("verdict", told.title),
            *told.rows,
            ("steps", f"{self.steps:,} in the last attempt"),
            ("map", self.map),
        ]
        effort = f"{counted(self.attempts, 'attempt')} in {self.seconds:.1f} s"
        shape = in_heads(self.layer.heads, self.layer.key_width, self.layer.key_heads)
        return summary(f"fit of {shape}: {effort}", rows)

    def to_frame(self) -> Any:
        """The course of the fit as a pandas data frame, a row for each survey of all pairs.

        Raises:
            InputError: pandas is not installed.
        """
        return data_frame(asdict(look) | {"margin": look.margin} for look in self.trace)


def fit(
    problem: Problem,
    *,
    heads: int | None = None,
    key_width: int | None = None,
    key_heads: int | None = None,
    options: FitOptions = DEFAULT_OPTIONS,
    start: Layer | None = None,
) -> FitResult:
    """Fit a layer of this shape to the graph until it certifies, in at most `options.restarts` attempts.

    Args:
        problem: The graph to hold and the rows of its items.
        heads: h, at least 1; None: by the law of the degrees of freedom.
        key_width: d_k, the width of a head, at least 1; None: by the law.
        key_heads: g, the number of key heads that the heads share; it divides `heads`. None: as many as heads.
        options: All have a default.
        start: The first attempt begins with the weights of this layer, which has the same shape (see `grow`).

    Returns:
        The layer with its certificate. If no attempt separates all pairs, it is the attempt with the fewest wrong
        pairs, with the certificate that refutes it.

    Raises:
        InputError: No layer of this key budget can hold the graph, two items with the same row have different
            relations, the key heads do not divide the heads, or the context length does not go with the rule.

    >>> from manyheads import gaussian, permutation_graph
    >>> problem = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
    >>> fitted = fit(problem, heads=2, key_width=6, options=FitOptions(seed=0))
    >>> fitted.certificate.verdict, fitted.layer.key_budget
    ('holds', 12)
    """
    require_fit(problem, options)
    check_numbers(heads=heads, key_width=key_width, key_heads=key_heads)
    shape = completed_shape(problem, heads, key_width, key_heads, latent=options.latent)
    return _fit(problem, shape, options, start)


def _fit(problem: Problem, shape: Shape, options: FitOptions, start: Layer | None) -> FitResult:
    """The fit of a shape that is complete."""
    heads, key_width, key_heads = shape.heads, shape.key_width, shape.groups
    require_possible(problem, both_budgets=shape.parameters // problem.d_model, shared=shape.is_shared)
    descent = options.descent or suitable_descent(problem.items, problem.d_model)
    inner = MappedProblem.of(problem, options)
    begun = time.monotonic()
    deadline = math.inf if options.time_limit is None else begun + options.time_limit
    trace: list[FitProgress] = []

    def look(progress: FitProgress) -> None:
        trace.append(progress)
        if options.progress is not None:
            options.progress(progress)

    def run(attempt: int, weights: Weights, descent: Descent = descent, *, warm: bool = False) -> DescentResult:
        # the engine is freed before the certificate begins: both hold several numbers for every item and key dimension
        return Engine(
            problem.graph, inner.rows, heads=heads, key_width=key_width, key_heads=key_heads, latent=options.latent,
            descent=descent, threads=options.threads(problem.items), ratio=inner.ratio(heads), attempt=attempt,
            progress=look, begun=begun, deadline=deadline, engine=options.engine, device=options.device,
        ).run(weights, warm=warm)  # fmt: skip

    best: tuple[Layer, Certificate, DescentResult] | None = None
    result: DescentResult | None = None
    attempt = 0
    for attempt in range(options.restarts):
        if start is not None and attempt == 0:
            if inner.latent is not None:
                start = LatentKeys.of(start, latent=inner.latent, key_width=key_width).expanded()
            result = run(attempt, inner.weights_of(start), warm=True)
        elif result is None or attempt % CHAIN == 0:
            weights = random_start(
                problem.d_model, heads=heads, key_width=key_width, key_heads=key_heads, seed=options.seed + attempt
            )
            result = run(attempt, weights)
        else:
            result = run(attempt, *after_failure(result, descent))
        if best is None or _nearer(result, best[2]) or (best[1].holds and result.separated):
            now = widened(inner, (*inner.judge(result), result), partial(run, attempt, warm=True), descent)
            # a layer that holds, but not in the precision asked for, gives way only to a wider margin
            if best is None or not best[1].holds or now[1].normalised_margin > best[1].normalised_margin:
                best = now
        if best[1].holds_in(options.precision) or time.monotonic() >= deadline:
            break
    assert best is not None, "there is at least one attempt"
    layer, certificate, kept = best
    seconds = time.monotonic() - begun
    layer = described(layer, problem, certificate, options.provenance())
    return FitResult(layer, certificate, tuple(trace), attempt + 1, kept.steps, seconds, inner.map)


Attempt = tuple[Layer, Certificate, DescentResult]


def widened(
    inner: MappedProblem, best: Attempt, run: Callable[[Weights, Descent], DescentResult], descent: Descent
) -> Attempt:
    """Widen the window of a layer that holds, until its certificate also holds in the precision asked for.

    Args:
        inner: The problem as the engine reads it, with that precision.
        best: The layer, its certificate and the attempt that it comes from.
        run: One more attempt from given weights.
        descent: The settings of an attempt.

    Returns:
        The layer with the largest normalised margin. The rounds end where one gains nothing. Under softmax there are
        none: the attempts keep to a band that has a fixed width.
    """
    longer = replace(descent, widen=max(1, descent.widen) * WIDER, rate=descent.rate * SLOWER)
    for _ in range(WIDENINGS):
        if inner.lengths or not best[1].holds or best[1].holds_in(inner.precision):
            break
        result = run(widening_start(best[2]), longer)
        if not result.separated:
            break
        wider = *inner.judge(result), result
        if not wider[1].normalised_margin > best[1].normalised_margin:
            break
        best = wider
    return best


def grow(layer: Layer, problem: Problem, *, options: FitOptions = DEFAULT_OPTIONS) -> FitResult:
    """Fit a layer of the same shape and rule to a changed graph, beginning with the weights of the given layer.

    Random starts follow only if this warm start does not lead to a certificate.

    Args:
        layer: A layer that is certified for a similar graph over the same embedding.
        problem: The graph as it is now, with relations added or removed, and the embedding.
        options: As for `fit`; the rule is the layer's.

    Returns:
        As `fit` does.

    Raises:
        InputError: As `fit`; or the layer's rule is neither MAX nor SOFTMAX, or its d_model is not that of the problem.
    """
    require_type(layer, Layer, "the layer to grow")
    require_fit(problem, options)
    problem.require_width(layer.d_model)
    options = replace(options, rule=layer.rule)
    shape = {"heads": layer.heads, "key_width": layer.key_width, "key_heads": layer.key_heads}
    return fit(problem, **shape, options=options, start=layer)


@dataclass(frozen=True, eq=False)
class MappedProblem:
    """A problem as the engine reads it: the rows after a linear map; and the layer that follows from its weights."""

    problem: Problem
    matrix: Float64[ndarray, "d_model d_model"] | None  # None: the rows as they are
    rows: Float32[ndarray, "items d_model"]
    lengths: tuple[int, int] | None  # of the contexts, for the rule softmax; None for the rule max
    precision: Precision  # the number type in which the certificate has to hold
    map: Map
    latent: int | None  # the width of the latent from which all keys are made, or None

    @classmethod
    def of(cls, problem: Problem, options: FitOptions) -> MappedProblem:
        """The problem with the map of the options."""
        if options.rule.context_blind and options.context_length is not None:
            raise InputError("the rule max holds in contexts of every length: a context length goes with softmax")
        lengths = None if options.rule.context_blind else problem.context_lengths(options.context_length)
        map = suitable_map(problem.rows) if options.map == "auto" else options.map
        matrix = levelling_map(problem.rows) if map == "none" else linear_map(problem.rows, map)
        rows = problem.rows if matrix is None else map_rows(problem.rows, matrix)
        single = np.ascontiguousarray(rows, dtype=np.float32)
        return cls(problem, matrix, single, lengths, options.precision, map, options.latent)

    def ratio(self, heads: int) -> float:
        """For softmax: a relation's logit over the half width of the band of other pairs (`band`); 0 for max."""
        return self._band(heads).ratio / Engine.SLACK if self.lengths else 0.0

    @property
    def most_heads(self) -> float:
        """The largest number of heads for which a band exists; infinite for the rule max."""
        return float(most_heads(degree=self._degree, lengths=self.lengths)) if self.lengths else math.inf

    def judge(self, result: DescentResult) -> tuple[Layer, Certificate]:
        """The layer of an attempt's weights, with the map folded in and the best threshold, and its certificate.

        The weights are in single precision where that certifies, else in double. Keys from a latent are in their
        absorbed form.
        """
        exact = self._layer(result.weights)
        if self.latent is not None:
            exact = LatentKeys.of(exact, latent=self.latent, key_width=exact.key_width).absorbed()
        for precision in (np.float32, np.float64):
            layer = replace(exact, query=exact.query.astype(precision), key=exact.key.astype(precision))
            layer = calibrate(layer, self._certify(layer))
            certificate = self._certify(layer)
            if certificate.holds_in(self.precision) or self.matrix is None:
                break
        return layer, certificate

    def weights_of(self, layer: Layer) -> Weights:
        """The weights with which the engine scores its rows as the layer scores the embedding, up to a scale.

        The scale puts the median relation one above the threshold. There its cost begins; a fit ends in the same place.
        """
        inner = layer if self.matrix is None else unfold(layer, self.matrix)
        query, key = (weights.astype(np.float64) for weights in (inner.query, inner.key))
        rows = self.rows.astype(np.float64)
        sources, targets = rows[self.problem.graph.sources] @ query, rows[self.problem.graph.targets] @ key
        targets = layer.by_head(targets)
        scores = np.einsum("hnc,hnc->hn", sources, targets).max(axis=0)
        if self.lengths:  # relations at the ratio over the band
            above = float(np.median(scores)) / self.ratio(layer.heads) if scores.size else 1.0
        else:
            above = float(np.median(scores - layer.threshold)) if scores.size else 1.0
        scale = 1 / math.sqrt(above) if above > 0 else 1.0
        return query * scale, key * scale, layer.threshold * scale**2

    def _certify(self, layer: Layer) -> Certificate:
        return certify(layer, self.problem, context_length=self.lengths)

    def _layer(self, weights: Weights) -> Layer:
        query, key, threshold = weights
        if self.lengths:  # scores within ±1 become logits within the band; the layer divides by √d_k
            query = query * (self._band(len(query)).half_width * math.sqrt(query.shape[2]))
        layer = Layer(query, key, threshold, SOFTMAX if self.lengths else MAX)
        return layer if self.matrix is None else fold(layer, self.matrix)

    def _band(self, heads: int) -> Band:
        assert self.lengths is not None, "only softmax has a band"
        return narrowest_band(heads=heads, degree=self._degree, lengths=self.lengths)

    @property
    def _degree(self) -> int:
        """The most targets of one source in a context: all other items, and the source itself if it has a loop."""
        assert self.lengths is not None, "only softmax depends on the other items of a context"
        room = self.lengths[1] - 1 + int(self.problem.graph.has_loops)
        return max(1, min(room, int(self.problem.graph.out_degrees.max(initial=1))))


def require_fit(problem: Problem, options: FitOptions) -> None:
    """Refuse a problem or options of another type."""
    require_type(problem, Problem, "the problem to fit")
    require_type(options, FitOptions, "the options of a fit")


def _nearer(one: DescentResult, other: DescentResult) -> bool:
    """Whether one attempt is nearer to a certificate than another."""
    return (not one.separated, one.wrong, one.loss) < (not other.separated, other.wrong, other.loss)
