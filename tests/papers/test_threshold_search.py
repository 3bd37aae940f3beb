"""Threshold searches that are followed through rows, on a surface whose threshold is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.capacity import Goal, measure
from manyheads.capacity.measurement import predictions
from manyheads.papers import BEYOND as COLLECTION
from manyheads.papers import CAPACITY, Row, Rows, Scale, exhibit_named, exhibit_names
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.panel import Panel
from manyheads.papers.reproduction import known_rows, measure_rows
from manyheads.papers.threshold_search import SearchTrail, ThresholdSearch
from manyheads.sweep import Store
from manyheads.sweep.store.record import Meant
from manyheads.training import Run

QUICK = Scale(quick=True, seeds=2)


NAMES, BEYOND = exhibit_names(CAPACITY), exhibit_names(COLLECTION)


SMALL = Run(64, 16, 1, 1, seed=0)


def need(run: Run) -> int:
    """The key width that so many heads need: least in all with three heads, and never enough with one."""
    ideal = {1: 99, 2: 12, 3: 6}.get(run.heads, 5 + run.heads // 8)
    length = {8: 1.5, 16: 1.0, 32: 0.75, 64: 0.5}[run.context]
    return math.ceil(ideal * length * (20_000 / run.steps) ** 0.25)


def row(run: Meant, *, works: Callable[[Run], bool] = lambda run: run.key_width >= need(run)) -> Row:
    """Exact recovery needs one more in width, and never comes where the run stops early."""
    assert isinstance(run, Run)
    good = works(run)
    exact = run.key_width > need(run) and run.stop_above >= 1
    scores = {"micro_f1": 0.999 if good else 0.5 + 0.001 * run.seed, "exact_errors": 0 if exact else 3}
    return Row(run.id, "layer", "converged" if good else "limit", scores, run.steps, 0.1)


def finished(search: ThresholdSearch, made: Callable[[Run], Row] = row) -> tuple[SearchTrail, Rows, int]:
    """The search to its end, with the missing rows made in rounds."""
    rows, rounds = Rows(()), 0
    while missing := search.follow(rows).missing:
        rows, rounds = rows.joined(Rows(map(made, missing))), rounds + 1
    return search.follow(rows), rows, rounds


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Everything that the exhibits list, and every search to its end."""
    modules = [exhibit_named(name) for name in BEYOND]
    listed = [run for module in modules for run in module.runs(QUICK)]
    searches = {search for module in modules for search in module.searches(QUICK)}
    found = [one for trail, known, _ in map(finished, searches) for one in known.of(trail.runs)]
    return Rows([*map(row, listed), *found], machine={"cpu": "made up"})


def test_a_search_finds_what_the_whole_surface_holds() -> None:
    trail, _, rounds = finished(ThresholdSearch(SMALL, tuple(range(1, 33)), (0, 1, 2), 100))
    every = [replace(SMALL, heads=heads, key_width=width) for heads in range(1, 33) for width in range(1, 17)]
    smallest = min(run.key_budget for run in every if run.key_width >= need(run))
    assert (trail.threshold.key_budget, trail.threshold.heads) == (smallest, 3)
    assert rounds > 3  # it asked, was told, and asked again
    near = {run.heads for run in every if run.key_width >= need(run) and run.key_budget <= 1.1 * smallest}
    assert set(trail.smallest()) == near
    assert trail.smallest()[3] == smallest


def test_a_search_replayed_from_rows_is_the_measurement(tmp_path: Path) -> None:
    """`measure` trains for itself; the rows it leaves lead a search over the same runs to the same threshold."""
    like = Run(12, 8, 1, 1, seed=0, context=6, steps=6_000, stop_above=1.0, validation_contexts=20, test_contexts=50)
    for goal in (Goal(micro_f1=0.9), Goal(exact=True)):
        with Store.write(tmp_path / f"{goal.exact}.db") as store:
            found = measure(like, store, heads=(1, 2, 3), seeds=(0, 1, 2), goal=goal)
            records = store.records()
            _, limit = predictions(like, (1, 2, 3), None)
            search = ThresholdSearch(like, (1, 2, 3), (0, 1, 2), limit, goal)
            everything = Rows(map(Row.of, records))
        trail = search.follow(everything)
        assert found.key_budget is not None
        assert trail.threshold == found.threshold
        assert {run.id for run in trail.runs} == {record.id for record in records}
        assert not trail.missing


def test_a_search_says_what_it_lacks_and_finds_nothing_before() -> None:
    search = ThresholdSearch(SMALL, (1, 2, 3, 4), (0, 1, 2), 100)
    whole, rows, _ = finished(search)
    for lost in whole.runs:
        trail = search.follow(Rows(one for one in rows.of(whole.runs) if one.id != lost.id))
        assert lost in trail.missing
        assert trail.threshold.key_budget is None
        assert set(trail.runs) <= set(whole.runs)


def test_a_run_without_a_score_fails_its_point() -> None:
    lost = replace(SMALL, heads=3, key_width=6, seed=1)

    def made(run: Run) -> Row:
        return replace(row(run), status="diverged", scores={"micro_f1": None}) if run == lost else row(run)

    trail, _, _ = finished(ThresholdSearch(SMALL, (3,), (0, 1, 2), 100), made)
    assert trail.threshold.key_budget == 21  # the next width


def test_nothing_up_to_the_limit_is_no_threshold() -> None:
    trail, _, _ = finished(ThresholdSearch(SMALL, (1, 2), (0, 1), 20))
    assert not trail.missing
    assert trail.threshold.key_budget is None
    assert max(run.key_budget for run in trail.runs) <= 20


def test_what_is_foreseen_ends_and_turns_into_what_was_asked() -> None:
    search = ThresholdSearch(SMALL, tuple(range(1, 9)), (0, 1, 2), 100)
    whole, rows, _ = finished(search)
    assert not search.foresee(Rows(())).missing
    assert len(whole.runs) / 3 < len(search.foresee(Rows(())).runs) < 3 * len(whole.runs)
    assert search.foresee(rows) == whole


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem and three head counts: rounds of real training in a second."""
    monkeypatch.setattr(beyond_grid, "PROBLEMS", (Panel(64, 64),))
    monkeypatch.setattr(beyond_grid, "EVERY", (1, 2, 3))


@pytest.mark.usefixtures("tiny")
def test_runs_that_cannot_be_made_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was swept and still has no row is not asked for again and again."""
    asked: list[str] = []
    monkeypatch.setattr(
        "manyheads.papers.reproduction.sweep", lambda runs, *_, **__: asked.extend(run.id for run in runs)
    )
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(["beyond_grid"], store, QUICK)
        assert len(known_rows(["beyond_grid"], store, QUICK)) == 0
    assert len(rows) == 0
    assert len(asked) == len(set(asked)) > 0
