"""Past the paper: searches followed through rows alone, and their exhibits on surfaces whose thresholds are known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.made_up import roughly

from manyheads.bounds import freedom_split
from manyheads.capacity import Goal, measure
from manyheads.capacity.measurement import predictions
from manyheads.cli import main
from manyheads.cli.commands.paper import Paper
from manyheads.papers import NAMES, Row, Rows, Scale
from manyheads.papers.beyond import exact as beyond_exact
from manyheads.papers.beyond import freedom as beyond_freedom
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.beyond import sensitivity as beyond_sensitivity
from manyheads.papers.exhibit import BEYOND, Searching, exhibit, needed
from manyheads.papers.page import page
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.reproduction import draw, known_rows, measure_rows, report
from manyheads.papers.rows import write_rows
from manyheads.papers.threshold_search import Hunt, Trail
from manyheads.sweep import Store
from manyheads.sweep.store.record import Meant
from manyheads.training import Run

QUICK = Scale(quick=True, seeds=2)
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


def hunted(hunt: Hunt, made: Callable[[Run], Row] = row) -> tuple[Trail, Rows, int]:
    """The hunt to its end, all that is missing made in rounds."""
    rows, rounds = Rows(()), 0
    while missing := hunt.follow(rows).missing:
        rows, rounds = rows.joined(Rows(map(made, missing))), rounds + 1
    return hunt.follow(rows), rows, rounds


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Everything that the exhibits list, and every search to its end."""
    modules = [exhibit(name) for name in BEYOND]
    listed = [run for module in modules for run in module.runs(QUICK)]
    hunts = {hunt for module in modules if isinstance(module, Searching) for hunt in module.hunts(QUICK)}
    found = [one for trail, known, _ in map(hunted, hunts) for one in known.of(trail.runs)]
    return Rows([*map(row, listed), *found], machine={"cpu": "made up"})


def test_a_hunt_finds_what_the_whole_surface_holds() -> None:
    trail, _, rounds = hunted(Hunt(SMALL, tuple(range(1, 33)), (0, 1, 2), 100))
    every = [replace(SMALL, heads=heads, key_width=width) for heads in range(1, 33) for width in range(1, 17)]
    smallest = min(run.key_budget for run in every if run.key_width >= need(run))
    assert (trail.threshold.key_budget, trail.threshold.heads) == (smallest, 3)
    assert rounds > 3  # it asked, was told, and asked again
    near = {run.heads for run in every if run.key_width >= need(run) and run.key_budget <= 1.1 * smallest}
    assert set(trail.smallest()) == near
    assert trail.smallest()[3] == smallest


def test_a_hunt_replayed_from_rows_is_the_measurement(tmp_path: Path) -> None:
    """`measure` trains for itself; the rows it leaves lead a hunt over the same runs to the same threshold."""
    like = Run(12, 8, 1, 1, seed=0, context=6, steps=6_000, stop_above=1.0, validation_contexts=20, test_contexts=50)
    for goal in (Goal(micro_f1=0.9), Goal(exact=True)):
        with Store.write(tmp_path / f"{goal.exact}.db") as store:
            found = measure(like, store, heads=(1, 2, 3), seeds=(0, 1, 2), goal=goal)
            records = store.records()
            _, limit = predictions(like, (1, 2, 3), None)
            hunt = Hunt(like, (1, 2, 3), (0, 1, 2), limit, goal)
            everything = Rows(map(Row.of, records))
        trail = hunt.follow(everything)
        assert found.key_budget is not None
        assert trail.threshold == found.threshold
        assert {run.id for run in trail.runs} == {record.id for record in records}
        assert not trail.missing


def test_a_hunt_says_what_it_lacks_and_finds_nothing_before() -> None:
    hunt = Hunt(SMALL, (1, 2, 3, 4), (0, 1, 2), 100)
    whole, rows, _ = hunted(hunt)
    for lost in whole.runs:
        trail = hunt.follow(Rows(one for one in rows.of(whole.runs) if one.id != lost.id))
        assert lost in trail.missing
        assert trail.threshold.key_budget is None
        assert set(trail.runs) <= set(whole.runs)


def test_a_run_without_a_score_fails_its_point() -> None:
    lost = replace(SMALL, heads=3, key_width=6, seed=1)

    def made(run: Run) -> Row:
        return replace(row(run), status="diverged", scores={"micro_f1": None}) if run == lost else row(run)

    trail, _, _ = hunted(Hunt(SMALL, (3,), (0, 1, 2), 100), made)
    assert trail.threshold.key_budget == 21  # the next width


def test_nothing_up_to_the_limit_is_no_threshold() -> None:
    trail, _, _ = hunted(Hunt(SMALL, (1, 2), (0, 1), 20))
    assert not trail.missing
    assert trail.threshold.key_budget is None
    assert max(run.key_budget for run in trail.runs) <= 20


def test_what_is_foreseen_ends_and_turns_into_what_was_asked() -> None:
    hunt = Hunt(SMALL, tuple(range(1, 9)), (0, 1, 2), 100)
    whole, rows, _ = hunted(hunt)
    assert not hunt.foresee(Rows(())).missing
    assert len(whole.runs) / 3 < len(hunt.foresee(Rows(())).runs) < 3 * len(whole.runs)
    assert hunt.foresee(rows) == whole


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
    assert (every.measured, every.predicted) == (18, 15)  # the check value of laws.md


def test_regular_graphs_are_compared_too() -> None:
    assert {panel.degree for panel in beyond_freedom.panels_of(Scale())} == {1, 2, 4, 8, 16, 32}


def test_sensitivity_tells_contexts_and_optimisers_apart(rows: Rows) -> None:
    found = beyond_sensitivity.Found(rows, QUICK)
    panel = Panel(64, 16)
    paper = beyond_sensitivity.Setting(panel)
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
    assert beyond_sensitivity.Setting(Panel(64, 16)).run(Scale()) == Panel(64, 16).run(1, 1, 0, Scale())


def test_everything_is_drawn_in_its_own_section(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    made = report(BEYOND, rows, QUICK)
    assert all(one.done == one.runs > 0 for one in made.shown)
    assert all(path.stat().st_size > 2_000 for path in draw(made, tmp_path))
    text = page(made)
    assert text.count("![") == len(BEYOND)
    assert "## Past the paper" in text


def test_rows_that_end_early_are_drawn_and_named(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fixed lists alone every search stands at its beginning."""
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    lists = [run for name in BEYOND for run in exhibit(name).runs(QUICK)]
    made = report(BEYOND, Rows(rows.of(lists)), QUICK)
    assert not made.verdicts
    assert draw(made, tmp_path)
    assert "runs are missing" in page(made)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem and three head counts: rounds of real training in a second."""
    monkeypatch.setattr(beyond_grid, "PROBLEMS", (Panel(64, 64),))
    monkeypatch.setattr(beyond_grid, "EVERY", (1, 2, 3))


@pytest.mark.usefixtures("tiny")
def test_the_command_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--quick", "--steps", "4000", "--seeds", "2", "--out", str(tmp_path / "out"), "--json"]
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
    assert Paper(what=words)._names() == names


def test_rows_that_hold_more_than_the_paper_show_more(
    rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    monkeypatch.setattr("manyheads.papers.NAMES", ())
    file, lists = tmp_path / "rows.jsonl.gz", [run for name in BEYOND for run in exhibit(name).runs(QUICK)]
    for runs, shown in ((needed(BEYOND, QUICK, rows), set(BEYOND)), (lists, set())):
        write_rows(file, rows, runs)
        common = ["--quick", "--seeds", "2", "--from-rows", str(file), "--out", str(tmp_path), "--json"]
        assert main(["paper", "all", *common]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert {one["name"] for one in facts["exhibits"]} - {"fig7"} == shown
