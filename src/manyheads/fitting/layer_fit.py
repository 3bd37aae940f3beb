"""Fit: the compact compiler, a layer fitted until a certificate proves it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32, Float64
from numpy import ndarray

from manyheads.certificate import Certificate, certify
from manyheads.certificate.calibration import calibrate
from manyheads.errors import InputError
from manyheads.fitting.band import Band, most_heads, narrowest_band
from manyheads.fitting.descent import Attempt, Descent, Engine, Weights, suitable_descent
from manyheads.fitting.folding import Map, fold, levelled, linear_map, mapped, unfold
from manyheads.fitting.possibility import require_possible
from manyheads.fitting.progress import Standing, Watch
from manyheads.fitting.starts import random_start, shrunk_start
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph

RESTARTS = 12
CHAIN = 6  # attempts from one random start: all but the first begin with the last one's weights, shrunk
FitRule = Literal["max", "softmax"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A layer, its certificate and the way to it; the certificate is the judge, and may say no."""

    layer: Layer
    certificate: Certificate
    trace: tuple[Standing, ...]
    attempts: int
    steps: int  # of the attempt the layer comes from
    seconds: float
    map: Map


def fit(
    graph: Graph,
    embedding: Float[ndarray, "items d_model"],
    *,
    heads: int,
    key_width: int,
    seed: int,
    restarts: int = RESTARTS,
    time_limit: float | None = None,
    rule: FitRule = "max",
    context_length: int | tuple[int, int] | None = None,
    map: Map = "none",
    start: Layer | None = None,
    how: Descent | None = None,
    progress: Watch | None = None,
) -> Fitted:
    """Fit a layer of this shape to the graph until it certifies, in at most `restarts` attempts.

    The first attempt begins with the weights of `start`, where one is given (see `grow`).

    Same seed, same layer, as long as no time limit cuts in. Where no attempt separates all pairs, the one with the
    fewest wrong is returned with the certificate that refutes it. Rule softmax needs the length of the contexts.

    >>> from manyheads import gaussian, permutation_graph
    >>> fitted = fit(permutation_graph(64, seed=0), gaussian(64, 16, seed=1), heads=2, key_width=6, seed=0)
    >>> fitted.certificate.verdict, fitted.layer.key_budget
    ('holds', 12)
    """
    _check(heads=heads, key_width=key_width, restarts=restarts, time_limit=time_limit)
    require_possible(graph, embedding, key_budget=heads * key_width)
    how = how or suitable_descent(graph.items, embedding.shape[1])
    problem = Problem.of(graph, embedding, map, rule=rule, context_length=context_length)
    begun = time.monotonic()
    deadline = math.inf if time_limit is None else begun + time_limit
    trace: list[Standing] = []

    def watch(standing: Standing) -> None:
        trace.append(standing)
        if progress is not None:
            progress(standing)

    def run(attempt: int, weights: Weights, *, warm: bool = False) -> Attempt:
        # the engine is gone when the certificate begins: each holds several numbers for every item and key dimension
        return Engine(
            graph, problem.rows, heads=heads, key_width=key_width, how=how,
            ratio=problem.ratio(heads), attempt=attempt, watch=watch, begun=begun, deadline=deadline,
        ).run(weights, warm=warm)  # fmt: skip

    best: tuple[Layer, Certificate, Attempt] | None = None
    came: Attempt | None = None
    attempt = 0
    for attempt in range(restarts):
        if start is not None and attempt == 0:
            came = run(attempt, problem.weights_of(start), warm=True)
        elif came is None or attempt % CHAIN == 0:
            shape = {"heads": heads, "key_width": key_width}
            came = run(attempt, random_start(embedding.shape[1], **shape, seed=seed + attempt))
        else:
            came = run(attempt, shrunk_start(came.weights))
        if best is None or _nearer(came, best[2]):
            best = *problem.judge(came), came
        if best[1].holds or time.monotonic() >= deadline:
            break
    assert best is not None, "there is at least one attempt"
    layer, certificate, kept = best
    seconds = time.monotonic() - begun
    return Fitted(layer, certificate, tuple(trace), attempt + 1, kept.steps, seconds, map)


@dataclass(frozen=True, eq=False)
class Problem:
    """What the engine is given: rows behind a linear map, and the way back from its weights to a layer."""

    graph: Graph
    embedding: Float[ndarray, "items d_model"]
    matrix: Float64[ndarray, "d_model d_model"] | None  # None: the rows as they are
    rows: Float32[ndarray, "items d_model"]
    lengths: tuple[int, int] | None  # of the contexts, for the rule softmax; None for the rule max

    @classmethod
    def of(
        cls,
        graph: Graph,
        embedding: Float[ndarray, "items d_model"],
        map: Map,
        *,
        rule: FitRule = "max",
        context_length: int | tuple[int, int] | None = None,
    ) -> Problem:
        """The problem behind a map."""
        matrix = levelled(embedding) if map == "none" else linear_map(embedding, map)
        rows = embedding if matrix is None else mapped(embedding, matrix)
        lengths = _lengths(rule, context_length, graph.items)
        return cls(graph, embedding, matrix, np.ascontiguousarray(rows, dtype=np.float32), lengths)

    def ratio(self, heads: int) -> float:
        """How far a relation's logit has to exceed the band of the others, under softmax; 0 for the rule max."""
        return self._band(heads).ratio / Engine.SLACK if self.lengths else 0.0

    @property
    def most_heads(self) -> float:
        """More heads are possible in no width; infinite for the rule max."""
        return float(most_heads(degree=self._degree, lengths=self.lengths)) if self.lengths else math.inf

    def judge(self, attempt: Attempt) -> tuple[Layer, Certificate]:
        """The layer of an attempt's weights, the map folded in, with the best threshold and its certificate.

        In single precision where that certifies, else in double.
        """
        exact = self._layer(attempt.weights)
        for precision in (np.float32, np.float64):
            layer = replace(exact, query=exact.query.astype(precision), key=exact.key.astype(precision))
            layer = calibrate(layer, self._certify(layer))
            certificate = self._certify(layer)
            if certificate.holds or self.matrix is None:
                break
        return layer, certificate

    def weights_of(self, layer: Layer) -> Weights:
        """The weights with which the engine scores its rows as the layer scores the embedding, at a scale of its own.

        A fit leaves most relations one above the threshold, where their cost begins: so does this scale.
        """
        inner = layer if self.matrix is None else unfold(layer, self.matrix)
        query, key = (weights.astype(np.float64) for weights in (inner.query, inner.key))
        rows = self.rows.astype(np.float64)
        sources, targets = rows[self.graph.sources] @ query, rows[self.graph.targets] @ key
        scores = np.einsum("hnc,hnc->hn", sources, targets).max(axis=0)
        if self.lengths:  # relations at the ratio over the band
            above = float(np.median(scores)) / self.ratio(layer.heads) if scores.size else 1.0
        else:
            above = float(np.median(scores - layer.threshold)) if scores.size else 1.0
        scale = 1 / math.sqrt(above) if above > 0 else 1.0
        return query * scale, key * scale, layer.threshold * scale**2

    def _certify(self, layer: Layer) -> Certificate:
        return certify(layer, self.embedding, self.graph, context_length=self.lengths)

    def _layer(self, weights: Weights) -> Layer:
        query, key, threshold = weights
        if self.lengths:  # scores within ±1 become logits within the band; the layer divides by √d_k
            query = query * (self._band(len(query)).half_width * math.sqrt(query.shape[2]))
        layer = Layer(query, key, threshold, "softmax" if self.lengths else "max")
        return layer if self.matrix is None else fold(layer, self.matrix)

    def _band(self, heads: int) -> Band:
        assert self.lengths is not None, "only softmax has a band"
        return narrowest_band(heads=heads, degree=self._degree, lengths=self.lengths)

    @property
    def _degree(self) -> int:
        """The most targets of one source that a context can hold: all others in it, and itself where it has a loop."""
        assert self.lengths is not None, "only softmax looks at what else a context holds"
        room = self.lengths[1] - 1 + int(self.graph.has_loops)
        return max(1, min(room, int(self.graph.out_degrees.max(initial=1))))


def _nearer(one: Attempt, other: Attempt) -> bool:
    """Whether one attempt came nearer to a certificate than another."""
    return (not one.separated, one.wrong, one.loss) < (not other.separated, other.wrong, other.loss)


def _lengths(rule: FitRule, context_length: int | tuple[int, int] | None, items: int) -> tuple[int, int] | None:
    if rule == "max":
        if context_length is not None:
            raise InputError("the rule max holds in contexts of every length: --context-length goes with softmax")
        return None
    if rule != "softmax":
        raise InputError(f"fit makes layers of the rule max or softmax, not '{rule}'")
    if context_length is None:
        raise InputError("a softmax layer is certified for contexts of a length: give the context length")
    shortest, longest = (context_length, context_length) if isinstance(context_length, int) else context_length
    if not 2 <= shortest <= longest <= items:
        raise InputError(
            f"context lengths run from 2 to the number of items, {items}, not from {shortest} to {longest}"
        )
    return shortest, longest


def _check(*, heads: int, key_width: int, restarts: int, time_limit: float | None) -> None:
    for name, value in (("heads", heads), ("key width", key_width), ("number of restarts", restarts)):
        if value < 1:
            raise InputError(f"the {name} must be at least 1, not {value}")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"the time limit must be a positive number of seconds, not {time_limit:g}")
