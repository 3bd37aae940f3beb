"""fit: what it returns is certified, for any graph, rule and map; what cannot be is refused or said to be wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import (
    Graph,
    InputError,
    Layer,
    certify,
    gaussian,
    permutation_graph,
    power_law_graph,
    random_graph,
    regular_graph,
    star_graph,
)
from manyheads.bounds import bit_key_budget
from manyheads.certificate import Certificate
from manyheads.fitting import (
    Descent,
    FitOptions,
    FitProgress,
    best_split,
    fit,
    fold,
    grow,
    linear_map,
    map_rows,
    predicted_shape,
    smallest,
    suitable_map,
)
from manyheads.fitting.descent import (
    SHRUNK,
    DescentResult,
    fewer_heads_start,
    narrowed_start,
    random_start,
    shrunk_start,
)
from manyheads.fitting.folding import unfold
from manyheads.fitting.layer_fit import MappedProblem
from manyheads.fitting.options import ShapeTrial, suitable_descent
from manyheads.fitting.shapes import most_heads, narrowest_band, splits
from manyheads.layer.rules import MAX, SOFTMAX, SUM
from manyheads.problem.problem import Problem

NONE = np.empty(0, dtype=np.int64)


# (graph, d_model, heads, key_width); head counts are any integers
CASES = {
    "permutation": (permutation_graph(96, seed=0), 24, 3, 6),
    "regular": (regular_graph(60, 3, seed=1), 20, 3, 7),
    "hubs": (power_law_graph(80, 160, exponent=2.3, seed=2), 24, 3, 8),
    "star out": (star_graph(40, direction="out"), 12, 4, 4),
    "star in": (star_graph(40, direction="in"), 12, 4, 4),
    "loops": (Graph(30, np.arange(30), np.arange(30)), 12, 1, 12),
    "dense": (random_graph(24, 300, seed=3), 20, 2, 16),
    "no relations": (Graph(20, NONE, NONE), 6, 1, 2),
    "all relations": (Graph(8, np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8)), 6, 1, 4),
    "one item": (Graph(1, np.array([0]), np.array([0])), 3, 1, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_fitted_certifies(name: str) -> None:
    graph, d_model, heads, key_width = CASES[name]
    embedding = gaussian(graph.items, d_model, seed=7)
    fitted = fit(Problem(graph, embedding), heads=heads, key_width=key_width, options=FitOptions(seed=0))
    assert fitted.certificate.holds, str(fitted.certificate)
    assert (fitted.layer.heads, fitted.layer.key_width, fitted.layer.rule) == (heads, key_width, MAX)
    assert fitted.layer.query.dtype == np.float32
    # the certificate in hand is the one anybody gets
    assert certify(fitted.layer, Problem(graph, embedding)).margin == fitted.certificate.margin
    np.testing.assert_array_equal(fitted.layer.recognise(embedding), graph.adjacency())


def test_the_same_seed_gives_the_same_layer() -> None:
    graph, embedding = permutation_graph(64, seed=0), gaussian(64, 16, seed=1)
    one, same, other = (
        fit(Problem(graph, embedding), heads=3, key_width=4, options=FitOptions(seed=seed)).layer for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.query, same.query)
    assert one.threshold == same.threshold
    assert not np.array_equal(one.query, other.query)


def test_the_trace_tells_pairs_wrong_margin_and_time() -> None:
    seen: list[FitProgress] = []
    fitted = fit(
        Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1)),
        heads=3,
        key_width=4,
        options=FitOptions(seed=0, progress=seen.append),
    )
    assert fitted.trace == tuple(seen)
    assert {standing.phase for standing in seen} == {"separate", "widen"}
    separating = [standing for standing in seen if standing.phase == "separate"]
    assert separating[0].margin < 0 < separating[-1].margin
    assert separating[0].wrong > 0
    assert [s.seconds for s in seen] == sorted(s.seconds for s in seen)
    assert "pairs wrong, margin" in str(seen[0])


def test_widening_makes_the_margin_larger() -> None:
    graph, embedding = permutation_graph(64, seed=0), gaussian(64, 16, seed=1)
    plain, wide = (
        fit(
            Problem(graph, embedding), heads=3, key_width=5, options=FitOptions(seed=0, descent=Descent(widen=steps))
        ).certificate
        for steps in (0, 300)
    )
    assert wide.normalised_margin > 3 * plain.normalised_margin > 0


def test_a_shape_too_small_comes_back_refuted() -> None:
    graph, embedding = permutation_graph(64, seed=0), gaussian(64, 16, seed=1)
    fitted = fit(
        Problem(graph, embedding),
        heads=1,
        key_width=3,
        options=FitOptions(seed=0, restarts=2, descent=Descent(steps=300)),
    )
    assert fitted.certificate.verdict == "refuted"
    assert fitted.attempts == 2
    assert fitted.certificate.missed + fitted.certificate.false_pairs > 0


@pytest.mark.parametrize(("heads", "key_width", "length"), [(1, 20, 8), (2, 24, 16), (1, 24, (9, 12))])
def test_softmax_ends_with_the_sound_certificate(heads: int, key_width: int, length: int | tuple[int, int]) -> None:
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 24, seed=1)
    fitted = fit(
        Problem(graph, embedding),
        heads=heads,
        key_width=key_width,
        options=FitOptions(seed=0, rule=SOFTMAX, context_length=length),
    )
    assert fitted.certificate.holds, str(fitted.certificate)
    assert fitted.layer.rule.name == "softmax"
    shortest, longest = (length, length) if isinstance(length, int) else length
    assert fitted.certificate.context_lengths == (shortest, longest)
    rng = np.random.default_rng(0)
    for size in (shortest, longest):  # and in contexts drawn at random
        for _ in range(50):
            context = rng.choice(32, size, replace=False)
            related = graph.adjacency()[np.ix_(context, context)]
            np.testing.assert_array_equal(fitted.layer.recognise(embedding[context]), related)


def test_a_context_holds_fewer_targets_than_a_hub_has() -> None:
    # 15 targets, of which contexts of 8 hold 7 beside the hub: a relation gets 1/7, and another pair 1/8
    hub = star_graph(16, direction="out")
    assert (
        MappedProblem.of(
            Problem(hub, gaussian(16, 32, seed=0)), FitOptions(seed=0, rule=SOFTMAX, context_length=8)
        ).most_heads
        == 1
    )
    looped = Graph(16, np.zeros(16, dtype=int), np.arange(16))
    assert (
        MappedProblem.of(
            Problem(looped, gaussian(16, 32, seed=0)), FitOptions(seed=0, rule=SOFTMAX, context_length=8)
        ).most_heads
        == 0
    )


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_length_of_the_rows_does_not_matter(scale: float) -> None:
    graph, rows = permutation_graph(48, seed=0), gaussian(48, 16, seed=1) * np.float32(scale)
    fitted = fit(Problem(graph, rows), heads=3, key_width=5, options=FitOptions(seed=0))
    assert fitted.certificate.holds
    assert certify(fitted.layer, Problem(graph, rows)).holds


def test_the_band_is_what_every_context_needs() -> None:
    """The worst contexts of the band's words, computed by softmax itself."""
    for heads, degree, length in ((1, 1, 8), (3, 1, 16), (2, 2, 64)):
        band = narrowest_band(heads=heads, degree=degree, lengths=(length, length))
        low, top = -band.half_width, band.half_width
        other = heads * math.exp(top) / (math.exp(top) + (length - 1) * math.exp(low))
        relation = math.exp(band.ratio * top)
        true = relation / (degree * relation + (length - degree) * math.exp(top))
        assert true > other
    with pytest.raises(InputError, match="too many for contexts"):
        narrowest_band(heads=8, degree=2, lengths=(8, 8))


@pytest.mark.parametrize(("length", "degree"), [(2, 1), (11, 1), (16, 1), (16, 3), (64, 2), (2048, 1)])
def test_the_most_heads_are_those_with_a_band(length: int, degree: int) -> None:
    most = most_heads(degree=degree, lengths=(length, length))
    if most:
        narrowest_band(heads=most, degree=degree, lengths=(length, length))
    with pytest.raises(InputError, match="too many for contexts"):
        narrowest_band(heads=most + 1, degree=degree, lengths=(length, length))


def test_a_search_under_softmax_tries_no_shape_that_is_impossible() -> None:
    graph, rows = permutation_graph(16, seed=0), gaussian(16, 16, seed=1)
    found = best_split(
        Problem(graph, rows),
        key_budget=16,
        options=FitOptions(seed=0, time_limit=3.0, rule=SOFTMAX, context_length=6),
    )
    assert {tried.heads for tried in found.trials} <= {1, 2, 3, 4, 5}
    assert any(tried.certified for tried in found.trials)


@given(seed=st.integers(0, 10**6), name=st.sampled_from(["whiten", "project", "project+whiten"]))
@settings(max_examples=25, deadline=None)
def test_maps_fold_into_the_weights_exactly(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((12, 5)) * np.array([1, 3, 10, 0.1, 1]) + 4).astype(np.float32)
    matrix = linear_map(rows, name)  # type: ignore[arg-type]
    query, key = rng.standard_normal((2, 3, 5, 4))
    layer = Layer(query, key, threshold=0.2)
    np.testing.assert_allclose(
        fold(layer, matrix).scores(rows), layer.scores(map_rows(rows, matrix)), rtol=1e-8, atol=1e-8
    )
    if name == "whiten":  # and back again, where the map has an inverse
        np.testing.assert_allclose(unfold(fold(layer, matrix), matrix).query, layer.query, rtol=1e-6, atol=1e-6)


def test_whitened_rows_fill_all_directions_and_projected_ones_lose_their_mean() -> None:
    rows = gaussian(400, 12, seed=0) * np.arange(1, 13, dtype=np.float32) + np.float32(2)
    white = map_rows(rows, linear_map(rows, "whiten"))
    strengths = np.linalg.eigvalsh(white.T @ white)
    assert strengths[-1] / strengths[0] < 1.5 < 100 < np.ptp(np.linalg.eigvalsh(rows.T @ rows.astype(float)))
    flat = map_rows(rows, linear_map(rows, "project"))
    assert np.abs(flat.mean(axis=0)).max() < 1e-6
    assert (suitable_map(rows), suitable_map(gaussian(400, 12, seed=0))) == ("whiten", "none")
    # centring is no linear map of the rows: none sends the mean to zero and keeps all else
    assert np.linalg.matrix_rank(flat) == 11


def test_an_anisotropic_embedding_is_fitted_behind_a_map() -> None:
    graph = permutation_graph(80, seed=0)
    rows = (gaussian(80, 24, seed=1) * np.geomspace(1, 30, 24) + 3).astype(np.float32)
    fitted = fit(Problem(graph, rows), heads=2, key_width=10, options=FitOptions(seed=0, map="whiten"))
    assert fitted.certificate.holds
    assert certify(fitted.layer, Problem(graph, rows)).holds  # of the rows as they are, not as map_rows


def test_growth_keeps_what_was_known_and_takes_fewer_steps() -> None:
    graph, embedding = permutation_graph(128, seed=0), gaussian(128, 32, seed=1)
    first = fit(Problem(graph, embedding), heads=3, key_width=8, options=FitOptions(seed=0))
    sources, targets = graph.sources.copy(), graph.targets.copy()
    kept = np.delete(np.arange(128), [3, 50])  # two relations go, two come
    changed = Graph(128, np.append(sources[kept], [3, 50]), np.append(targets[kept], [targets[50], targets[3]]))
    assert certify(first.layer, Problem(changed, embedding)).verdict == "refuted"
    grown = grow(first.layer, Problem(changed, embedding), options=FitOptions(seed=0))
    fresh = fit(Problem(changed, embedding), heads=3, key_width=8, options=FitOptions(seed=0))
    assert grown.certificate.holds
    assert fresh.certificate.holds
    assert grown.attempts == 1
    steps = [next(s.step for s in result.trace if s.margin > 0) for result in (grown, fresh)]
    assert steps[0] < steps[1] / 2


def test_growth_refuses_another_embedding() -> None:
    layer = Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), threshold=0.0)
    with pytest.raises(InputError, match="rows of 4 numbers"):
        grow(layer, Problem(permutation_graph(20, seed=0), gaussian(20, 5, seed=0)), options=FitOptions(seed=0))
    with pytest.raises(InputError, match="max or softmax"):
        grow(
            replace(layer, rule=SUM),
            Problem(permutation_graph(20, seed=0), gaussian(20, 4, seed=0)),
            options=FitOptions(seed=0),
        )


def test_the_search_goes_down_and_says_what_it_tried() -> None:
    graph, embedding = permutation_graph(48, seed=0), gaussian(48, 16, seed=1)
    reported: list[ShapeTrial] = []
    found = smallest(
        Problem(graph, embedding), options=FitOptions(seed=0, time_limit=2.0, workers=1, report=reported.append)
    )
    assert found.best is not None
    assert found.certificate is not None
    assert found.certificate.holds
    assert found.layer is not None
    assert found.layer.key_budget == found.best.key_budget == min(t.key_budget for t in found.trials if t.certified)
    assert found.best.key_budget < predicted_shape(graph, 16)[0]
    assert found.trials == tuple(reported)
    assert {"random", "narrowed"} <= {tried.start for tried in found.trials}
    assert found.seconds < 4
    only = smallest(Problem(graph, embedding), heads=2, options=FitOptions(seed=0, time_limit=0.5, workers=2))
    assert {tried.heads for tried in only.trials} == {2}


def test_a_search_without_success_does_not_run_away() -> None:
    # as on a machine of many cores: the search asks for all shapes before one of them has ended
    search = smallest(
        Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1)),
        options=FitOptions(seed=0, time_limit=0.2, workers=128),
    )
    assert max(tried.key_budget for tried in search.trials) <= 64


def test_a_search_returns_no_layer_that_its_certificate_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The descent says that a threshold separates; only the certificate decides."""
    problem = Problem(permutation_graph(16, seed=0), gaussian(16, 8, seed=1))
    judge = MappedProblem.judge

    def refuted(self: MappedProblem, result: DescentResult) -> tuple[Layer, Certificate]:
        layer, _ = judge(self, result)
        layer = replace(layer, threshold=layer.threshold + 1e6)
        return layer, certify(layer, problem)

    monkeypatch.setattr(MappedProblem, "judge", refuted)
    found = smallest(problem, options=FitOptions(seed=0, time_limit=1.0, workers=1))
    assert any(math.isfinite(tried.normalised_margin) for tried in found.trials)  # some attempts separated
    assert not any(tried.certified for tried in found.trials)
    assert (found.best, found.layer, found.certificate) == (None, None, None)


def test_the_best_split_has_the_widest_margin() -> None:
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 16, seed=1)
    found = best_split(Problem(graph, embedding), key_budget=12, options=FitOptions(seed=0, time_limit=10.0, workers=1))
    certified = [tried for tried in found.trials if tried.certified]
    assert {(t.heads, t.key_width) for t in found.trials} == set(splits(12, 16))
    assert found.best == max(certified, key=lambda tried: tried.normalised_margin)


def test_splits_use_the_budget_up() -> None:
    assert splits(12, 16) == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (11, 1), (12, 1)]
    assert splits(20, 4) == [(5, 4), (6, 3), (9, 2), (10, 2), (18, 1), (19, 1), (20, 1)]


def test_cut_starts_keep_the_strongest() -> None:
    query, key, threshold = random_start(9, heads=3, key_width=4, seed=0)
    narrow_query, narrow_key, _ = narrowed_start((query, key, threshold), key_width=3)
    assert narrow_query.shape == narrow_key.shape == (3, 9, 3)
    for q, k, nq, nk in zip(query, key, narrow_query, narrow_key, strict=True):
        strengths = np.linalg.svd(q @ k.T, compute_uv=False)
        assert np.linalg.norm(q @ k.T - nq @ nk.T) == pytest.approx(strengths[3])  # no rank-3 form is nearer
    query[1] *= 0.1
    fewer, _, _ = fewer_heads_start((query, key, threshold))
    np.testing.assert_array_equal(fewer, query[[0, 2]])


def test_a_shrunk_start_keeps_every_decision() -> None:
    """Scores and threshold shrink by one factor: every pair costs again, on the side where it was."""
    query, key, _ = random_start(9, heads=3, key_width=4, seed=0)
    rows = gaussian(20, 9, seed=1)
    failed = Layer(query, key, threshold=0.03)
    shrunk = Layer(*shrunk_start((query, key, failed.threshold)))
    assert 0 < failed.recognise(rows).sum() < 400
    np.testing.assert_array_equal(shrunk.recognise(rows), failed.recognise(rows))
    np.testing.assert_allclose(shrunk.scores(rows), SHRUNK**2 * failed.scores(rows))
    assert SHRUNK < 1


def test_the_bit_budget_counts_graphs() -> None:
    for items, relations, d_model, bits in ((20, 7, 2, 8), (64, 64, 3, 8), (40, 800, 4, 16), (300, 5_000, 5, 8)):
        exact = math.log2(math.comb(items**2, relations))
        assert bit_key_budget(items=items, relations=relations, d_model=d_model, bits=bits) == math.ceil(
            (exact / bits - 1) / (2 * d_model)
        )
    exact = math.log2(math.factorial(500))
    assert bit_key_budget(items=500, relations=500, d_model=3, bits=8, permutation=True) == math.ceil(
        (exact / 8 - 1) / 6
    )
    with pytest.raises(InputError, match="between 0 and 16"):
        bit_key_budget(items=4, relations=17, d_model=2, bits=8)


def test_what_cannot_be_is_refused() -> None:
    graph, embedding = permutation_graph(512, seed=0), gaussian(512, 16, seed=1)
    with pytest.raises(InputError, match=r"key budget of 3 is below the bit budget.*4 is the least"):
        fit(Problem(graph, embedding), heads=3, key_width=1, options=FitOptions(seed=0))
    with pytest.raises(InputError, match="below the bit budget"):
        smallest(Problem(graph, embedding), max_budget=2, options=FitOptions(seed=0, time_limit=1.0))
    named = graph.with_labels([f"item {n}" for n in range(512)])
    twins = embedding.copy()
    twins[77] = twins[5]
    with pytest.raises(InputError, match=r"rows 5 and 77 of the embedding \(item 5 and item 77\) are identical"):
        fit(Problem(named, twins), heads=8, key_width=16, options=FitOptions(seed=0))


@pytest.mark.parametrize(
    ("shape", "options", "sentence"),
    [
        ((0, 2), {}, "heads is a whole number from 1"),
        ((2, 0), {}, "key_width is a whole number from 1"),
        ((2, 6), {"restarts": 0}, "restarts is a whole number from 1"),
        ((2, 6), {"workers": 0}, "workers is a whole number from 1"),
        ((2, 6), {"time_limit": 0.0}, "time_limit is a number above 0"),
        ((2, 6), {"context_length": 8}, "every length"),
        ((2, 6), {"rule": SOFTMAX}, "give the context length"),
        ((2, 6), {"rule": SOFTMAX, "context_length": 1}, "run from 2 to the number"),
        ((2, 6), {"rule": SUM}, "rule max or softmax, not 'sum'"),
    ],
)
def test_malformed_options_are_refused(shape: tuple[int, int], options: dict[str, Any], sentence: str) -> None:
    problem = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
    with pytest.raises(InputError, match=sentence):
        fit(problem, heads=shape[0], key_width=shape[1], options=FitOptions(seed=0, **options))


def test_twins_with_the_same_relations_are_no_trouble() -> None:
    """Two items with one row that go to, and come from, the same items: one layer serves both."""
    embedding = gaussian(12, 8, seed=0)
    embedding[1] = embedding[0]
    graph = Graph(12, np.array([0, 1, 5, 5]), np.array([3, 3, 0, 1]))
    assert fit(Problem(graph, embedding), heads=1, key_width=6, options=FitOptions(seed=0)).certificate.holds
    with pytest.raises(InputError, match="relations to them differ"):
        fit(
            Problem(Graph(12, np.array([0, 1, 5]), np.array([3, 3, 0])), embedding),
            heads=1,
            key_width=6,
            options=FitOptions(seed=0),
        )


def test_a_time_limit_holds() -> None:
    graph, embedding = permutation_graph(400, seed=0), gaussian(400, 16, seed=1)
    fitted = fit(
        Problem(graph, embedding), heads=2, key_width=8, options=FitOptions(seed=0, time_limit=0.3, restarts=100)
    )
    assert fitted.seconds < 3
    assert fitted.certificate.verdict == "refuted"


def test_many_items_are_looked_at_in_shares_with_near_pairs() -> None:
    assert suitable_descent(2_047, 16) == Descent()
    crowded = suitable_descent(4_096, 128)
    assert crowded.share == pytest.approx(1 / 16)
    assert crowded.near_pairs > 0
    assert suitable_descent(4_096, 4_096).share == 1
    assert suitable_descent(10**6, 64).share == pytest.approx(1 / 64)


def test_the_rate_rises_holds_and_falls() -> None:
    rates = Descent(steps=100, rate=0.2, hold=0.5, warm_up=9).rates()
    assert rates[:10] == pytest.approx([0.02 * n for n in range(1, 11)])
    assert rates[10:51] == pytest.approx([0.2] * 41)
    assert 0 < rates[-1] < 0.001
    assert sorted(rates[50:], reverse=True) == rates[50:]
    assert Descent(steps=100, rate=0.2).rates()[0] == pytest.approx(0.2)


def test_shares_separate_a_problem_as_looks_at_all_pairs_do() -> None:
    graph, rows = permutation_graph(256, seed=0), gaussian(256, 32, seed=1)
    how = Descent(rate=0.05, beta1=0.99, beta2=0.99, share=0.5, steps=1_200, widen=20)
    fitted = fit(Problem(graph, rows), heads=4, key_width=9, options=FitOptions(seed=0, descent=how, restarts=2))
    assert fitted.certificate.holds


def test_a_fit_for_bfloat16_widens_the_margin_until_its_certificate_is_proved() -> None:
    problem = Problem(permutation_graph(64, seed=0), gaussian(64, 16, seed=1))
    plain, wide = (
        fit(problem, heads=2, key_width=7, options=FitOptions(seed=2, precision=precision))
        for precision in ("float64", "bfloat16")
    )
    assert plain.certificate.holds
    assert not plain.certificate.holds_in("bfloat16")  # else this test is too easy
    assert wide.certificate.holds_in("bfloat16")
    assert wide.certificate.normalised_margin > 1.5 * plain.certificate.normalised_margin
    assert certify(wide.layer, problem).precisions == {"float32": True, "bfloat16": True}
    found = smallest(problem, options=FitOptions(seed=2, precision="bfloat16", time_limit=2.0), heads=2)
    assert found.certificate is not None
    assert found.certificate.holds_in("bfloat16")
    with pytest.raises(Exception, match="float16"):  # the type checker of the tests may come first
        FitOptions(seed=0, precision="float16")  # type: ignore[arg-type]


def test_the_threads_of_a_fit_follow_the_number_of_items() -> None:
    """The library decides it, so that a call from Python is as fast as the command."""
    options = FitOptions(seed=0)
    assert [options.threads(items) for items in (2, 1_023, 1_024, 50_000)] == [1, 1, 2, 2]
    assert replace(options, workers=3).threads(2) == 3
