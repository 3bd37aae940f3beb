"""Threshold searches that are followed through rows, on a surface whose threshold is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.runs import changed, make_run
from support.surface import finished, need, surface_row

from manyheads.capacity import Goal, measure
from manyheads.capacity.measurement import predictions
from manyheads.papers import Row, Rows, Scale
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.panel import Panel
from manyheads.papers.reproduction import known_rows, measure_rows
from manyheads.papers.threshold_search import ThresholdSearch
from manyheads.sweep import Store
from manyheads.training import Run

QUICK = Scale(quick=True, seeds=2)


SMALL = make_run(64, 16, 1, 1, seed=0)


def test_a_search_finds_what_the_whole_surface_holds() -> None:
    trail, _, rounds = finished(ThresholdSearch(SMALL, tuple(range(1, 33)), (0, 1, 2), 100))
    every = [changed(SMALL, heads=heads, key_width=width) for heads in range(1, 33) for width in range(1, 17)]
    smallest = min(run.key_budget for run in every if run.key_width >= need(run))
    assert (trail.threshold.key_budget, trail.threshold.heads) == (smallest, 3)
    assert rounds > 3  # it asked, was told, and asked again
    near = {run.heads for run in every if run.key_width >= need(run) and run.key_budget <= 1.1 * smallest}
    assert set(trail.smallest()) == near
    assert trail.smallest()[3] == smallest


def test_a_search_replayed_from_rows_is_the_measurement(tmp_path: Path) -> None:
    """`measure` trains for itself; the rows it leaves lead a search over the same runs to the same D_K* and h*."""
    like = make_run(
        12, 8, 1, 1, seed=0, context=6, steps=6_000, stop_above=1.0, validation_contexts=20, test_contexts=50
    )
    for goal in (Goal(micro_f1=0.9), Goal(exact=True)):
        with Store.write(tmp_path / f"{goal.exact}.db") as store:
            found = measure(like.task, store=store, protocol=like.protocol, heads=(1, 2, 3), seeds=(0, 1, 2), goal=goal)
            records = store.records()
            _, limit = predictions(like.task, (1, 2, 3))
            search = ThresholdSearch(like, (1, 2, 3), (0, 1, 2), limit, goal)
            everything = Rows(map(Row.of, records))
        trail = search.follow(everything)
        assert found.key_budget is not None
        # the range of h* has another definition in the paper (App. A.2) than in `search_threshold`
        same = (trail.threshold.key_budget, trail.threshold.heads)
        assert same == (found.threshold.key_budget, found.threshold.heads)
        assert {run.id for run in trail.runs} <= {record.id for record in records}  # the range may take further runs
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
    lost = changed(SMALL, heads=3, key_width=6, seed=1)

    def made(run: Run) -> Row:
        return (
            replace(surface_row(run), status="diverged", scores={"micro_f1": None}) if run == lost else surface_row(run)
        )

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
