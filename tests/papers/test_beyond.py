"""The exhibits beyond the paper on surfaces whose thresholds are known, and their commands."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.made_up import roughly
from support.surface import finished, surface_row

from manyheads.bounds import freedom_split
from manyheads.cli import main
from manyheads.cli.commands.paper import PaperCommand
from manyheads.papers import BEYOND as COLLECTION
from manyheads.papers import CAPACITY, Row, Rows, Scale, claim_exhibits, exhibit_named, exhibit_names, needed
from manyheads.papers.beyond import exact as beyond_exact
from manyheads.papers.beyond import freedom as beyond_freedom
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.beyond import sensitivity as beyond_sensitivity
from manyheads.papers.exhibit import EXHIBITS
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.paper_page import page
from manyheads.papers.reproduction import draw_pictures, report
from manyheads.papers.rows import write_rows
from manyheads.training import Run

QUICK = Scale(quick=True, seeds=2)
NAMES, BEYOND = exhibit_names(CAPACITY), exhibit_names(COLLECTION)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Everything that the exhibits list, and every search to its end."""
    modules = [exhibit_named(name) for name in BEYOND]
    listed = [run for module in modules for run in module.runs(QUICK)]
    searches = {search for module in modules for search in module.searches(QUICK)}
    found = [one for trail, known, _ in map(finished, searches) for one in known.of(trail.runs)]
    return Rows([*map(surface_row, listed), *found], machine={"cpu": "made up"})


def test_the_grid_is_set_beside_the_search(rows: Rows) -> None:
    panel = Panel(64, 16)
    (trail,) = [trail for one, trail in beyond_grid.trails(rows, QUICK) if one == panel]
    assert (trail.threshold.key_budget, trail.threshold.heads) == (18, 3)
    coarse = beyond_grid.smallest_on_grid(panel, rows, QUICK)
    assert set(coarse) <= set(HEADS)
    assert min(coarse.values()) > 18
    text = beyond_grid.caption(rows, QUICK)
    assert f"(64, 16): 18 at 3 × 6, grid {min(coarse.values())}" in text


def test_exact_recovery_needs_its_own_runs(rows: Rows) -> None:
    """The made-up runs that stop early are never exact; those that go on need one more in width."""
    for one in beyond_exact.recoveries(rows, QUICK):
        assert one.f1 is not None
        assert one.trained is not None
        assert one.stopped is not None
        assert one.stopped.key_budget is None
        if one.f1.key_budget is not None and one.trained.key_budget is not None:
            assert one.trained.key_budget > one.f1.key_budget
    assert "0 of 3 problems" in beyond_exact.caption(rows, QUICK)


def test_exact_recovery_on_the_grid_is_read_off_its_own_runs() -> None:
    panel = Panel(64, 16)
    budgets = [heads * width for heads, width in panel.shapes(QUICK)]

    def made(run: Run) -> Row:
        exact = run.key_budget >= 30 and (run.seed == 0 or run.key_budget >= 40)
        return Row(run.id, "layer", "converged", {"micro_f1": 1.0, "exact_errors": 0 if exact else 1}, 1, 0.1)

    found = beyond_exact.exact_on_grid(panel, Rows(map(made, panel.runs(QUICK))), QUICK)
    assert found.key_budget == min(budget for budget in budgets if budget >= 30)  # half of two seeds


def test_the_law_is_compared_over_the_same_head_counts(rows: Rows) -> None:
    found = beyond_freedom.compared(rows, QUICK)
    assert {one.kind for one in found} == set(beyond_freedom.KINDS) - {"regular graphs, m = 128, $d_{model}$ = 32"}
    for one in found:
        heads = beyond_grid.EVERY if "every" in one.kind else HEADS
        split = freedom_split(
            items=one.panel.items, relations=one.panel.relations, d_model=one.panel.d_model, heads=heads
        )
        assert split is not None
        assert one.predicted == math.prod(split)
        assert one.ratio == one.measured / math.prod(split)
    every = next(one for one in found if "every" in one.kind and one.panel == Panel(64, 16))
    assert (every.measured, every.predicted) == (18, 15)  # the check value of docs/reference/laws.md


def test_regular_graphs_are_compared_too() -> None:
    assert {panel.degree for panel in beyond_freedom.panels_of(Scale())} == {1, 2, 4, 8, 16, 32}


def test_sensitivity_tells_contexts_and_optimisers_apart(rows: Rows) -> None:
    found = beyond_sensitivity.VariantThresholds(rows, QUICK)
    panel = Panel(64, 16)
    paper = beyond_sensitivity.TrainingVariant(panel)
    budget = found.budget(paper)
    assert budget == 20  # 4 heads of 5: a power of two
    longer, shorter = (found.budget(replace(paper, length=length)) for length in (64, 8))
    assert longer is not None
    assert shorter is not None
    assert longer < budget < shorter
    assert {found.budget(setting) for setting in beyond_sensitivity.target_rates(panel)} == {budget}
    best = found.best(panel)
    assert best is not None
    assert best[0].step_factor == 4
    assert best[1] < budget


def test_every_setting_means_another_run() -> None:
    settings = [
        setting
        for panel in beyond_sensitivity.PROBLEMS
        for family in (beyond_sensitivity.lengths, beyond_sensitivity.target_rates, beyond_sensitivity.optimisers)
        for setting in family(panel)
    ]
    assert len({setting.run(Scale()).id for setting in settings}) == len(set(settings)) == 3 * (4 + 5 + 12 - 2)
    assert beyond_sensitivity.TrainingVariant(Panel(64, 16)).run(Scale()) == Panel(64, 16).run(1, 1, 0, Scale())


def test_everything_is_drawn_in_its_own_section(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    made = report(BEYOND, rows, QUICK)
    assert all(one.done == one.runs > 0 for one in made.exhibits)
    assert all(len(content) > 2_000 for content in draw_pictures(made, tmp_path).values())
    text = page(made)
    assert text.count("![") == len(BEYOND)
    assert "## Past the paper" in text


def test_rows_that_end_early_are_drawn_and_named(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fixed lists alone every search stands at its beginning."""
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    lists = [run for name in BEYOND for run in exhibit_named(name).runs(QUICK)]
    made = report(BEYOND, Rows(rows.of(lists)), QUICK)
    assert not made.verdicts
    assert draw_pictures(made, tmp_path)
    assert "runs are missing" in page(made)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem and three head counts: rounds of real training in a second."""
    monkeypatch.setattr(beyond_grid, "PROBLEMS", (Panel(64, 64),))
    monkeypatch.setattr(beyond_grid, "EVERY", (1, 2, 3))


@pytest.mark.usefixtures("tiny")
def test_the_command_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--quick", "--steps", "4000", "--seeds", "2", "--output", str(tmp_path / "out"), "--json"]
    stored, saved = ["--store", str(tmp_path / "p.db")], str(tmp_path / "rows.jsonl.gz")
    assert main(["paper", "beyond_grid", *common, *stored, "--save-rows", saved]) == 0
    first = json.loads(capsys.readouterr().out)
    (shown,) = first["exhibits"]
    assert "(64, 64): " in shown["caption"]
    assert shown["done"] == shown["runs"] > len(beyond_grid.runs(Scale(seeds=2, steps=4000, quick=True)))
    assert main(["paper", "beyond_grid", *common, *stored]) == 0
    again = capsys.readouterr()
    assert ", 0 are left" in again.err
    assert json.loads(again.out) == first
    assert main(["paper", "beyond_grid", *common, "--from-rows", saved]) == 0
    assert json.loads(capsys.readouterr().out) == first


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("beyond",), BEYOND),
        (("all",), NAMES),
        (("all", "beyond"), (*NAMES, *BEYOND)),
        (("fig3", "beyond_exact"), ("fig3", "beyond_exact")),
    ],
)
def test_beyond_is_asked_for_by_its_name(words: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert PaperCommand(what=words)._names()[0] == names


def test_rows_that_hold_more_than_the_paper_show_more(
    rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    # a copy: an entry that is deleted and set again would be the last of the registry for every later test
    others = {name: source for name, source in EXHIBITS.items() if name not in NAMES}
    monkeypatch.setattr("manyheads.papers.exhibit.EXHIBITS", others)
    claim_exhibits.cache_clear()  # the claims do not depend on the registry of the moment
    file, lists = tmp_path / "rows.jsonl.gz", [run for name in BEYOND for run in exhibit_named(name).runs(QUICK)]
    for runs, shown in ((needed(BEYOND, QUICK, rows), set(BEYOND)), (lists, set())):
        write_rows(file, rows, runs)
        common = ["--quick", "--seeds", "2", "--from-rows", str(file), "--output", str(tmp_path), "--json"]
        assert main(["paper", "all", *common]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert {one["name"] for one in facts["exhibits"]} - {"fig7"} == shown
