"""Sampled contexts, needed widths, and the verdict on claim 18b."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_up import made_up, made_up_scores, outcomes, trial_row

from manyheads import construct, gaussian, permutation_graph
from manyheads.construct import split_sources
from manyheads.papers import Row, Rows, Scale, exhibit_named
from manyheads.papers.exhibits.softmax_construction import ErrorShare
from manyheads.papers.exhibits.softmax_trials import (
    NeededWidth,
    SampledContexts,
    attention,
    fewest_wrong,
    limit_units,
    limit_wrong,
    random_contexts,
    sharpnesses,
    smallest_width,
)
from manyheads.problem.problem import Problem
from manyheads.sweep.store.record import Storable

FINE = Scale(seeds=2, up_to=512)


@pytest.mark.parametrize(("wrong", "of"), [(0, 75), (3, 40), (20, 20), (1, 1000)])
def test_intervals_are_clopper_and_pearsons(wrong: int, of: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    assert ErrorShare(wrong, of).interval == pytest.approx(proportion_confint(wrong, of, alpha=0.05, method="beta"))


@pytest.mark.parametrize("calibration", [0, 6])
def test_sampled_contexts_are_decided_by_the_layer(calibration: int) -> None:
    trial = SampledContexts(64, 72, 32, 40, 8, 60, calibration, seed=3)
    found = trial.make()
    scale, threshold = found["scale"], found["threshold"]
    assert scale is not None
    assert threshold is not None
    assert (scale == 1 and threshold == 0.5) == (calibration == 0)
    graph, embedding = permutation_graph(64, seed=3), gaussian(64, 72, seed=3)
    layer = construct.softmax(
        Problem(graph, embedding),
        key_width=40,
        seed=3,
        matching_size=32,
        scale=scale,
        threshold=threshold,
    )
    rng = np.random.default_rng((3, 8))
    random_contexts(rng, items=64, length=8, count=calibration)
    expected = Counter[str]()
    for context in random_contexts(rng, items=64, length=8, count=60):
        related = graph.adjacency()[np.ix_(context, context)]
        wrong = (layer.recognise(embedding[context]) != related).any(axis=1)
        for kind, rows in (("present", related.any(axis=1)), ("absent", ~related.any(axis=1))):
            if rows.any():
                expected[kind] += 1
                expected[f"{kind}_wrong"] += int(wrong[rng.choice(np.flatnonzero(rows))])
        expected["wrong"] += int(wrong.any())
    assert {name: found[name] for name in expected} == expected
    # the problem is one in which every count says something
    assert 0 < expected["present_wrong"] < expected["present"] < 60
    assert 0 < expected["absent_wrong"] < expected["absent"]


def test_attention_is_the_layers_score() -> None:
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 64, seed=0)
    layer = construct.softmax(Problem(graph, embedding), key_width=25, seed=0, matching_size=16)
    context = np.arange(3, 12)
    units = layer.head_scores(embedding) / 25
    np.testing.assert_allclose(attention(units, context, 5.0), layer.scores(embedding[context]), rtol=1e-12)


def test_published_contexts_decide_the_claim() -> None:
    def failing(run: Storable, *, mended: bool, share: float) -> Row:
        assert isinstance(run, SampledContexts)
        wrong = int(share * run.contexts) if bool(run.calibration) == mended else 0
        return trial_row(run, {**made_up_scores(run), "wrong": wrong})

    assert outcomes("softmax_construction", made_up) == {"18b": "reproduced"}
    assert outcomes("softmax_construction", lambda run: failing(run, mended=False, share=0.5)) == {"18b": "differs"}
    assert outcomes("softmax_construction", lambda run: failing(run, mended=True, share=1.0)) == {"18b": "reproduced"}


@given(st.lists(st.integers(0, 6), max_size=8), st.lists(st.integers(0, 6), max_size=8))
def test_the_best_threshold_has_the_fewest_wrong(false: list[int], true: list[int]) -> None:
    thresholds = np.arange(-0.5, 8)
    brute = min(sum(np.array(false) > t) + sum(np.array(true) <= t) for t in thresholds)
    assert fewest_wrong(np.array(false, dtype=float), np.array(true, dtype=float)) == brute


@given(st.integers(1, 3_000), st.integers(1, 3_000))
def test_the_smallest_width_is_near(needed_width: int, most: int) -> None:
    found = smallest_width(lambda width: width >= needed_width, most=most)
    if needed_width > most:
        assert found is None
    else:
        assert found is not None
        assert needed_width <= found <= max(needed_width * 1.05, needed_width)


def test_limits_of_the_heads_are_the_constructions() -> None:
    graph, embedding = permutation_graph(40, seed=0), gaussian(40, 24, seed=0)
    blocks = split_sources(graph, size=10)
    units, related = limit_units(embedding, blocks), graph.adjacency()
    joined, expected = units.max(axis=0), construct.limit(Problem(graph, embedding), blocks).window
    assert (joined[~related].max(), joined[related].min()) == pytest.approx((expected.low, expected.high))
    wrong = fewest_wrong(joined[~related], joined[related])
    assert wrong > 0
    assert limit_wrong(graph, embedding, blocks, None) == pytest.approx(wrong / 40)


def test_a_needed_width_separates_and_much_less_does_not() -> None:
    trial = NeededWidth("max", 48, 96, 2, draws=3, max_budget=2_000, seed=1)
    width = int(trial.make()["key_width"] or 0)
    graph, embedding = permutation_graph(48, seed=1), gaussian(48, 96, seed=1)

    def windows(key_width: int) -> list[bool]:
        found = []
        for draw in range(3):
            layer = construct.compressive(
                Problem(graph, embedding), key_width=key_width, seed=1 + draw, matching_size=24
            )
            scores, related = layer.scores(embedding), graph.adjacency()
            found.append(bool(scores[~related].max() < scores[related].min()))
        return found

    assert all(windows(width))
    assert not all(windows(width // 2))
    assert replace(trial, max_budget=2 * (width // 2)).make()["key_width"] is None


def test_where_the_limit_fails_no_width_is_tried() -> None:
    found = NeededWidth("max", 64, 16, 1, draws=3, max_budget=10**9, seed=0).make()
    assert found["key_width"] is None
    assert 0 < (found["limit_wrong"] or 0) <= 1


def test_softmax_needs_a_width_too() -> None:
    trial = NeededWidth("softmax", 32, 96, 2, draws=2, max_budget=2_000, seed=0, context=8, contexts=6)
    width = int(trial.make()["key_width"] or 0)
    graph, embedding = permutation_graph(32, seed=0), gaussian(32, 96, seed=0)
    contexts = random_contexts(np.random.default_rng(0), items=32, length=8, count=6)

    def decided(key_width: int, draw: int) -> bool:
        """By one scale and one threshold, through layers of their own."""
        for beta in sharpnesses(8):
            scale = beta / np.sqrt(key_width)
            layer = construct.softmax(
                Problem(graph, embedding), key_width=key_width, seed=draw, matching_size=16, scale=scale
            )
            related = [graph.adjacency()[np.ix_(context, context)] for context in contexts]
            scores = [layer.scores(embedding[context]) for context in contexts]
            low = max(found[~true].max() for found, true in zip(scores, related, strict=True))
            high = min(found[true].min(initial=np.inf) for found, true in zip(scores, related, strict=True))
            if low < high:
                return True
        return False

    assert all(decided(width, draw) for draw in range(2))
    assert not all(decided(max(1, width // 2), draw) for draw in range(2))


def test_the_caption_names_the_crossover_and_what_is_absent() -> None:
    module = exhibit_named("one_or_many")
    rows = Rows([made_up(run) for run in module.runs(FINE)])
    text = module.caption(rows, FINE)
    assert "several need less from m = 128 on" in text
    wide = Scale(seeds=2, up_to=1024)
    text = module.caption(Rows([made_up(run) for run in module.runs(wide)]), wide)
    assert "m = 1024: no width (3.0% of the relations wrong in the limit) with one head" in text
