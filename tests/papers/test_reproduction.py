"""A reproduction draws every exhibit and trains every kind of run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.made_up import BUILDS, QUICK, made_up, roughly

from manyheads.papers import CAPACITY, Rows, exhibit_named, exhibit_names, needed, read_rows, write_rows
from manyheads.papers.exhibit import EXHIBITS
from manyheads.papers.exhibits.clocks import BuildClock, SplitClock
from manyheads.papers.exhibits.constructions import Build
from manyheads.papers.exhibits.softmax_trials import NeededWidth, SampledContexts
from manyheads.papers.panel import Panel
from manyheads.papers.paper_page import page
from manyheads.papers.reproduction import draw_pictures, measure_rows, missing_runs, report
from manyheads.papers.trial import Trial
from manyheads.sweep import Store

NAMES = exhibit_names(CAPACITY)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)], machine={"cpu": "made up"})


@pytest.mark.long
def test_everything_is_drawn_and_named(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    made = report(NAMES, rows, QUICK)
    assert all(one.done == one.runs for one in made.exhibits)
    pictures = draw_pictures(made, tmp_path)
    assert all(len(content) > 2_000 for content in pictures.values())
    shown_as_text = {name for name in NAMES if exhibit_named(name).draw is None}
    assert shown_as_text == {"table1", "table2"}
    assert {path.stem for path in pictures} == set(NAMES) - shown_as_text
    text = page(made)
    assert all(table in text for name in shown_as_text for table in exhibit_named(name).tables(rows, QUICK))
    assert "Quick: a sketch" in text
    assert all(verdict.says in text for verdict in made.verdicts)
    assert text.count("![") == len(pictures)


def test_missing_runs_are_counted_on_the_page(rows: Rows) -> None:
    fewer = Rows(rows.of(Panel(64, 16).runs(QUICK)))
    text = page(report(("fig3",), fewer, QUICK))
    missing = len(exhibit_named("fig3").runs(QUICK)) - len(fewer)
    assert f"{missing:,} of its" in text


def test_rows_of_several_machines_say_so(rows: Rows) -> None:
    others = Rows([], machine={"cpu": "another", "cores": "2"})
    joined = rows.joined(others).joined(others)
    assert joined.machine == {"cpu": "made up / another", "cores": "2"}
    assert "cpu made up / another" in page(report(("fig3",), joined, QUICK))


def test_what_a_machine_cannot_make_stays_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.exhibits.costs.SPLIT_SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.papers.exhibits.costs.HEADS", (1, 4))
    monkeypatch.setattr("manyheads.papers.exhibits.clocks.find_spec", lambda name: None)
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(("split_cost",), store, QUICK)
    (run,) = (run for run in needed(("split_cost",), QUICK) if run.id in rows)
    assert isinstance(run, SplitClock)
    assert run.channel == "kernel"
    (verdict,) = exhibit_named("split_cost").claims(rows, QUICK)
    assert verdict.outcome == "not attempted"


def test_every_kind_goes_through_store_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, dict[str, object]] = {
        "constructions": {"PROBLEMS": (BUILDS[1],), "CONSTANTS": (1.0, 12.0)},
        "softmax_construction": {"SIZES": ((48, 64),), "MENDED_HEADS": 4, "LENGTHS": (4, 8, 12, 16)},
        "construction_cost": {"ITEMS": (80, 90, 100), "WIDTHS": {80: ("red", "o")}},
        "one_or_many": {"SIZES": (32,), "D_MODEL": 64, "HEADS": (1, 2), "CONTEXT": 8, "CONTEXTS": 4},
    }
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    for name, constants in small.items():
        place = EXHIBITS[name]
        assert isinstance(place, str)
        module = place.partition(":")[0]
        for constant, value in constants.items():
            monkeypatch.setattr(f"{module}.{constant}", value)
    runs = needed(tuple(small), QUICK)
    assert {type(run) for run in runs} == {Build, SampledContexts, BuildClock, NeededWidth}
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(tuple(small), store, QUICK)
        assert not missing_runs(tuple(small), rows, QUICK)
    for run in runs:
        assert isinstance(run, Trial)
        (row,) = rows.of([run])
        assert run.EXCLUSIVE or row.scores == run.make()
    write_rows(tmp_path / "rows.jsonl.gz", rows, runs)
    made = report(tuple(small), read_rows(tmp_path / "rows.jsonl.gz"), QUICK)
    assert all(one.done == one.runs > 0 for one in made.exhibits)
    assert draw_pictures(made, tmp_path)
    assert [verdict.claim for verdict in made.verdicts] == ["18a", "18b", "19"]
    left_open = [verdict.claim for verdict in made.verdicts if verdict.outcome == "not attempted"]
    assert left_open == ["18a"]  # of the four constructions one was built
