"""The survey of all pairs and its bursts of steps against formulas written out in numpy.

Nothing here imports torch, so that native/tests/sanitize.sh can run it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy import ndarray

from manyheads import Graph, gaussian, permutation_graph, power_law_graph, random_graph, star_graph
from manyheads._native import Fitting32, Fitting64

FLOORLESS = -math.inf
GRAPHS = {
    "permutation": permutation_graph(70, seed=0),
    "hubs": power_law_graph(60, 150, exponent=2.2, seed=1),
    "star": star_graph(50, direction="out"),
    "loops": Graph(20, np.arange(20), np.arange(20)),
    "dense": random_graph(17, 200, seed=2),
    "empty": Graph(30, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)),
}
SHAPES = [(1, 1, 1), (3, 3, 5), (2, 2, 16), (5, 5, 9), (4, 2, 5), (6, 1, 9)]  # (heads, key_heads, key_width)
LEVELS = {"max": (FLOORLESS, 0.4, 2.1, 1.3, 3.0), "softmax": (-0.7, 0.7, 3.0, 1.5, 1.0)}


def weights(
    heads: int, d_model: int, key_width: int, seed: int = 0, key_heads: int | None = None
) -> tuple[ndarray, ndarray]:
    rng = np.random.default_rng(seed)
    query, key = (rng.standard_normal((number, d_model, key_width)) * 1.2 for number in (heads, key_heads or heads))
    return query, key


def engine(  # type: ignore[no-untyped-def]
    kind: type, graph: Graph, d_model: int, heads: int, key_width: int, threads: int = 1, key_heads: int | None = None
):
    rows = gaussian(graph.items, d_model, seed=3)
    fitting = kind(graph.row_starts, graph.targets, rows, heads, key_width, threads, key_heads)
    fitting.set_weights(*weights(heads, d_model, key_width, key_heads=key_heads), 1.3)
    return fitting, rows


def all_scores(rows: ndarray, query: ndarray, key: ndarray) -> ndarray:
    """(heads, items, items) scores in float64."""
    x, reads = rows.astype(np.float64), key_of_head(query, key)
    return (x @ query) @ (x @ key[reads]).swapaxes(1, 2)


def key_of_head(query: ndarray, key: ndarray) -> list[int]:
    """The key head that each head reads."""
    return [head * len(key) // len(query) for head in range(len(query))]


def loss_of(scores: ndarray, related: ndarray, levels: tuple[float, ...]) -> float:
    """The loss as the head of native/fitting/survey.hpp defines it."""
    floor, ceiling, summit, _, weight = levels
    others = scores[:, ~related]
    lack = np.maximum(summit - scores.max(0)[related], 0)
    loss = np.square(np.maximum(others - ceiling, 0)).sum() + weight * np.square(lack).sum()
    return float(loss if floor == FLOORLESS else loss + np.square(np.maximum(floor - others, 0)).sum())


def slope_of(scores: ndarray, related: ndarray, levels: tuple[float, ...]) -> ndarray:
    """The derivative of loss_of by the score of every head and pair; of a relation only the best head has one."""
    floor, ceiling, summit, _, weight = levels
    best = np.arange(len(scores))[:, None, None] == scores.argmax(0)
    others = 2 * (np.maximum(scores - ceiling, 0) - np.maximum(floor - scores, 0))
    return np.where(related, best * (-2 * weight * np.maximum(summit - scores, 0)), others)


def gradients_of(rows: ndarray, query: ndarray, key: ndarray, slope: ndarray) -> tuple[ndarray, ndarray]:
    """The derivatives by query and key, given those by the scores; heads that share a key head add up."""
    x, reads = rows.astype(np.float64), key_of_head(query, key)
    by_key = np.zeros_like(key)
    np.add.at(by_key, reads, x.T @ (slope.swapaxes(1, 2) @ (x @ query)))
    return x.T @ (slope @ (x @ key[reads])), by_key


@pytest.mark.parametrize("rule", LEVELS)
def test_the_slope_written_out_is_the_difference_quotient_of_the_loss(rule: str) -> None:
    """So that the next test compares with a gradient that was itself checked."""
    graph, levels, size = GRAPHS["hubs"], LEVELS[rule], 1e-6
    query, key = weights(4, 11, 5, key_heads=2)
    rows = gaussian(graph.items, 11, seed=3)
    scores, related = all_scores(rows, query, key), graph.adjacency()
    gradients = gradients_of(rows, query, key, slope_of(scores, related, levels))
    rng = np.random.default_rng(5)
    for _ in range(3):
        by_query, by_key = rng.standard_normal(query.shape), rng.standard_normal(key.shape)
        ahead, behind = (
            loss_of(all_scores(rows, query + s * by_query, key + s * by_key), related, levels) for s in (size, -size)
        )
        slope = np.vdot(gradients[0], by_query) + np.vdot(gradients[1], by_key)
        assert slope == pytest.approx((ahead - behind) / (2 * size), rel=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("heads", "key_heads", "key_width"), SHAPES)
@pytest.mark.parametrize("rule", LEVELS)
def test_a_look_is_the_loss_its_counts_and_its_gradient(
    name: str, heads: int, key_heads: int, key_width: int, rule: str
) -> None:
    graph, levels = GRAPHS[name], LEVELS[rule]
    fitting, rows = engine(Fitting64, graph, 11, heads, key_width, key_heads=key_heads)
    found = fitting.look(*levels)
    query, key = weights(heads, 11, key_width, key_heads=key_heads)
    scores, related = all_scores(rows, query, key), graph.adjacency()
    assert found.loss == pytest.approx(loss_of(scores, related, levels), rel=1e-12)
    wanted = gradients_of(rows, query, key, slope_of(scores, related, levels))
    for mine, theirs in zip(fitting.gradient(), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * float(np.abs(theirs).max()))

    best, threshold = scores.max(0), levels[3]
    assert found.missed == int((best[related] <= threshold).sum())
    assert found.false_pairs == int((best[~related] > threshold).sum())
    assert found.high == pytest.approx(float(best[related].min()) if graph.relations else math.inf)
    assert found.low == pytest.approx(max(float(best[~related].max()), levels[1]))
    if rule == "softmax":
        assert found.lowest == pytest.approx(min(float(scores[:, ~related].min()), levels[0]))
    step = 1e-6
    for place, slope in ((1, found.by_ceiling), (2, found.by_summit)):
        ahead, behind = ([*levels], [*levels])
        ahead[place] += step
        behind[place] -= step
        rise = loss_of(scores, related, tuple(ahead)) - loss_of(scores, related, tuple(behind))
        assert slope == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-6)


def test_a_burst_is_adam_written_out() -> None:
    """Also test_fit_native_torch.py, with torch's own Adam and autograd."""
    graph = GRAPHS["hubs"]
    fitting, rows = engine(Fitting64, graph, 11, 3, 5)
    rates, beta1, beta2 = [0.2, 0.1, 0.05, 0.3, 0.01], 0.9, 0.95
    burst = fitting.burst(rates, beta1, beta2, 3.0, 0.0, 1.0, math.inf, False)
    assert burst.steps == len(rates)
    query, key = weights(3, 11, 5)
    at = [query, key, np.array(1.3)]
    first, second = ([np.zeros_like(part) for part in at] for _ in range(2))
    for step, rate in enumerate(rates, 1):
        threshold = float(at[2])
        levels = (FLOORLESS, threshold - 1, threshold + 1, threshold, 3.0)  # both levels move with the threshold
        slope = slope_of(all_scores(rows, at[0], at[1]), graph.adjacency(), levels)
        by = [*gradients_of(rows, at[0], at[1], slope), np.array(-slope.sum())]
        for n in range(3):
            first[n] = beta1 * first[n] + (1 - beta1) * by[n]
            second[n] = beta2 * second[n] + (1 - beta2) * by[n] ** 2
            root = np.sqrt(second[n] / (1 - beta2**step)) + 1e-12
            at[n] = at[n] - rate * first[n] / (1 - beta1**step) / root
    for got, wanted in zip(fitting.weights(), at, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("rule", LEVELS)
def test_threads_and_single_precision_find_the_same(rule: str, key_heads: int) -> None:
    graph = permutation_graph(301, seed=4)
    exact, _ = engine(Fitting64, graph, 24, 4, 6, key_heads=key_heads)
    wanted = exact.look(*LEVELS[rule])
    for kind, threads, tolerance in ((Fitting64, 3, 1e-12), (Fitting32, 1, 1e-5), (Fitting32, 2, 1e-5)):
        fitting, _ = engine(kind, graph, 24, 4, 6, threads, key_heads)
        found = fitting.look(*LEVELS[rule])
        assert found.loss == pytest.approx(wanted.loss, rel=tolerance)
        assert (found.missed, found.false_pairs) == (wanted.missed, wanted.false_pairs)
        for mine, theirs in zip(fitting.gradient(), exact.gradient(), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=100 * tolerance * float(np.abs(theirs).max()))


def test_shares_of_the_sources_add_up_to_all_of_them() -> None:
    graph = permutation_graph(480, seed=5)  # ten groups of 48 sources
    fitting, _ = engine(Fitting64, graph, 16, 2, 4)
    whole = fitting.look(FLOORLESS, 0.3, 2.3, 1.3, 3.0)
    for _ in range(2):  # a second round goes through them in another order
        parts = [fitting.burst([0.0], 0.9, 0.9, 3.0, 0.0, 0.2, math.inf, False).finding for _ in range(5)]
        assert sum(part.loss for part in parts) == pytest.approx(whole.loss)
        assert sum(part.missed for part in parts) == whole.missed
        assert sum(part.costly for part in parts) == whole.costly
        assert max(part.low for part in parts) == whole.low


def test_a_burst_stops_where_a_threshold_separates() -> None:
    graph = permutation_graph(40, seed=0)
    fitting, rows = engine(Fitting32, graph, 32, 2, 16)
    burst = fitting.burst([0.1] * 2_000, 0.95, 0.95, 3.0, 0.0, 1.0, math.inf, True)
    assert 0 < burst.steps < 2_000
    assert burst.finding.low < burst.finding.high
    query, key, _ = fitting.weights()
    best = ((rows @ query) @ (rows @ key).swapaxes(1, 2)).max(0)
    assert best[graph.adjacency()].min() > best[~graph.adjacency()].max()


def test_bad_shapes_are_refused() -> None:
    graph, rows = permutation_graph(20, seed=0), gaussian(20, 4, seed=0)
    with pytest.raises(ValueError, match="another number of rows"):
        Fitting32(graph.row_starts, graph.targets, rows[:-1], 1, 2, 1)
    with pytest.raises(ValueError, match="heads is from 1 to"):
        Fitting32(graph.row_starts, graph.targets, rows, 0, 2, 1)
    fitting = Fitting32(graph.row_starts, graph.targets, rows, 1, 2, 1)
    with pytest.raises(ValueError, match="another shape"):
        fitting.set_weights(*weights(1, 4, 3), 0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is set as on Linux")
def test_a_thread_that_cannot_be_started_is_an_error_and_ends_nothing_else() -> None:
    """The stack of a thread takes megabytes: under a limit of memory some threads start, and the next one cannot."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the address sanitizer needs terabytes of address space, so that a limit ends it")
    code = """
import resource
from pathlib import Path
import numpy as np
from manyheads import gaussian, permutation_graph
from manyheads._native import Fitting32
graph = permutation_graph(300, seed=0)
fitting = Fitting32(graph.row_starts, graph.targets, gaussian(300, 8, seed=0), 1, 2, 64)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
try:
    fitting.look(-1.0, 1.0, 2.0, 1.5, 1.0)
except (RuntimeError, MemoryError) as error:
    print("refused")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(fitting.look(-1.0, 1.0, 2.0, 1.5, 1.0).missed)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.split() == ["refused", "300"], ended.stderr
