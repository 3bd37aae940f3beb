"""measure: against every point tried, within budgets, from where it stopped, and with what has no score."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import changed, make_run

from manyheads import Graph, InputError, Protocol, Task, permutation_graph, random_graph
from manyheads.capacity import (
    Budget,
    Goal,
    MeasuredProblem,
    MeasureProgress,
    law_regressions,
    measure,
    measure_protocol,
    points,
    stored_problems,
    threshold,
)
from manyheads.capacity.measurement import dividing_heads, predictions
from manyheads.capacity.search import MOST_WANTED, Search
from manyheads.capacity.store_summary import known_points
from manyheads.layer.rules import MAX, SOFTMAX, Rule
from manyheads.sweep import LayerTrainer, Store, sweep, threads
from manyheads.training import step_limit
from manyheads.training.protocol import Objective

# 16 items in 8 dimensions: small enough to try every point, and the threshold lies inside the range
LIKE = make_run(
    items=16, d_model=8, heads=1, key_width=1, seed=0, context=8, steps=3_000, validation_contexts=50,
    test_contexts=200, learning_rate=5e-3,
)  # fmt: skip
TASK, PROTOCOL = LIKE.task, LIKE.protocol
HEADS, SEEDS, GOAL = (1, 2, 4), range(3), Goal(micro_f1=0.95)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.write(tmp_path / "s.db")


def test_it_finds_what_trying_every_point_finds(store: Store) -> None:
    capacity = measure(TASK, store=store, protocol=PROTOCOL, heads=HEADS, seeds=SEEDS, goal=GOAL)
    assert capacity.complete
    assert capacity.key_budget is not None
    reach = capacity.key_budget + 4
    shapes = [(heads, width) for heads in HEADS for width in range(1, reach // heads + 1)]
    runs = {
        (heads, width, seed): changed(LIKE, heads=heads, key_width=width, seed=seed)
        for heads, width in shapes
        for seed in SEEDS
    }
    records = sweep(list(runs.values()), store)
    assert len(records) == len(runs)
    scores = [(*shape, GOAL.score(one)) for shape, one in zip(runs, records, strict=True)]
    everything = points((h, w, seed, score) for h, w, seed, score in scores if score is not None)
    assert sum(len(point.scores) for point in everything) == len(runs)
    found = threshold(everything, target=GOAL.target)
    assert (capacity.key_budget, capacity.heads) == (found.key_budget, found.heads)
    assert capacity.low is not None
    assert capacity.low <= capacity.key_budget
    assert capacity.high is None or capacity.high >= capacity.key_budget
    tried = {(point.heads, point.key_width): set(point.scores) for point in everything}
    near = [point for point in capacity.curve if point.key_budget <= reach]
    assert len(near) > len(HEADS)
    assert all(set(point.scores) <= tried[point.heads, point.key_width] for point in near)


def test_measuring_again_trains_nothing_and_says_the_same(store: Store) -> None:
    seen: list[MeasureProgress] = []
    first = measure(TASK, store=store, protocol=PROTOCOL, heads=HEADS, seeds=SEEDS, goal=GOAL)
    again = measure(TASK, store=store, protocol=PROTOCOL, heads=HEADS, seeds=SEEDS, goal=GOAL, progress=seen.append)
    assert first == again
    assert {watch.trained for watch in seen} == {0}


def test_a_store_may_be_a_file_or_nothing(tmp_path: Path) -> None:
    measured = partial(measure, TASK, protocol=PROTOCOL, heads=(2,), seeds=2, goal=GOAL)
    path, seen = tmp_path / "s.db", list[MeasureProgress]()
    kept, again = measured(store=path), measured(store=str(path), progress=seen.append)
    assert kept == again == measured()
    assert {one.trained for one in seen} == {0}
    with Store.write(path) as store:  # it was closed
        assert len(store.records()) == kept.runs


def test_a_goal_without_a_score_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no F1"):
        measure(replace(TASK, objective="values"), store=tmp_path / "s.db", heads=(1,), seeds=1)
    assert list(tmp_path.iterdir()) == []


def test_a_budget_of_runs_is_kept_and_taken_up_again(store: Store) -> None:
    other = Store.write(store.path.with_name("whole.db"))
    whole = measure(TASK, store=other, protocol=PROTOCOL, heads=HEADS, seeds=3, goal=GOAL)
    kept = [0]
    part = None
    while part is None or not part.complete:
        part = measure(TASK, store=store, protocol=PROTOCOL, heads=HEADS, seeds=SEEDS, goal=GOAL, budget=Budget(runs=7))
        kept.append(len(store.records()))
    assert part == whole
    assert kept == [*range(0, whole.runs, 7), whole.runs]


def test_a_budget_of_time_is_kept_and_concludes_nothing_from_what_it_cut_short(store: Store) -> None:
    endless = replace(PROTOCOL, steps=10**8, stop_above=1.0)
    clock = time.monotonic()
    capacity = measure(TASK, store=store, protocol=endless, heads=HEADS, seeds=SEEDS, budget=Budget(seconds=0.5))
    assert time.monotonic() - clock < 4
    assert not capacity.complete
    assert (capacity.key_budget, capacity.runs, capacity.curve) == (None, 0, ())


def test_runs_that_fail_end_the_measurement_without_a_verdict(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no")

    monkeypatch.setattr(LayerTrainer, "train", fail)
    capacity = measure(TASK, store=store, heads=(1, 2), seeds=SEEDS)
    assert capacity.key_budget is None
    assert capacity.unscored == capacity.failed == capacity.runs == 2  # a point's first seeds, and no more
    assert (capacity.status, capacity.failure, capacity.complete) == ("failed", "ArithmeticError: no", False)


def test_more_seeds_than_memory_are_not_listed() -> None:
    search = Search({1: 4, 2: 3}, range(10**12), target=0.9, limit=32, widest=8)
    search.tell({want: 1.0 for want in search.wanted()})
    wanted = search.wanted()
    assert wanted[:2] == [(1, 4, 2), (1, 4, 3)]
    assert len(wanted) == MOST_WANTED
    search.tell(dict.fromkeys(wanted, 1.0))
    assert search.wanted()[0] == (1, 4, MOST_WANTED + 2)
    search.tell(dict.fromkeys(search.wanted(), None))  # a point with a run that has no score does not work
    assert search.wanted()[0][1] > 4


def test_exact_recovery_is_half_of_the_seeds(store: Store) -> None:
    exact = Goal(exact=True)
    protocol = replace(PROTOCOL, stop_above=1.0)
    capacity = measure(TASK, store=store, protocol=protocol, heads=HEADS, seeds=SEEDS, goal=exact)
    assert capacity.key_budget is not None
    at = store.records({"key_budget": capacity.key_budget, "heads": capacity.heads or 0})
    assert sum(record.score("exact_errors") == 0 for record in at) >= len(at) / 2
    for point in capacity.curve:
        if point.key_budget < capacity.key_budget:
            assert point.mean < 0.5


def test_a_given_graph_is_measured(store: Store) -> None:
    graph = Graph(16, sources=np.arange(16), targets=np.roll(np.arange(16), 1))
    task = replace(TASK, graph=graph)
    capacity = measure(task, store=store, protocol=PROTOCOL, heads=(2,), seeds=(0, 1), goal=GOAL, workers=threads(1))
    assert capacity.task.relations == 16
    assert capacity.fields["graph"] == f"given:{graph.fingerprint}"
    assert capacity.runs > 0
    assert {record.status for record in store.records()} <= {"converged", "limit"}


@pytest.mark.parametrize("graph", ["random:16:20", "star-out:16", "star-in:16", "power-law:16:20:2.5"])
@pytest.mark.parametrize("embedding", ["one-hot", "sparse-binary:8"])
def test_every_kind_is_measured(store: Store, graph: str, embedding: str) -> None:
    task, protocol = Task(graph, embedding, context=8), replace(PROTOCOL, steps=200)
    budget = Budget(runs=4)
    capacity = measure(
        task, store=store, protocol=protocol, heads=(2,), seeds=(0, 1), budget=budget, workers=threads(1)
    )
    assert capacity.curve
    assert {(record.status, record.run["graph"]) for record in store.records()} == {("limit", graph)}


def test_the_search_starts_where_the_laws_say() -> None:
    starts, limit = predictions(Task("permutation:64", "gaussian:16"), (1, 2, 4))
    assert starts == {1: 29, 2: 8, 4: 4}  # one head: full rank is not enough, so the paper's budget
    assert limit == math.ceil(6 * 1.19 * 64 * 6 / 16)


def test_the_search_limit_of_a_given_graph_follows_its_own_law() -> None:
    """1.19 is the slope of permutations; a graph that is none has 0.46, however many relations it has."""
    limits = []
    for graph in (permutation_graph(512, seed=0), random_graph(512, 512, seed=0), random_graph(512, 600, seed=0)):
        task = Task(graph, "gaussian:16")
        limits.append((predictions(task, (1,))[1], 6 * task.relations * 9 / 16))
    assert [limit / law for limit, law in limits] == pytest.approx([1.19, 0.46, 0.46], rel=5e-3)


def test_a_measurement_trains_by_the_papers_limits() -> None:
    task = Task("permutation:256", "gaussian:16")
    assert measure_protocol(task) == Protocol(steps=30_000)
    assert measure_protocol(task, rule=SOFTMAX, steps=7) == Protocol(steps=7)
    assert measure_protocol(task, rule=SOFTMAX) == Protocol(steps=80_000)
    assert measure_protocol(task, goal=Goal(exact=True)) == Protocol(steps=30_000, stop_above=1.0)


@pytest.mark.parametrize(
    ("objective", "rule", "exact", "says"),
    [("values", MAX, False, "no F1"), ("edges", SOFTMAX, True, "which the rule softmax does not allow")],
)
def test_what_has_no_score_is_not_trained(
    store: Store, objective: Objective, rule: Rule, exact: bool, says: str
) -> None:
    task = replace(TASK, objective=objective)
    with pytest.raises(InputError, match=says):
        measure(task, store=store, rule=rule, heads=(1,), seeds=(0,), goal=Goal(exact=exact))
    assert not store.counts()


@pytest.mark.parametrize(("heads", "seeds"), [((), (0,)), ((1,), ()), ((0, 1), (0,))])
def test_nothing_to_measure_is_said(store: Store, heads: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"at least one head count|heads is a whole number from 1"):
        measure(TASK, store=store, heads=heads, seeds=seeds)


@pytest.mark.parametrize("make", [lambda: Budget(runs=0), lambda: Budget(seconds=0.0), lambda: Goal(micro_f1=1.5)])
def test_impossible_budgets_and_goals_are_said(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


def test_the_papers_step_limits() -> None:
    table_2 = {20_000: [(64, 16), (64, 64), (128, 16), (256, 32), (256, 64), (512, 32), (512, 64)], 30_000: [(256, 16)],
               80_000: [(512, 16), (1024, 128), (2048, 256), (1024, 32)], 200_000: [(4096, 512)]}  # fmt: skip
    found = {m_d: step_limit(items=m_d[0], d_model=m_d[1]) for sizes in table_2.values() for m_d in sizes}
    assert found == {m_d: steps for steps, sizes in table_2.items() for m_d in sizes}
    others = [step_limit(items=m, d_model=d) for m, d in ((48, 3), (48, 2), (513, 512))]
    assert others == [20_000, 80_000, 80_000]
    assert {step_limit(items=m, d_model=d, rule=SOFTMAX) for m, d in ((64, 16), (4096, 512))} == {80_000}


def test_a_store_tells_the_capacity_of_every_problem_in_it(store: Store) -> None:
    first, second = (
        measure(task, store=store, protocol=PROTOCOL, heads=HEADS, seeds=SEEDS, goal=GOAL)
        for task in (TASK, Task(TASK.graph, "gaussian:12", context=TASK.context))
    )
    sweep([changed(LIKE, seed=7)], store)  # one seed more at one point is no fuller point than all the others
    found = stored_problems(store.records(), GOAL)
    assert [problem.fields["d_model"] for problem in found] == [8, 12]
    assert found[1].threshold == second.threshold
    assert found[1].runs == second.runs
    assert found[0].runs == first.runs + 1
    assert second.key_budget is not None
    assert second.heads is not None
    assert found[1].measured == MeasuredProblem(16, 16, 12, second.key_budget, second.heads)


def test_laws_are_fitted_with_both_logarithms() -> None:
    sizes = ((64, 16), (128, 16), (256, 32), (512, 32))
    exact = [MeasuredProblem(m, m, d, key_budget=round(m * np.log2(m) / d), heads=m // d) for m, d in sizes]
    laws = {(law.quantity, law.against, law.through_origin): law.regression for law in law_regressions(exact)}
    assert len(laws) == 6
    assert laws["D_K*", "m'·log2 m/d_model", True].slope == pytest.approx(1)
    assert laws["D_K*", "m'·ln m/d_model", True].slope == pytest.approx(1 / np.log(2))
    assert laws["h*", "m'/d_model", False].slope == pytest.approx(1)
    assert law_regressions(exact[:2]) == []


def test_shared_keys_are_measured_by_their_weights(store: Store) -> None:
    task = TASK
    how: dict[str, Any] = {"protocol": PROTOCOL, "seeds": 2, "store": store, "workers": threads(1), "goal": GOAL}
    found = measure(task, heads=[1, 2, 4], key_heads=1, **how)
    assert found.shape is not None
    assert found.key_budget == found.shape.key_width
    working = [point for point in found.curve if len(point.scores) == 2 and point.mean >= 0.95]
    assert found.shape.parameters == min((one.heads + 1) * one.key_width * 8 for one in working)
    assert found.bits_per_weight is not None
    assert found.bits_per_weight.weights == found.shape.parameters
    assert found.bits_per_cached_number == found.bits_per_weight.log2_graphs / (16 * found.key_budget)
    assert found.fields["key_heads"] == 1
    runs = [record.run for record in store.records()]
    assert {(run["heads"], run.get("key_heads")) for run in runs} <= {(1, None), (2, 1), (4, 1)}
    again = measure(task, heads=[1, 2, 4], key_heads=1, **how)
    assert (again.threshold, len(store.records())) == (found.threshold, len(runs))  # nothing is trained again
    halves = measure(task, heads=[2, 4], key_heads="h/2", **how)
    assert {(point.heads, point.groups) for point in halves.curve} <= {(2, 1), (4, 2)}
    assert halves.summary().title.startswith("capacity: D_K*")
    own = measure(task, heads=[4], **how)
    assert own.threshold == measure(task, heads=[4], key_heads=4, **how).threshold
    assert all(point.key_heads is None for point in own.curve)


def test_stored_runs_with_another_number_of_key_heads_are_other_points(store: Store) -> None:
    own = changed(LIKE, heads=4, key_width=2)
    runs = {None: own, 2: changed(own, key_heads=2), 1: changed(own, key_heads=1)}
    scores = {record.id: record.score("micro_f1") for record in sweep(list(runs.values()), store)}
    assert len(set(scores.values())) == 3
    for key_heads, run in runs.items():
        search = Search({4: 1}, (0,), 0.95, 8, widest=8, key_heads={4: key_heads}.get)
        (point,) = known_points(store, search, run.fields, "native", GOAL)
        assert point.scores == ((0, scores[run.id]),)
        assert point.key_heads == key_heads


def test_head_counts_that_cannot_share_are_refused_or_left_out() -> None:
    task = Task("permutation:16", "gaussian:8", context=8)
    for heads, key_heads, says in (
        ([3], 2, "3 heads cannot share 2 key heads evenly"),
        ([1, 2], 2, "1 head cannot share 2 key heads evenly"),
        ([3], "h/2", "3 heads cannot share h/2 key heads: 3/2 is not whole"),
        ([4], "g/2", "key heads are a number such as 2, or h/2"),
        ([4], "h/0", "key heads are a number such as 2, or h/2"),
        ([4], 0, "key_heads is a whole number from 1"),
    ):
        with pytest.raises(InputError, match=says):
            measure(task, heads=heads, key_heads=key_heads)
    assert dividing_heads((1, 2, 4, 6), 4) == [4]
    assert dividing_heads((1, 2, 4, 6), "h/2") == [2, 4, 6]
    with pytest.raises(InputError, match="cannot share 5 key heads"):
        dividing_heads((1, 2, 4, 6), 5)
