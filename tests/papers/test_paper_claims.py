"""Trials, claims 20 to 22, and all of them through store and rows: verdicts both ways on made-up rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made_up import BUILDS, QUICK, made_up, made_up_scores, outcomes, trial_row
from support.runs import make_run

from manyheads import gaussian, one_hot
from manyheads.cli import main
from manyheads.identity import fields_id
from manyheads.papers import CAPACITY, Row, Scale, exhibit, exhibit_names, needed, read_rows, write_rows
from manyheads.papers.effort import Speed
from manyheads.papers.exhibit import EXHIBITS
from manyheads.papers.exhibits.clocks import BuildClock, SplitClock, quickest
from manyheads.papers.exhibits.constructions import Build
from manyheads.papers.exhibits.regular_graphs import bounds_of
from manyheads.papers.exhibits.softmax_trials import NeededWidth, SampledContexts
from manyheads.papers.panel import REGULAR
from manyheads.papers.reproduction import draw_pictures, measure_rows, missing_runs, report
from manyheads.papers.trial import Trial, in_turns, trainer_of
from manyheads.sweep import Store
from manyheads.sweep.store.record import Storable
from manyheads.training import Run, train

FINE = Scale(seeds=2, up_to=512)


# --- trials and who makes them


def test_ids_are_those_of_the_meaning_alone() -> None:
    clock = SplitClock("torch", "scores", 64, 64, 16, (1, 2), 3)
    assert clock.id == SplitClock("torch", "scores", 64, 64, 16, (1, 2), 3).id
    assert clock.id != replace(clock, rounds=4).id
    run = make_run(64, 16, 4, 5, seed=0)
    assert fields_id(run.fields) == run.id  # as the store's runs have always been named


def test_clocks_come_first_and_alone() -> None:
    drawn, given = make_run(64, 64, 1, 5, seed=0), make_run(64, 64, 1, 5, seed=0, embedding=one_hot(64))
    clock = SplitClock("kernel", "training", 64, 64, 16, (1,), 1)
    turns = in_turns([drawn, given, clock], {})
    assert [(alone, group) for _, alone, group in turns] == [(True, [clock]), (False, [drawn, given])]
    assert trainer_of(drawn, {}).refusal(drawn) is None
    assert trainer_of(given, {}).refusal(given) is None


def test_one_hot_layers_train_on_one_hot_items() -> None:
    run = make_run(32, 32, 1, 8, seed=0, embedding=one_hot(32), steps=300)
    ended = trainer_of(run, {}).train(run, time_limit=None, keep_going=lambda: True)
    assert ended.scores["micro_f1"] == train(run).micro_f1


def test_estimates_count_trials() -> None:
    speed = Speed()
    few, many = (SplitClock("kernel", "training", 64, 64, 16, (1, 2), rounds) for rounds in (3, 30))
    assert 0 < speed.seconds([few]) < speed.seconds([many])
    assert speed.seconds([many], workers=8) == speed.seconds([many], workers=1)  # a clock is read alone


# --- claim 20


def test_the_quickest_round_counts() -> None:
    def sleepless(times: int) -> None:
        for _ in range(times):
            np.linalg.norm(np.arange(2_000.0))

    def twice(times: int) -> None:
        sleepless(2 * times)

    found = quickest({"once": sleepless, "twice": twice}, rounds=5)
    assert found["twice"] / found["once"] == pytest.approx(2, rel=0.6)


@pytest.mark.parametrize(("channel", "work"), [("torch", "scores"), ("torch", "training"), ("kernel", "training")])
def test_every_split_is_timed(channel: str, work: str) -> None:
    if channel == "torch":
        pytest.importorskip("torch")
    found = SplitClock(channel, work, 16, 16, 8, (1, 4, 16), 1).make()  # type: ignore[arg-type]
    assert list(found) == ["1", "4", "16"]
    assert all(value is not None and 0 < value < 1e5 for value in found.values())


def test_torch_computes_the_layers_scores() -> None:
    torch = pytest.importorskip("torch")
    from manyheads import Layer
    from manyheads.papers.exhibits.clocks import _channel, _tensors
    from manyheads.training.data import initial_weights

    run = make_run(64, 16, 4, 5, seed=0, context=8)
    rows, query, key = _tensors(run)
    expected = Layer(*initial_weights(run), 0.0).head_scores(gaussian(64, 16, seed=0)[:8])
    np.testing.assert_allclose(_channel(rows, query, key, 4).numpy(), expected, atol=1e-5)
    assert isinstance(rows, torch.Tensor)


def test_a_level_cost_reproduces_and_a_rising_one_differs() -> None:
    def rising(run: Storable) -> Row:
        assert isinstance(run, SplitClock)
        return trial_row(run, {str(heads): 100.0 + heads * (run.channel == "kernel") for heads in run.splits})

    assert outcomes("split_cost", made_up) == {"20": "reproduced"}
    assert outcomes("split_cost", rising) == {"20": "differs"}


# --- claim 21


def test_one_head_suffices_or_not() -> None:
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8, single=True)) == {"21": "reproduced"}
    assert outcomes("no_compression", lambda run: made_up(run, slope=0.8)) == {"21": "differs"}

    def wasteful(run: Storable) -> Row:
        slow = isinstance(run, Run) and run.heads == 1
        return made_up(run, slope=2.0 if slow else 0.8, single=True)

    assert outcomes("no_compression", wasteful) == {"21": "differs"}

    def refuted(run: Storable) -> Row:
        if isinstance(run, Build):
            return trial_row(run, {**made_up_scores(run), "paper": int(run.seed > 0)})
        return made_up(run, slope=0.8, single=True)

    assert outcomes("no_compression", refuted) == {"21": "differs"}


# --- claim 22


def test_bounds_are_those_of_the_formulas() -> None:
    for panel in REGULAR:
        found = bounds_of(panel)
        assert found.construction == panel.degree * 4 * 5  # m'/d = 4r heads of ⌈ln 128⌉ = 5
        assert found.proved == 128 * panel.degree
        graphs = math.comb(128 * 127, 128 * panel.degree)
        assert found.lower == pytest.approx((math.log2(graphs) / 32 - 1) / 64)


@pytest.mark.parametrize(("slope", "verdict"), [(0.46, "reproduced"), (0.58, "reproduced"), (0.25, "differs")])
def test_thresholds_slightly_below_the_construction(slope: float, verdict: str) -> None:
    found = outcomes("bounds_gap", lambda run: made_up(run, slope=slope, single=True), FINE)
    assert found == {"22a": verdict, "22b": "reproduced"}


# --- all of it


@pytest.mark.parametrize("name", ["constructions", "softmax_construction"])
def test_what_is_left_out_is_not_judged(name: str) -> None:
    assert set(outcomes(name, made_up, Scale(up_to=64)).values()) == {"not attempted"}


def test_what_a_machine_cannot_make_stays_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.exhibits.costs.SPLIT_SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.papers.exhibits.costs.HEADS", (1, 4))
    monkeypatch.setattr("manyheads.papers.exhibits.clocks.find_spec", lambda name: None)
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(("split_cost",), store, QUICK)
    assert [run.channel for run in needed(("split_cost",), QUICK) if run.id in rows] == ["kernel"]
    (verdict,) = exhibit("split_cost").claims(rows, QUICK)
    assert verdict.outcome == "not attempted"


def test_the_command_makes_clocks_and_one_hot_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.papers.exhibits.costs.SPLIT_SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.papers.exhibits.costs.HEADS", (1, 4))
    common = ["--quick", "--steps", "20", "--seeds", "2", "--store", str(tmp_path / "p.db"), "--output", str(tmp_path)]
    assert main(["paper", "split_cost", "no_compression", *common, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(one["done"] == one["runs"] for one in facts["exhibits"])
    assert {claim["claim"] for claim in facts["claims"]} == {"20", "21"}


def test_every_kind_goes_through_store_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "constructions": {"PROBLEMS": (BUILDS[1],), "CONSTANTS": (1.0, 12.0)},
        "softmax_construction": {"SIZES": ((48, 64),), "MENDED_HEADS": 4, "LENGTHS": (4, 8, 12, 16)},
        "construction_cost": {"ITEMS": (80, 90, 100), "WIDTHS": {80: ("red", "o")}},
        "one_or_many": {"SIZES": (32,), "D_MODEL": 64, "HEADS": (1, 2), "CONTEXT": 8, "CONTEXTS": 4},
    }
    for name, constants in small.items():
        module = EXHIBITS[name].partition(":")[0]  # type: ignore[union-attr]
        for constant, value in constants.items():
            monkeypatch.setattr(f"{module}.{constant}", value)
    runs = needed(tuple(small), QUICK)
    assert {type(run) for run in runs} == {Build, SampledContexts, BuildClock, NeededWidth}
    with Store.write(tmp_path / "p.db") as store:
        rows = measure_rows(tuple(small), store, QUICK)
        assert not missing_runs(tuple(small), rows, QUICK)
    for run in runs:
        (row,) = rows.of([run])
        assert run.ALONE or row.scores == run.make()
    write_rows(tmp_path / "rows.jsonl.gz", rows, runs)
    made = report(tuple(small), read_rows(tmp_path / "rows.jsonl.gz"), QUICK)
    assert all(one.done == one.runs > 0 for one in made.exhibits)
    assert draw_pictures(made, tmp_path)
    assert [verdict.claim for verdict in made.verdicts] == ["18a", "18b", "19"]
    left_open = [verdict.claim for verdict in made.verdicts if verdict.outcome == "not attempted"]
    assert left_open == ["18a"]  # of the four constructions one was built


def test_made_up_scores_fit_every_trial() -> None:
    trials = [run for run in needed(exhibit_names(CAPACITY), QUICK) if isinstance(run, Trial)]
    assert trials
    assert all(made_up_scores(run) for run in trials)
