"""Near pairs: a step over a share of the sources also counts the pairs of all other sources that may have a cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from manyheads import Graph, gaussian, permutation_graph, power_law_graph
from manyheads._native import Finding, Fitting64
from manyheads.errors import InputError
from manyheads.fitting import FitOptions, FitProgress, fit
from manyheads.fitting.descent import SHRUNK, DescentResult, Engine, after_failure, random_start
from manyheads.fitting.options import Descent
from manyheads.problem.problem import Problem

FLOORLESS = -math.inf
WEIGHT, RATIO = 3.0, 4.0
GRAPHS = {"permutation": permutation_graph(300, seed=0), "hubs": power_law_graph(250, 500, exponent=2.2, seed=1)}


def engine(graph: Graph, near_pairs: int, *, threads: int = 2, key_heads: int = 2, seed: int = 0) -> Fitting64:
    rows, rng = gaussian(graph.items, 12, seed=3), np.random.default_rng(seed)
    fitting = Fitting64(graph.row_starts, graph.targets, rows, 4, 5, threads, key_heads, near_pairs)
    query, key = rng.standard_normal((4, 12, 5)), rng.standard_normal((key_heads, 12, 5))
    fitting.set_weights(query, key, 3.0)
    return fitting


def step_of_no_length(
    fitting: Fitting64, share: float, *, ratio: float = 0.0
) -> tuple[Finding, tuple[ndarray, ndarray]]:
    """A step at rate 0: its finding and its gradient."""
    finding = fitting.burst([0.0], 0.9, 0.9, WEIGHT, ratio, share, math.inf, False).finding
    return finding, fitting.gradient()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("near_pairs", [100, 1000])
@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_a_step_after_a_look_has_the_gradient_of_all_pairs(name: str, threads: int, near_pairs: int, rule: str) -> None:
    """All pairs that have a cost are near, so that nothing is missing while the weights stay."""
    fitting = engine(GRAPHS[name], near_pairs, threads=threads)
    ratio = 0.0 if rule == "max" else RATIO
    levels = (FLOORLESS, 2.0, 4.0, 3.0, WEIGHT) if rule == "max" else (-1.0, 1.0, RATIO, (1 + RATIO) / 2, WEIGHT)
    whole, gradient = fitting.look(*levels), fitting.gradient()
    assert whole.costly > whole.missed > 0
    for _ in range(4):
        found, again = step_of_no_length(fitting, 0.3, ratio=ratio)
        assert found.costly == whole.costly
        assert found.loss == pytest.approx(whole.loss, rel=1e-12)
        assert (found.by_ceiling, found.by_summit) == pytest.approx((whole.by_ceiling, whole.by_summit), rel=1e-12)
        for one, other in zip(gradient, again, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * float(np.abs(one).max()))


def test_the_near_pairs_of_a_group_of_sources_are_limited() -> None:
    """A hard problem must not fill the memory: a group of 48 sources keeps 16·48 pairs for each near pair asked for."""
    limited, none = engine(GRAPHS["permutation"], 1), engine(GRAPHS["permutation"], 0)
    groups = math.ceil(300 / 48)
    for fitting in (limited, none):
        whole = fitting.look(FLOORLESS, 2.0, 4.0, 3.0, WEIGHT)
    found, own = (step_of_no_length(fitting, 1 / groups)[0] for fitting in (limited, none))  # one group is surveyed
    most = 16 * 48 * (groups - 1)
    assert whole.costly > own.costly + most + 300
    assert own.costly + most * 0.8 < found.costly <= own.costly + most + 300


def test_an_attempt_with_near_pairs_is_not_given_up_while_its_rate_is_high() -> None:
    graph, rows = permutation_graph(512, seed=0), np.ascontiguousarray(gaussian(512, 32, seed=1))
    descent = Descent(steps=800, rate=0.2, share=0.2, near_pairs=64, warm_up=30, widen=0)
    result = Engine(graph, rows, heads=6, key_width=8, descent=descent).run(
        random_start(32, heads=6, key_width=8, seed=0)
    )
    assert not result.separated  # its loss stops to fall at step 440, and still after the rate has fallen by half
    assert (1 + descent.hold) / 2 * descent.steps == descent.judged_from < result.steps < descent.steps


def test_after_a_failure_near_pairs_go_on_from_the_same_weights_at_half_the_rate() -> None:
    """Shrunk weights would bring back every relation; the first look at all pairs shows that few are missed."""
    problem = Problem(permutation_graph(512, seed=1), gaussian(512, 32, seed=1))
    descent = Descent(steps=400, rate=0.2, share=0.2, near_pairs=64, warm_up=30, widen=0)
    seen: list[FitProgress] = []
    options = FitOptions(seed=0, descent=descent, restarts=2, progress=seen.append)
    assert fit(problem, heads=9, key_width=8, options=options).certificate.holds
    last = [state for state in seen if state.attempt == 0][-1]
    after = [state for state in seen if state.attempt == 1]
    assert last.step == 400
    assert last.wrong > 0
    assert after[0].wrong < 100 < problem.relations
    assert after[-1].step <= 200


def test_an_attempt_knows_the_near_pairs_of_all_sources_from_its_first_step() -> None:
    """Before, only the relations of most sources counted in the first steps, and their scores grew far too large."""
    graph, rows = permutation_graph(512, seed=0), np.ascontiguousarray(gaussian(512, 32, seed=1))
    descent = Descent(steps=1, rate=1e-30, share=0.1, near_pairs=1_000, widen=0)
    query, key, _ = random_start(32, heads=8, key_width=8, seed=0)
    one, other = (Engine(graph, rows, heads=8, key_width=8, descent=descent) for _ in range(2))
    one._fitting.set_weights(6 * query, 6 * key, 3.0)
    whole = one._look()
    first_steps: list[float] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(fitting, name)

        def burst(self, *args: Any) -> Any:
            burst = fitting.burst(*args)
            first_steps.append(burst.finding.loss)
            return burst

    fitting, other._fitting = other._fitting, Watched()
    other.run((6 * query, 6 * key, 3.0))
    assert first_steps == [pytest.approx(whole.loss, rel=1e-6)]
    assert whole.loss > 0


def test_the_next_attempt_depends_on_what_a_step_looks_at() -> None:
    weights = random_start(12, heads=2, key_width=3, seed=0)
    failed = DescentResult(weights, (1.0, 0.0), separated=False, wrong=3, loss=1.0, steps=100)
    near = Descent(steps=100, rate=0.2, share=0.5, near_pairs=8)
    again, gentler = after_failure(failed, near)
    assert again is weights
    assert gentler == replace(near, steps=50, rate=0.1)
    for whole in (replace(near, share=1.0), replace(near, near_pairs=0)):
        (query, _, threshold), same = after_failure(failed, whole)
        assert same is whole
        np.testing.assert_array_equal(query, SHRUNK * weights[0])
        assert threshold == SHRUNK**2 * weights[2]


def test_without_near_pairs_a_share_counts_only_its_own_sources() -> None:
    fitting = engine(GRAPHS["permutation"], 0)
    whole = fitting.look(FLOORLESS, 2.0, 4.0, 3.0, WEIGHT)
    found, _ = step_of_no_length(fitting, 0.3)
    assert 0 < found.loss < 0.6 * whole.loss


def test_before_the_first_look_the_other_sources_count_with_their_relations_alone() -> None:
    graph = GRAPHS["permutation"]
    fitting, blind = engine(graph, 16), engine(graph, 0)
    first, _ = step_of_no_length(fitting, 0.3)
    share, _ = step_of_no_length(blind, 0.3)
    all_relations = engine(Graph(graph.items, graph.sources, graph.targets), 0).look(FLOORLESS, 1e9, 4.0, 3.0, WEIGHT)
    own_relations = engine(graph, 0)
    own_relations.burst([0.0], 0.9, 0.9, WEIGHT, 0.0, 0.3, math.inf, False)
    assert share.loss < first.loss < share.loss + all_relations.loss
    assert first.missed == all_relations.missed


def test_pairs_that_come_near_count_after_their_next_look() -> None:
    """A larger score costs only once its source was looked at, or where it was near before."""
    graph = GRAPHS["permutation"]
    rows, rng = gaussian(graph.items, 12, seed=3), np.random.default_rng(0)
    query, key = rng.standard_normal((4, 12, 5)), rng.standard_normal((2, 12, 5))
    fitting = Fitting64(graph.row_starts, graph.targets, rows, 4, 5, 2, 2, 8)
    fitting.set_weights(query, key, 9.0)
    fitting.look(FLOORLESS, 8.0, 10.0, 9.0, WEIGHT)
    fitting.set_weights(1.5 * query, key, 9.0)
    stale, _ = step_of_no_length(fitting, 0.3)
    whole = fitting.look(FLOORLESS, 8.0, 10.0, 9.0, WEIGHT)
    fresh, _ = step_of_no_length(fitting, 0.3)
    assert stale.costly < whole.costly == fresh.costly
    assert stale.loss < whole.loss


def test_the_same_seed_and_threads_give_the_same_weights() -> None:
    graph = GRAPHS["hubs"]

    def weights() -> tuple[ndarray, ndarray, float]:
        fitting = engine(graph, 16)
        fitting.look(FLOORLESS, 2.0, 4.0, 3.0, WEIGHT)
        fitting.burst([0.05] * 30, 0.98, 0.98, WEIGHT, 0.0, 0.2, math.inf, False)
        return fitting.weights()

    for one, other in zip(weights(), weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_near_pairs_separate_where_a_share_alone_does_not() -> None:
    """The shape is close to the smallest that holds; without near pairs the same steps leave relations unheld."""
    graph, d_model = permutation_graph(512, seed=0), 32
    rows = np.ascontiguousarray(gaussian(512, d_model, seed=1))
    start = random_start(d_model, heads=8, key_width=8, seed=0)
    wrong = {}
    for near_pairs in (0, 64):
        descent = Descent(steps=800, rate=0.1, share=0.2, near_pairs=near_pairs, widen=0)
        result = Engine(graph, rows, heads=8, key_width=8, descent=descent).run(start)
        wrong[near_pairs] = result.wrong
    assert wrong[64] <= 5
    assert wrong[0] > 20


def test_a_number_of_near_pairs_out_of_range_is_one_sentence() -> None:
    with pytest.raises(InputError, match="near_pairs"):
        Descent(near_pairs=-1)
    graph = GRAPHS["permutation"]
    with pytest.raises(ValueError, match="near_pairs"):
        Fitting64(graph.row_starts, graph.targets, gaussian(300, 12, seed=3), 4, 5, 1, None, -1)
