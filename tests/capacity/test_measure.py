"""measure: against every point tried, within budgets, from where it stopped, and with what has no score."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyheads import Graph, InputError, fingerprint
from manyheads.capacity import Budget, Goal, Measured, Watch, fit_laws, measure, points, problems, threshold
from manyheads.capacity.measurement import predictions
from manyheads.sweep import LayerTrainer, Store, grid, sweep, threads
from manyheads.training import Run, step_limit

# 16 items in 8 dimensions: small enough to try every point, and the threshold lies inside the range
LIKE = Run(
    items=16, d_model=8, heads=1, key_width=1, seed=0, context=8, steps=3_000, validation_contexts=50,
    test_contexts=200, learning_rate=5e-3,
)  # fmt: skip
HEADS, SEEDS, GOAL = (1, 2, 4), range(3), Goal(micro_f1=0.95)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.write(tmp_path / "s.db")


def test_it_finds_what_trying_every_point_finds(store: Store) -> None:
    capacity = measure(LIKE, store, heads=HEADS, seeds=SEEDS, goal=GOAL)
    assert capacity.complete
    assert capacity.key_budget is not None
    reach = capacity.key_budget + 4
    shapes = [(heads, width) for heads in HEADS for width in range(1, reach // heads + 1)]
    runs = {
        (heads, width, seed): replace(LIKE, heads=heads, key_width=width, seed=seed)
        for heads, width in shapes
        for seed in SEEDS
    }
    records = sweep(list(runs.values()), store)
    assert len(records) == len(runs)
    everything = points((*shape, GOAL.score(one)) for shape, one in zip(runs, records, strict=True))
    found = threshold(everything, target=GOAL.target)
    assert (capacity.key_budget, capacity.heads) == (found.key_budget, found.heads)
    assert capacity.low is not None
    assert capacity.low <= capacity.key_budget
    assert capacity.high is None or capacity.high >= capacity.key_budget
    tried = {(point.heads, point.key_width): set(point.scores) for point in everything}
    assert all(set(p.scores) <= tried.get((p.heads, p.key_width), set(p.scores)) for p in capacity.curve)


def test_measuring_again_trains_nothing_and_says_the_same(store: Store) -> None:
    seen: list[Watch] = []
    first = measure(LIKE, store, heads=HEADS, seeds=SEEDS, goal=GOAL)
    again = measure(LIKE, store, heads=HEADS, seeds=SEEDS, goal=GOAL, watch=seen.append)
    assert first == again
    assert {watch.trained for watch in seen} == {0}


def test_a_budget_of_runs_is_kept_and_taken_up_again(store: Store) -> None:
    whole = measure(LIKE, Store.write(store.path.with_name("whole.db")), heads=HEADS, seeds=SEEDS, goal=GOAL)
    kept = [0]
    part = None
    while part is None or not part.complete:
        part = measure(LIKE, store, heads=HEADS, seeds=SEEDS, goal=GOAL, budget=Budget(runs=7))
        kept.append(len(store.records()))
    assert part == whole
    assert kept == [*range(0, whole.runs, 7), whole.runs]


def test_a_budget_of_time_is_kept_and_concludes_nothing_from_what_it_cut_short(store: Store) -> None:
    endless = replace(LIKE, steps=10**8, stop_above=1.0)
    clock = time.monotonic()
    capacity = measure(endless, store, heads=HEADS, seeds=SEEDS, budget=Budget(seconds=0.5))
    assert time.monotonic() - clock < 4
    assert not capacity.complete
    assert (capacity.key_budget, capacity.runs, capacity.curve) == (None, 0, ())


def test_runs_without_a_score_are_counted_and_do_not_work(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no")

    monkeypatch.setattr(LayerTrainer, "train", fail)
    capacity = measure(LIKE, store, heads=(1, 2), seeds=SEEDS)
    assert capacity.key_budget is None
    assert capacity.unscored == capacity.runs > 0


def test_exact_recovery_is_half_of_the_seeds(store: Store) -> None:
    exact = Goal(exact=True)
    capacity = measure(replace(LIKE, stop_above=1.0), store, heads=HEADS, seeds=SEEDS, goal=exact)
    assert capacity.key_budget is not None
    at = store.records({"key_budget": capacity.key_budget, "heads": capacity.heads or 0})
    assert sum(record.score("exact_errors") == 0 for record in at) >= len(at) / 2
    for point in capacity.curve:
        if point.key_budget < capacity.key_budget:
            assert point.mean < 0.5


def test_a_given_graph_is_measured(store: Store) -> None:
    graph = Graph(16, sources=np.arange(16), targets=np.roll(np.arange(16), 1))
    like = replace(LIKE, graph=fingerprint(graph))
    capacity = measure(like, store, heads=(2,), seeds=(0, 1), goal=GOAL, graph=graph, workers=threads(1))
    assert capacity.relations == 16
    assert capacity.runs > 0
    with pytest.raises(InputError, match="impossible"):
        measure(like, store, heads=(2,), seeds=(0, 1))


def test_the_search_starts_where_the_laws_say() -> None:
    like = Run(items=64, d_model=16, heads=1, key_width=1, seed=0)
    starts, limit = predictions(like, (1, 2, 4), None)
    assert starts == {1: 29, 2: 8, 4: 4}  # one head: full rank is not enough, so the paper's budget
    assert limit >= 6 * 28


@pytest.mark.parametrize(
    ("like", "exact", "says"),
    [
        (replace(LIKE, objective="values"), False, "no F1"),
        (replace(LIKE, rule="softmax"), True, "which the rule softmax does not allow"),
    ],
)
def test_what_has_no_score_is_not_trained(store: Store, like: Run, exact: bool, says: str) -> None:
    with pytest.raises(InputError, match=says):
        measure(like, store, heads=(1,), seeds=(0,), goal=Goal(exact=exact))
    assert not store.counts()


@pytest.mark.parametrize(("heads", "seeds"), [((), (0,)), ((1,), ()), ((0, 1), (0,))])
def test_nothing_to_measure_is_said(store: Store, heads: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least one head count"):
        measure(LIKE, store, heads=heads, seeds=seeds)


@pytest.mark.parametrize("make", [lambda: Budget(runs=0), lambda: Budget(seconds=0.0), lambda: Goal(micro_f1=1.5)])
def test_impossible_budgets_and_goals_are_said(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


def test_the_papers_step_limits() -> None:
    table_2 = {20_000: [(64, 16), (64, 64), (128, 16), (256, 32), (256, 64), (512, 32), (512, 64)], 30_000: [(256, 16)],
               80_000: [(512, 16), (1024, 128), (2048, 256), (1024, 32)], 200_000: [(4096, 512)]}  # fmt: skip
    assert all(step_limit(*size) == steps for steps, sizes in table_2.items() for size in sizes)
    assert [step_limit(48, 3), step_limit(48, 2), step_limit(513, 512)] == [20_000, 80_000, 80_000]
    assert step_limit(64, 16, "softmax") == step_limit(4096, 512, "softmax") == 80_000


def test_a_store_tells_the_capacity_of_every_problem_in_it(store: Store) -> None:
    other = replace(LIKE, d_model=12)
    first, second = (measure(like, store, heads=HEADS, seeds=SEEDS, goal=GOAL) for like in (LIKE, other))
    sweep(grid(LIKE, {"seed": [7]}), store)  # one seed more at one point is no fuller point than all the others
    found = problems(store.records(), GOAL)
    assert [problem.meaning["d_model"] for problem in found] == [8, 12]
    assert found[1].threshold == second.threshold
    assert found[1].runs == second.runs
    assert found[0].runs == first.runs + 1
    assert found[1].measured == Measured(16, 16, 12, second.key_budget, second.heads)


def test_laws_are_fitted_with_both_logarithms() -> None:
    sizes = ((64, 16), (128, 16), (256, 32), (512, 32))
    exact = [Measured(m, m, d, key_budget=round(m * np.log2(m) / d), heads=m // d) for m, d in sizes]
    laws = {(law.quantity, law.against, law.through_origin): law.fit for law in fit_laws(exact)}
    assert len(laws) == 6
    assert laws["D_K*", "m'·log2 m/d_model", True].slope == pytest.approx(1)
    assert laws["D_K*", "m'·ln m/d_model", True].slope == pytest.approx(1 / np.log(2))
    assert laws["h*", "m'/d_model", False].slope == pytest.approx(1)
    assert fit_laws(exact[:2]) == []
