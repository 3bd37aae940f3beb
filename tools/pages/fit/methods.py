"""Methods to fit a layer that docs/results/fit.md compares.

The page also has rows of two methods that train on contexts of 16 items ("contexts as the paper draws them", "half of
the contexts hard"). They were measured with a part of the native engine that has been removed. They cannot be measured
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy import ndarray
from scipy.optimize import minimize
from scipy.special import expit

from manyheads import Graph
from manyheads._native import Fitting64
from manyheads.construct import compressive
from manyheads.construct.matchings import equitable_matchings, split_by_head
from manyheads.fitting import Descent, linear_map, map_rows
from manyheads.fitting.descent import SCALE, Engine, Weights, random_start, shrunk_start
from manyheads.problem.problem import Problem

Method = Callable[[Graph, ndarray, int, int, int], bool]
"""(graph, rows, heads, key_width, seed): whether all pairs were separated."""
NO_WIDENING = Descent(widen=0)


def full(descent: Descent = NO_WIDENING, start: Callable[..., Weights] | None = None, chain: int = 1) -> Method:
    """Full gradients of the squared hinge; `chain` attempts, each from the shrunk weights of the one before."""

    def method(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> bool:
        weights = (start or small_random)(graph, rows, heads, key_width, seed)
        for _ in range(chain):
            result = Engine(graph, rows, heads=heads, key_width=key_width, descent=descent).run(weights)
            if result.separated:
                return True
            weights = shrunk_start(result.weights)
        return False

    return method


def small_random(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> Weights:
    """The start of `fit`."""
    return random_start(rows.shape[1], heads=heads, key_width=key_width, seed=seed)


def large_random(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> Weights:
    """The start of `fit`, scaled to scores of standard deviation 1."""
    query, key, threshold = small_random(graph, rows, heads, key_width, seed)
    return query / SCALE, key / SCALE, threshold


def from_construction(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> Weights:
    """Construction II with as many blocks as there are heads, scaled to a threshold of 1.5."""
    layer = compressive(Problem(graph, rows), key_width=key_width, seed=seed, matching_size=-(-graph.items // heads))
    query, key = (np.zeros((heads, rows.shape[1], key_width)) for _ in range(2))
    query[: layer.heads], key[: layer.heads] = layer.query, layer.key
    scale = math.sqrt(1.5 / layer.threshold)
    return query * scale, key * scale, 1.5


def from_svd(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> Weights:
    """Each head is the truncated SVD of the whitened relation matrix of a random share of the relations."""
    owner = np.random.default_rng(seed).integers(heads, size=graph.relations)
    blocks = [(graph.sources[owner == head], graph.targets[owner == head]) for head in range(heads)]
    return _svd_start(rows, blocks, key_width)


def from_matchings(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> Weights:
    """As `from_svd`, but each head gets one of the equitable matchings of construction IV."""
    owner = equitable_matchings(graph, matching_size=-(-graph.relations // heads))
    return _svd_start(rows, split_by_head(graph, owner), key_width)


def _svd_start(rows: ndarray, blocks: list[tuple[ndarray, ndarray]], key_width: int) -> Weights:
    matrix = linear_map(rows, "whiten")
    white = map_rows(rows, matrix)
    queries, keys = [], []
    for sources, targets in blocks:
        left, strengths, right = np.linalg.svd(white[sources].T @ white[targets])
        roots = np.sqrt(strengths[:key_width])
        queries.append(matrix @ (left[:, :key_width] * roots))
        keys.append(matrix @ (right[:key_width].T * roots))
    query, key = np.array(queries), np.array(keys)
    scale = SCALE / math.sqrt(float(np.std(rows @ query[0] @ key[0].T @ rows.T)))
    return query * scale, key * scale, 1.5


def lbfgs(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> bool:
    """L-BFGS on the same squared hinge in double precision."""
    fitting = Fitting64(graph.row_starts, graph.targets, rows, heads, key_width, 1)
    shape = (2, heads, rows.shape[1], key_width)
    separated = False

    def loss(flat: ndarray) -> tuple[float, ndarray]:
        nonlocal separated
        threshold = float(flat[-1])
        query, key = flat[:-1].reshape(shape)
        fitting.set_weights(query, key, threshold)
        found = fitting.look(-math.inf, threshold - 1, threshold + 1, threshold, NO_WIDENING.weight)
        separated = separated or found.low < found.high
        gradient = np.concatenate([np.stack(fitting.gradient()).ravel(), [found.by_ceiling + found.by_summit]])
        return found.loss, gradient

    query, key, threshold = small_random(graph, rows, heads, key_width, seed)
    first = np.concatenate([np.stack([query, key]).ravel(), [threshold]])
    minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 2_000, "maxcor": 20})
    return separated


def blas(kind: str, steps: int = 1_000, rate: float = 0.25) -> Method:
    """Full gradients by matrix products in numpy, with Adam as in Descent and another loss over the same pairs."""

    def method(graph: Graph, rows: ndarray, heads: int, key_width: int, seed: int) -> bool:
        related = graph.adjacency()
        query, key, threshold = small_random(graph, rows, heads, key_width, seed)
        weights = np.stack([query, key]).astype(np.float32)
        first: ndarray = np.zeros_like(weights)
        second: ndarray = np.zeros_like(weights)
        first_tau, second_tau = 0.0, 0.0
        rates = Descent(steps=steps, rate=rate).rates()
        beta = 0.98
        for step, now in enumerate(rates, 1):
            queries, keys = rows @ weights[0], rows @ weights[1]
            scores = queries @ keys.swapaxes(1, 2)
            winner = scores.argmax(axis=0)
            best = scores.max(axis=0)
            if best[related].min() > best[~related].max():
                return True
            slope = _slope(kind, scores - threshold, related)
            for_relations = slope * (np.arange(heads)[:, None, None] == winner)
            slope = np.where(related, for_relations, slope).astype(np.float32)
            gradient = np.stack([rows.T @ (slope @ keys), rows.T @ (slope.swapaxes(1, 2) @ queries)])
            tau = -float(slope.sum())
            first = beta * first + (1 - beta) * gradient
            second = beta * second + (1 - beta) * gradient**2
            first_tau = beta * first_tau + (1 - beta) * tau
            second_tau = beta * second_tau + (1 - beta) * tau**2
            correct = now / math.sqrt(1 - beta**step)
            weights -= (correct * first / (np.sqrt(second) + 1e-12)).astype(np.float32)
            threshold -= correct * first_tau / (math.sqrt(second_tau) + 1e-12)
        return False

    return method


def _slope(kind: str, distance: ndarray, related: ndarray) -> ndarray:
    """∂loss/∂score of every head and pair."""
    weight = NO_WIDENING.weight
    if kind == "squared hinge":
        return np.where(related, -weight * np.maximum(1 - distance, 0), np.maximum(distance + 1, 0))
    if kind == "hinge":
        return np.where(related, -weight * (distance < 1), distance > -1).astype(np.float64)
    if kind == "logistic":
        return np.where(related, -weight * expit(-distance), expit(distance))
    raise ValueError(kind)


METHODS: dict[str, Method] = {
    "full gradients: squared hinge, Adam (0.98, 0.98), small random start": full(),
    "… and failures start again shrunk, 6 attempts": full(chain=6),
    "Adam (0.9, 0.999)": full(descent=Descent(widen=0, beta1=0.9, beta2=0.999)),
    "Adam (0.9, 0.95)": full(descent=Descent(widen=0, beta1=0.9, beta2=0.95)),
    "a tenth of the rate": full(descent=Descent(widen=0, rate=0.025)),
    "L-BFGS": lbfgs,
    "large random start": full(start=large_random),
    "start: construction II": full(start=from_construction),
    "start: SVD of the whitened relations, dealt at random": full(start=from_svd),
    "start: SVD, dealt by the matchings of construction IV": full(start=from_matchings),
    "full batches by BLAS, squared hinge": blas("squared hinge"),
    "full batches by BLAS, hinge": blas("hinge"),
    "full batches by BLAS, logistic": blas("logistic"),
}
