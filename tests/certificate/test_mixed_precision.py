"""The pass in mixed precision gives the evidence of float64, number for number; its bound holds in exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.oracles import exact_head_scores

from manyheads import Graph, Layer, Problem, certify
from manyheads.certificate import mixed_precision, pairwise
from manyheads.certificate.certificate import Evidence
from manyheads.certificate.mixed_precision import judge_mixed, score_error
from manyheads.certificate.pairwise import examine_pairs, row_scores
from manyheads.certificate.projection import Projection, project
from manyheads.layer.rules import MAX, Rule

Weights = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows, query, key
ULP = 2.0**-23  # of float32


def sizes(rng: np.random.Generator) -> tuple[int, int, int, int, int]:
    """Items, d_model, heads, key heads, key width: below, at and above a block of targets and a group of sources."""
    items = int(rng.choice([1, 2, 3, 7, 16, 31, 32, 33, 95, 97, 150]))
    key_heads, shared = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    return items, int(rng.integers(1, 9)), key_heads * shared, key_heads, int(rng.choice([1, 2, 3, 8, 17, 40]))


def ordinary(rng: np.random.Generator) -> Weights:
    items, d_model, heads, key_heads, key_width = sizes(rng)
    rows = rng.standard_normal((items, d_model)).astype(np.float32)
    return rows, rng.standard_normal((heads, d_model, key_width)), rng.standard_normal((key_heads, d_model, key_width))


def one_hot_rows(rng: np.random.Generator, query: np.ndarray, key: np.ndarray) -> Weights:
    """Rows that read off the queries and keys (heads, items, key_width) as they are."""
    return np.eye(query.shape[1]), query, key


def crowded(rng: np.random.Generator) -> Weights:
    """All keys nearly equal: their scores differ by less than float32 can tell, and float32 has another order."""
    items, _, heads, key_heads, key_width = sizes(rng)
    noise = rng.choice([0.01, 0.3, 3.0]) * ULP
    key = rng.uniform(1, 1.5, (key_heads, 1, key_width)) + noise * rng.standard_normal((key_heads, items, key_width))
    return one_hot_rows(rng, rng.uniform(1, 1.5, (heads, items, key_width)), key)


def rounded_down(rng: np.random.Generator) -> Weights:
    """Some numbers that the cast to float32 rounds down by nearly half a unit, the others up: the errors add up."""
    items, _, heads, key_heads, key_width = sizes(rng)
    down, up = 1 + 0.49 * ULP, 1 + 0.51 * ULP
    key = np.where(rng.random((key_heads, items, 1)) < 0.5, down, up) + np.zeros(key_width)
    return one_hot_rows(rng, np.full((heads, items, key_width), down), key)


def structured(rng: np.random.Generator) -> Weights:
    """Small whole numbers: thousands of equal scores."""
    return tuple(np.rint(part * rng.choice([0.7, 1.5])) for part in ordinary(rng))


def identical_rows(rng: np.random.Generator) -> Weights:
    rows, query, key = ordinary(rng)
    rows[rng.random(len(rows)) < 0.6] = rows[0]
    return rows, query, key


def many_zeros(rng: np.random.Generator) -> Weights:
    items, _, heads, key_heads, key_width = sizes(rng)
    query, key = rng.standard_normal((heads, items, key_width)), rng.standard_normal((key_heads, items, key_width))
    query[:, rng.random(items) < 0.7] = 0
    key[:, rng.random(items) < 0.3] = 0
    return one_hot_rows(rng, query, key)


def scaled(rng: np.random.Generator) -> Weights:
    """Weights far outside the range of float32, or of float64 when they are multiplied; heads of different sizes."""
    rows, query, key = ordinary(rng)
    one, other = rng.choice([-310, -160, -45, -30, 0, 30, 45, 100], size=2)
    spread = 10.0 ** (rng.choice([0, 3, 20]) * rng.uniform(-1, 1, (len(query), 1, 1)))
    return rows, query * 10.0**one * spread, key * 10.0**other


def one_long_key(rng: np.random.Generator) -> Weights:
    rows, query, key = ordinary(rng)
    rows[-1] *= 10.0 ** rng.choice([2, 6, 17])
    return rows, query, key


FAMILIES = (
    ordinary, crowded, rounded_down, structured, identical_rows, many_zeros, scaled, one_long_key,
)  # fmt: skip


def forced_threshold(rng: np.random.Generator, scores: np.ndarray) -> float:
    """On a score, one unit beside it, beside it by about the float32 bound, between two scores, or elsewhere."""
    ordered = np.unique(scores)
    place = int(rng.integers(len(ordered)))
    middle = float(ordered[place])
    far = max(abs(float(ordered[0])), abs(float(ordered[-1])))
    beside = [
        middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle + far * 2.0**-22 * rng.normal(),
        float(ordered[max(place - 1, 0)] / 2 + middle / 2), rng.choice([0.0, 1.0, -1e5, 1e300]), middle - 0.1 * far,
    ]  # fmt: skip
    return float(beside[rng.integers(len(beside))])


def disputed(rng: np.random.Generator, related: np.ndarray) -> Graph:
    """The graph of a threshold, often with some pairs flipped; or a random, an empty or a full graph."""
    kind = rng.integers(8)
    if kind in (0, 1):
        related = related ^ (rng.random(related.shape) < rng.choice([0.003, 0.1]))
    elif kind in (2, 3, 4):
        related = rng.random(related.shape) < (0.1, 0.0, 1.0)[kind - 2]
    return graph_of(related)


def graph_of(related: np.ndarray) -> Graph:
    sources, targets = np.nonzero(related)
    return Graph(len(related), sources, targets)


def all_in_float64(*arguments: Any) -> np.ndarray:
    """Takes the place of judge_mixed: every source is left open."""
    return np.arange(arguments[1].items)


def float64_evidence(layer: Layer, problem: Problem, projection: Projection) -> Evidence:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "judge_mixed", all_in_float64)
        return examine_pairs(layer, problem, projection, lambda done, total: None)


def assert_same(one: Evidence, other: Evidence) -> None:
    assert one.distances is not None
    assert other.distances is not None
    np.testing.assert_array_equal(one.distances, other.distances)
    assert replace(one, distances=None) == replace(other, distances=None)


@pytest.mark.parametrize("seeds", [range(130), pytest.param(range(130, 600), marks=pytest.mark.long)], ids=len)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_thousands_of_layers_have_the_evidence_of_float64(
    family: Callable[[np.random.Generator], Weights], seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    def counted(layer: Layer, graph: Graph, *arguments: Any) -> np.ndarray:
        left = judge_mixed(layer, graph, *arguments)
        seen["sources"] += graph.items
        seen["left"] += len(left)
        return left

    monkeypatch.setattr(pairwise, "judge_mixed", counted)
    monkeypatch.setattr(mixed_precision, "THREAD", 1)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows, query, key = family(rng)
        rule, threads = ("max", "sum")[seed % 2], int(rng.integers(1, 5))
        monkeypatch.setattr(mixed_precision, "cores", partial(int, threads))
        scores = Layer(query, key, 0.0, rule).scores(rows)
        threshold = forced_threshold(rng, scores)
        layer, problem = Layer(query, key, threshold, rule), Problem(disputed(rng, scores > threshold), rows)
        with np.errstate(over="ignore", invalid="ignore"):
            projection = project(layer, problem.rows)
            if not np.isfinite(projection.reach + threshold):
                continue
            mixed = examine_pairs(layer, problem, projection, lambda done, total: None)
            exact = float64_evidence(layer, problem, projection)
        assert_same(mixed, exact)
        if problem.items < 40 and seed % 3 == 0:
            assert_same(mixed, by_loops(layer, problem, projection))
        seen["wrong" if exact.witness else "open" if exact.open_pairs else "holds"] += 1
    assert min(seen["wrong"], seen["holds"]) > 20, seen
    assert seen["left"] < seen["sources"] * (0.9 if family in (structured, crowded, rounded_down) else 0.5), seen


def by_loops(layer: Layer, problem: Problem, projection: Projection) -> Evidence:
    """The evidence by the rules of certificates, pair by pair."""
    related, tau = problem.graph.adjacency(), layer.threshold
    scores = row_scores(layer.rule, projection, np.arange(problem.items))
    row_bounds = layer.rule.error_bound(projection.row_errors())
    low, high, missed, false_pairs, open_pairs = -np.inf, np.inf, 0, 0, 0
    tightest, worst, distances = (np.inf, 0.0, 0.0), (-np.inf, 0.0, (0, 0)), np.full(problem.items, np.inf)
    for i in range(problem.items):
        distance = [s - tau if r else tau - s for s, r in zip(scores[i], related[i], strict=True)]
        own = layer.rule.error_bound(projection.score_errors(i))
        clear = min(map(abs, distance)) > 2 * row_bounds[i]
        for j, d in enumerate(distance):
            bound = row_bounds[i] if clear else own[j]
            low = low if related[i, j] else max(low, scores[i, j])
            high = min(high, scores[i, j]) if related[i, j] else high
            wrong = -d - 2 * bound > 0
            missed += wrong and related[i, j]
            false_pairs += wrong and not related[i, j]
            open_pairs += not wrong and not d - bound > 0
            tightest = min(tightest, (d - bound, d, bound), key=lambda pair: pair[0])
            worst = max(worst, (-d - 2 * bound, bound, (i, j)), key=lambda pair: pair[0])
            distances[i] = min(distances[i], d - bound)
    margin = min(high - tau, tau - low)
    wrong = missed + false_pairs
    rounding = worst[1] if wrong else tightest[2] - (tightest[1] - margin)
    witness = pairwise._witness(layer, problem, *worst[2]) if wrong else None
    return Evidence(low, high, rounding, int(missed), int(false_pairs), int(open_pairs), witness, distances)


def single_scores(projection: Projection, rule: Rule, powers: tuple[int, int]) -> np.ndarray:
    """The scores in float32, each rounding done by numpy, in the order of the heads and of their numbers."""
    queries = np.ldexp(projection.queries, -powers[0]).astype(np.float32)
    keys = np.ldexp(projection.keys, -powers[1]).astype(np.float32)
    joined: list[np.ndarray] = []
    for head, query in enumerate(queries):
        total = np.zeros((projection.items, projection.items), np.float32)
        for c in range(projection.key_width):
            total = total + query[:, c, None] * keys[head * len(keys) // len(queries), None, c]
        joined.append(total)
    result = joined[0]
    for total in joined[1:]:
        result = np.maximum(result, total) if rule is MAX else result + total
    return result


@pytest.mark.parametrize("rule", ["max", "sum"])
def test_no_float32_score_strays_further_than_its_bound(rule: str) -> None:
    """In exact fractions; in some layers the error is more than a third of the bound."""
    worst = 0.0
    for seed in range(160):
        rng = np.random.default_rng(seed)
        family = FAMILIES[seed % len(FAMILIES)]
        rows, query, key = family(rng)
        rows, query, key = rows[:12], query[:, :, :3], key[:, :, :3]
        if family in (crowded, rounded_down, many_zeros):
            query, key = query[:, : len(rows)], key[:, : len(rows)]
            rows = rows[:, : len(rows)]
        layer = Layer(query, key, 0.0, rule)
        projection = project(layer, rows)
        if not np.isfinite(projection.reach):
            continue
        powers = mixed_precision._power(projection.queries), mixed_precision._power(projection.keys)
        errors, _ = score_error(layer.rule, projection, *powers)
        if not np.isfinite(errors).all():
            continue
        exact = row_scores(layer.rule, projection, np.arange(len(rows)))
        scale, single = Fraction(2) ** -sum(powers), single_scores(projection, layer.rule, powers)
        for source, target in np.ndindex(exact.shape):
            error = abs(Fraction(float(single[source, target])) - Fraction(float(exact[source, target])) * scale)
            assert error <= Fraction(float(errors[source]))
            worst = max(worst, float(error / Fraction(float(errors[source]))))
    assert worst > 0.3


def test_float32_that_overflows_or_underflows_decides_nothing_wrong() -> None:
    """Heads of 1e30 and 1e-30 side by side, and thresholds beyond float32: the verdicts are those of exact scores."""
    rng = np.random.default_rng(0)
    for seed in range(40):
        rows = rng.standard_normal((9, 4)).astype(np.float32)
        query, key = rng.standard_normal((2, 2, 4, 3))
        query[0] *= 10.0 ** rng.choice([-300, -30, 30, 140])
        key[1] *= 10.0 ** rng.choice([-300, -30, 30, 140])
        layer = Layer(query, key, 0.0, ("max", "sum")[seed % 2])
        heads = np.array(exact_head_scores(layer, rows))
        exact = heads.max(axis=0) if seed % 2 == 0 else heads.sum(axis=0)
        threshold = float(sorted(exact.ravel())[int(rng.integers(exact.size))]) * rng.choice([1.0, 1 - 1e-12, 1e5])
        related = exact > Fraction(threshold)
        layer = Layer(query, key, threshold, layer.rule)
        assert certify(layer, Problem(graph_of(related), rows)).verdict != "refuted"
        assert certify(layer, Problem(graph_of(~related), rows)).verdict != "holds"


def test_limits_are_rounded_outwards() -> None:
    numbers = np.array([0.1, -0.1, 1 + 2.0**-30, 3e38, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e-50, 0.0])
    with np.errstate(over="ignore"):
        down, up = (mixed_precision._rounded(numbers, towards) for towards in (-np.inf, np.inf))
    assert (down[:8] <= numbers[:8]).all()
    assert (up[:8] >= numbers[:8]).all()
    assert (down[8], up[8]) == (-np.inf, np.inf)
    assert down[4] == np.finfo(np.float32).max
    assert (np.abs(up[:3] - down[:3]) <= np.spacing(np.abs(up[:3]))).all()
