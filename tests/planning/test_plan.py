"""Advice: consistent with the bounds it is made of, honest about what it does not know."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import InputError, gaussian, permutation_graph, random_graph, star_graph, step_limit
from manyheads.bounds import Shape, freedom_key_width, freedom_needed, graph_bit_key_budget
from manyheads.bounds.inverse import relations_by_freedom
from manyheads.cli import main
from manyheads.files import write_embedding, write_graph
from manyheads.planning import plan, prediction, trials
from manyheads.planning.advice_check import points
from manyheads.planning.capacity_map import capacity_map, head_curve
from manyheads.planning.prediction import freedom_law, predict
from manyheads.planning.promise import promise
from manyheads.planning.split import split
from manyheads.training import Run
from manyheads.training.outcome import Check, Outcome, Progress

FIT = ["--items", "64", "--d-model", "16", "--heads", "4", "--key-width", "8"]  # how many relations?
WIDTH = ["--items", "64", "--relations", "64", "--key-budget", "20"]  # what d_model?
PLAN = ["plan", "--items", "64", "--relations", "64", "--d-model", "16"]


@settings(max_examples=15, deadline=None)
@given(items=st.integers(32, 512), d_model=st.integers(12, 96), degree=st.integers(1, 4))
def test_what_a_plan_says_goes_together(items: int, d_model: int, degree: int) -> None:
    try:
        advice = plan(relations=items * degree, items=items, d_model=d_model, multiple=8)
    except InputError as error:
        assert "too narrow" in str(error)  # noqa: PT017
        return
    assert advice.bit_bound <= advice.recommended.key_budget
    assert advice.predicted.low < advice.predicted.key_budget < advice.predicted.high
    assert advice.recommended.key_budget >= advice.predicted.safe
    assert advice.recommended.key_width <= d_model
    assert advice.friendly is not None
    assert advice.friendly.key_width % 8 == 0
    assert advice.friendly.key_budget >= advice.predicted.safe
    assert advice.price == advice.friendly.key_budget / advice.recommended.key_budget - 1
    assert not advice.predicted.is_extrapolated
    for other in advice.alternatives:
        assert other.heads * other.key_width <= advice.recommended.key_budget
        assert other.relations == relations_by_freedom(
            Shape(d_model=d_model, heads=other.heads, key_width=other.key_width), items=items
        )


def test_the_law_without_rounding_is_below_the_law_with_it() -> None:
    for items, d_model in ((64, 16), (256, 32), (512, 64)):
        rounded = min(
            heads * width
            for heads in range(1, 40)
            if (width := freedom_key_width(items=items, relations=items, d_model=d_model, heads=heads))
        )
        assert (
            freedom_law(items=items, relations=items, d_model=d_model)
            <= rounded
            <= freedom_law(items=items, relations=items, d_model=d_model) + 8
        )


def test_the_prediction_is_near_what_was_measured_elsewhere() -> None:
    """The paper's own thresholds (claims.md, reading notes: inferred, on coarse grids) were no part of calibration."""
    paper = {(64, 16): 20, (256, 32): 64, (512, 64): 56, (128, 32): 21, (256, 64): 24}
    for (items, d_model), threshold in paper.items():
        assert 0.7 * threshold <= predict(items=items, relations=items, d_model=d_model).key_budget <= 1.3 * threshold


def test_the_constants_are_what_the_stored_rows_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    from make_plan_check import CHECK_COUNT, CHECKS, calibration, fitted, problems

    found = fitted()
    np.testing.assert_allclose(found["ROOMY"], prediction.ROOMY, rtol=0.01)
    np.testing.assert_allclose(found["CROWDED"], prediction.CROWDED, rtol=0.01)
    assert found["SPREAD"] == [pytest.approx(prediction.SPREAD, rel=0.05)]
    np.testing.assert_allclose(found["LONG"], prediction.LONG, rtol=0.01)
    assert found["SOFTMAX, its spread"] == [
        pytest.approx(prediction.SOFTMAX, rel=0.01),
        pytest.approx(prediction.SOFTMAX_SPREAD, rel=0.05),
    ]
    calibrated = {(row["items"], row["d_model"], row["degree"]) for row in calibration()}
    checked = {(one.items, one.d_model, one.degree) for one in problems(CHECKS[max(CHECKS)], CHECK_COUNT)}
    assert len(checked) == CHECK_COUNT
    assert not calibrated & checked


@settings(max_examples=60, deadline=None)
@given(items=st.integers(32, 500), d_model=st.integers(12, 95), degree=st.integers(1, 4))
def test_the_prediction_grows_with_the_items_and_falls_with_the_width(items: int, d_model: int, degree: int) -> None:
    try:
        here = predict(items=items, relations=items * degree, d_model=d_model).key_budget
        if items + 8 <= prediction.STEEP * d_model:  # beyond that the protocol trains for longer
            assert predict(items=items + 8, relations=(items + 8) * degree, d_model=d_model).key_budget > here
    except InputError as error:
        assert "too narrow" in str(error)  # noqa: PT017
        return
    if items <= prediction.STEEP * d_model:
        assert predict(items=items, relations=items * degree, d_model=d_model + 1).key_budget <= 1.01 * here


def test_the_page_of_the_check_counts_misses_as_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    from make_plan_check import COLUMNS, page

    good = {"number": 0, "items": 64, "d_model": 16, "degree": 1, "heads": 4, "key_width": 5, "key_budget": 20}
    good |= {"predicted": 19, "f1": 0.995, "seeds": 3, "measured": 18, "measured_heads": 3, "complete": True}
    good |= {"runs": 40, "ratio": 20 / 18, "held": True}
    short = good | {"number": 1, "f1": 0.98, "held": False}
    dear = good | {"number": 2, "ratio": 1.5, "held": False, "complete": False}
    none = good | dict.fromkeys(COLUMNS) | {"number": 3, "items": 500}
    text = page({1: [good, short, dear, none]}, [{"fact": "machine", "value": "made up"}])
    assert "| **both: the advice held** | **1 (25%)** | 90% |" in text
    assert "| F1 ≥ 0.99 at the recommended point | 2 |" in text
    assert "1 advised budgets were too small to reach 0.99 (F1 0.9800), 1 more than 1.35 × too large" in text
    assert "without any advice: 1. Of the 1 problems with more than 16 items to a dimension" in text
    assert text.count("**no**") == 3
    assert "At 1 of them the search was cut" in text
    assert text.count("(search cut)") == text.count("not looked for") == 1


def test_the_committed_page_of_the_check_follows_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.syspath_prepend(str(docs))
    from make_plan_check import CHECK_COUNT, CHECKS, page, problems, read_rows

    checks = {number: read_rows(f"plan-check-{number}") for number in CHECKS}
    assert (docs / "plan-check.md").read_text() == page(checks, read_rows("plan-check-machine"))
    for number, seed in CHECKS.items():  # all problems of the seed are there, none was left out
        drawn = [(one.items, one.d_model, one.degree) for one in problems(seed, CHECK_COUNT)]
        assert [(row["items"], row["d_model"], row["degree"]) for row in checks[number]] == drawn
    held = sum(row["held"] for row in checks[max(CHECKS)])
    assert f"the advice held in {held} (" in (docs.parent / "README.md").read_text()
    for row in checks[max(CHECKS)]:  # and the present advice is what was checked
        advice = plan(relations=row["items"] * row["degree"], items=row["items"], d_model=row["d_model"]).recommended
        assert (row["heads"], row["key_width"]) == (advice.heads, advice.key_width)


def test_a_split_holds_the_budget_at_the_least_cost() -> None:
    best = split(items=256, relations=1024, d_model=32, key_budget=300.0)
    assert best.key_budget >= 300
    assert best.key_width <= 32
    share = float(freedom_needed(items=256, relations=1024, heads=best.heads)) / 32**2
    assert 0.3 <= share <= 0.5
    assert split(items=256, relations=1024, d_model=32, key_budget=300.0, multiple=16).key_width in (16, 32)
    assert split(items=256, relations=1024, d_model=32, key_budget=300.0, most_heads=12).heads <= 12


def test_grouped_keys_cost_query_width_and_save_keys() -> None:
    alone = plan(relations=512, items=512, d_model=64)
    grouped = plan(relations=512, items=512, d_model=64, key_heads=1).grouped
    assert grouped is not None
    assert grouped.groups == 1
    assert grouped.query_budget > alone.recommended.key_budget > grouped.key_budget
    same = plan(relations=512, items=512, d_model=64, key_heads=alone.recommended.heads).grouped
    assert same is not None
    assert same.query_budget == same.key_budget == alone.recommended.key_budget  # a key head for each head


def test_a_guarantee_has_a_proof() -> None:
    every = plan(relations=100, items=64, d_model=16).guaranteed
    assert every is not None
    assert (every.key_budget, every.heads, every.key_width) == (100, 100, 1)
    wide = plan(relations=4096, items=4096, d_model=4096).guaranteed
    assert wide is not None
    assert wide.heads == 1
    assert wide.key_budget < 4096
    assert plan(relations=64, items=64, d_model=16, rule="softmax", context_length=16).guaranteed is None


def test_a_star_is_no_permutation_though_it_has_as_many_relations_as_items() -> None:
    star = plan(relations=600, items=600, d_model=600, max_degree=599).guaranteed
    assert star is not None
    assert "permutation" not in star.proof
    assert star.key_budget == 600
    for max_degree in (None, 1):  # degrees not given are even: one each
        swap = plan(relations=600, items=600, d_model=600, max_degree=max_degree).guaranteed
        assert swap is not None
        assert "permutation" in swap.proof


def test_a_guarantee_is_of_rows_that_meet_its_condition() -> None:
    rows = gaussian(40, 8, seed=0)
    proved = plan(relations=40, items=40, d_model=8, embedding=rows)
    assert proved.guaranteed is not None
    assert "no two of them equal or opposite" in proved.guaranteed.proof
    spoilt = {
        "rows 3 and 5 of the embedding are equal or opposite": (5, rows[3]),
        "rows 2 and 9 of the embedding are equal or opposite": (9, -rows[2]),
        "row 7 of the embedding has 1.5": (7, 1.5 * rows[7]),
        "row 4 of the embedding is zero": (4, 0 * rows[4]),
    }
    for why, (place, row) in spoilt.items():
        bad = rows.copy()
        bad[place] = row
        advice = plan(relations=40, items=40, d_model=8, embedding=bad)
        assert advice.guaranteed is None
        assert advice.unproved is not None
        assert why in advice.unproved
    narrow = plan(relations=1, items=3, d_model=1)
    assert narrow.guaranteed is None
    assert narrow.unproved is not None
    assert "in one dimension" in narrow.unproved


def test_construction_one_is_guaranteed_on_independent_rows_only() -> None:
    rows = gaussian(600, 600, seed=0)
    assert (
        plan(relations=600, items=600, d_model=600, embedding=rows).guaranteed
        == plan(relations=600, items=600, d_model=600).guaranteed
    )
    rows[0] = (rows[1] + rows[2]) / np.linalg.norm(rows[1] + rows[2])
    dependent = plan(relations=600, items=600, d_model=600, embedding=rows).guaranteed
    assert dependent is not None
    assert "permutation" not in dependent.proof


def test_a_note_says_where_the_guarantee_is_cheaper_than_the_advice() -> None:
    assert any("what is guaranteed is cheaper" in note for note in plan(relations=645, items=215, d_model=14).notes)
    assert not any("what is guaranteed is cheaper" in note for note in plan(relations=600, items=300, d_model=48).notes)


def test_softmax_needs_more_and_a_context_length() -> None:
    soft = plan(relations=128, items=128, d_model=32, rule="softmax", context_length=16)
    assert soft.predicted.key_budget > plan(relations=128, items=128, d_model=32).predicted.key_budget
    assert any("(h − 1)/ℓ" in note for note in soft.notes)
    assert soft.recommended.heads <= 16
    with pytest.raises(InputError, match="give the context length"):
        plan(relations=128, items=128, d_model=32, rule="softmax")
    assert soft.margin_bound is None  # softmax is not scale-free
    assert plan(relations=128, items=128, d_model=32).margin_bound is not None


def test_another_context_length_is_an_extrapolation() -> None:
    for context_length, marked in ((None, False), (16, False), (8, True)):
        advice = plan(relations=128, items=128, d_model=32, context_length=context_length)
        assert advice.predicted.is_extrapolated == marked
        assert any("contexts of 16 items; for 8 it stays the same" in note for note in advice.notes) == marked


def test_notes_say_where_the_advice_does_not_reach() -> None:
    hub = star_graph(64, direction="out")
    notes = plan(relations=hub.relations, items=hub.items, d_model=16, max_degree=hub.max_degree).notes
    assert any("(33) fails" in note for note in notes)
    assert any("degrees to be about even" in note for note in notes)
    assert any("extrapolation" in note for note in plan(relations=50_257, items=50_257, d_model=768).notes)


def test_a_trial_trains_as_long_as_the_paper() -> None:
    limits = {(512, 32): 20_000, (512, 16): 80_000, (1024, 128): 80_000, (64, 16): 20_000, (256, 16): 30_000}
    assert {at: step_limit(*at) for at in limits} == limits
    assert step_limit(64, 16, "softmax") == 80_000


def test_what_an_embedding_promises() -> None:
    """Wide rows promise whole blocks, crowded ones next to nothing; rows in pairs promise nothing at all."""
    graph = permutation_graph(64, seed=0)
    roomy = promise(graph, gaussian(64, 512, seed=1))
    assert roomy.block_size is not None
    assert roomy.realised is not None
    assert roomy.heads == -(-64 // roomy.block_size)
    crowded = promise(graph, gaussian(64, 16, seed=1))
    assert crowded.block_size is None or crowded.block_size < roomy.block_size
    twins = np.repeat(gaussian(32, 16, seed=1), 2, axis=0)
    assert promise(graph, twins).block_size is None


def test_a_block_size_that_fails_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["manyheads.construct.width_limit"]  # the name in the package is that of its function
    whole, seen = module.limit_tiles, []

    def counted(*given: object, **named: object) -> Iterator[object]:
        for tile in whole(*given, **named):
            seen.append(tile[:2])
            yield tile

    monkeypatch.setattr(module, "limit_tiles", counted)
    found = promise(permutation_graph(512, seed=0), gaussian(512, 4, seed=1))
    assert found.tried == (4, 2, 1)
    assert found.block_size == 1
    assert 8 < len(seen) <= 8 + 2 * 2  # eight tiles, all of them only where it works


def test_trials_train_the_point_and_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = plan(relations=64, items=64, d_model=16)
    heads, width = advice.recommended.heads, advice.recommended.key_width
    chosen = points(advice)
    assert chosen[0] == ("recommended", heads, width)
    assert {h for _, h, _ in chosen} == {heads // 2, heads, 2 * heads} - {0}
    seen = []
    made = trials(advice, seeds=range(2), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2 * len(chosen), 2 * len(chosen))
    assert [(trial.heads, trial.key_width) for trial in made] == [(h, w) for _, h, w in chosen]
    assert made[0].reached
    assert made[0].mean is not None
    assert made[0].mean > 0.99
    starved = next(trial for trial in made if trial.what == "twice the heads")
    assert starved.mean is not None
    assert starved.mean <= made[0].mean + 0.01


def test_an_interrupt_ends_the_trainings_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def endless(run: Run, *, progress: Progress | None = None, **_: object) -> Outcome:
        begun.append(run)
        if len(begun) == 1:
            raise KeyboardInterrupt
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (progress is None or progress(run, Check(1, 0.0, 1.0))):
            time.sleep(0.01)
        raise InputError("stopped")

    monkeypatch.setattr("manyheads.planning.advice_check.train", endless)
    monkeypatch.setattr("manyheads.planning.advice_check.cores", lambda: 2)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        trials(plan(relations=64, items=64, d_model=16), seeds=range(2))
    assert time.monotonic() - started < 5


def test_trials_have_contexts_of_the_length_that_was_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def none(run: Run, **_: object) -> Outcome:
        seen.append(run.context)
        raise InputError("seen")

    monkeypatch.setattr("manyheads.planning.advice_check.train", none)
    with pytest.raises(InputError, match="seen"):
        trials(plan(relations=10, items=10, d_model=8, context_length=8), seeds=[0])
    assert set(seen) == {8}
    with pytest.raises(InputError, match="contexts have 16 items, more than the 10 there are"):
        trials(plan(relations=10, items=10, d_model=8), seeds=[0])


def test_pictures_rows_are_the_laws_themselves() -> None:
    advice = plan(relations=256, items=256, d_model=32)
    curve = head_curve(advice)
    for heads, budget in zip(curve.heads, curve.law, strict=True):
        width = freedom_key_width(items=256, relations=256, d_model=32, heads=int(heads))
        assert budget == (np.inf if width is None else heads * width)
    rows = capacity_map(items=256, widest=64, key_budgets=(16, 64))
    assert (rows.likely <= rows.impossible).all()
    assert (np.diff(rows.likely, axis=1) >= 0).all()
    assert (rows.likely[1] >= rows.likely[0]).all()


# --- the command line


def test_the_three_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--multiple", "8", "--key-heads", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bit_bound"] == pytest.approx(float(graph_bit_key_budget(items=64, relations=64, d_model=16)))
    assert facts["friendly"]["key_width"] % 8 == 0
    assert facts["held"] is None
    assert main(["plan", "--items", "64", "--d-model", "16", "--heads", "2", "--key-width", "8", "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)["relations"]
    assert fit["likely"] == relations_by_freedom(Shape(d_model=16, heads=2, key_width=8), items=64)
    assert fit["guaranteed"] <= fit["likely"] <= fit["impossible beyond"]
    assert main(["plan", "--items", "64", "--relations", "64", "--key-budget", "20", "--json"]) == 0
    needed = json.loads(capsys.readouterr().out)["d_model"]
    assert needed["impossible below"] <= needed["likely from"] <= 16


def test_softmax_promises_nothing_of_what_is_proved_for_max(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "64", "--d-model", "16", "--heads", "4", "--key-width", "64", "--rule", "softmax"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"]["guaranteed"] is None
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "no proof with a stated constant" in out
    assert "softmax takes more" in " ".join(out.split())
    assert main([*PLAN, "--rule", "softmax", "--context-length", "16"]) == 0
    assert "margin" not in capsys.readouterr().out


def test_heads_that_share_keys_promise_no_more_than_there_are_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "64", "--d-model", "16", "--heads", "8", "--key-heads", "2", "--json", "--key-width"]
    for width, promised in (("1", 2), ("3", 6), ("4", 8), ("9", 8)):
        assert main([*words, width]) == 0
        assert json.loads(capsys.readouterr().out)["relations"]["guaranteed"] == promised


def test_a_plan_reads_graph_and_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph("graph.csv", random_graph(40, 90, seed=0))
    write_embedding("rows.npy", gaussian(40, 24, seed=0))
    assert main(["plan", "--graph", "graph.csv", "--embedding", "rows.npy", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["items"], facts["relations"], facts["d_model"]) == (40, 90, 24)
    assert facts["promise"]["worst"]["rho"] > 0
    assert (
        main(["plan", "--graph", "graph.csv", "--embedding", "rows.npy", "--save-heads", "h", "--save-map", "m"]) == 0
    )
    out = capsys.readouterr().out
    assert "constructions promise" in out
    assert all(Path(f"{stem}.{suffix}").stat().st_size > 1000 for stem in "hm" for suffix in ("png", "svg"))
    assert main([*PLAN, "--save-heads", "h.png"]) == 2
    assert "h.png already exists" in capsys.readouterr().err


def test_measure_says_whether_the_advice_held(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plan", "--items", "32", "--relations", "32", "--d-model", "24", "--measure", "--seeds", "2"]) == 0
    assert "the advice held" in capsys.readouterr().out
    # advice far too thrifty must be seen to fail
    monkeypatch.setattr("manyheads.planning.prediction.SAFE", (-12.0, -12.0))
    assert main(["plan", "--items", "32", "--relations", "96", "--d-model", "12", "--measure", "--seeds", "1"]) == 1
    assert "the advice did not hold" in capsys.readouterr().out


SENTENCES = [
    (["--items", "4", "--relations", "13", "--d-model", "8"], "13 relations do not fit 4 items, which have 12 ordered"),
    (["--items", "64", "--relations", "64", "--d-model", "0"], "d_model must be at least 1, not 0"),
    (["--items", "64", "--relations", "0", "--d-model", "8"], "0 relations do not fit 64 items"),
    (["--items", "1", "--relations", "1", "--d-model", "8"], "relations are between at least 2 items, not 1"),
    (["--relations", "64", "--d-model", "8"], "how many items are there?"),
    (["--items", "64"], "a plan needs --relations and --d-model"),
    (["--items", "64", "--d-model", "8"], "give --heads and --key-width"),
    (["--items", "64", "--d-model", "8", "--heads", "0", "--key-width", "4"], "heads must be at least 1, not 0"),
    (["--items", "64", "--relations", "64"], "give --key-budget"),
    (["--items", "64", "--relations", "64", "--key-budget", "0"], "--key-budget is at least 1, not 0"),
    (["--items", "64", "--relations", "9999", "--key-budget", "4"], "9999 relations do not fit 64 items"),
    ([*PLAN[1:], "--heads", "4"], "--heads and --key-width ask how many relations fit"),
    ([*PLAN[1:], "--key-budget", "4"], "--key-budget asks what d_model is needed"),
    ([*PLAN[1:], "--rule", "softmax"], "give the context length"),
    ([*PLAN[1:], "--rule", "softmax", "--context-length", "65"], "a context has from 2 to 64 of the items, not 65"),
    ([*PLAN[1:], "--multiple", "0"], "multiple must be at least 1, not 0"),
    ([*PLAN[1:], "--bits", "0"], "--bits is from 0.01 to 1024, not 0"),
    ([*PLAN[1:], "--bits", "1e-300"], "--bits is from 0.01 to 1024, not 1e-300"),
    ([*PLAN[1:], "--bits", "nan"], "--bits is from 0.01 to 1024, not nan"),
    ([*FIT, "--multiple", "8"], "--multiple goes with a plan"),
    ([*FIT, "--save-map", "m"], "--save-map goes with a plan"),
    ([*FIT, "--context-length", "8"], "--context-length goes with a plan"),
    ([*WIDTH, "--save-heads", "h"], "--save-heads goes with a plan"),
    ([*WIDTH, "--key-heads", "2"], "--key-heads goes with a plan"),
    (["--items", "64", "--relations", "64", "--key-budget", "1000000000"], "--key-budget is at most 100,000,000"),
    (["--items", "9999999999", "--relations", "64", "--d-model", "8"], "counted for up to 2,147,483,647 items"),
    ([*PLAN[1:], "--seeds", "0"], "--seeds is at least 1, not 0"),
    ([*PLAN[1:], "--tensor", "x"], "give --embedding"),
    (["--items", "512", "--relations", "200000", "--d-model", "2"], "d_model 2 is too narrow"),
]


@pytest.mark.parametrize(("words", "says"), SENTENCES, ids=[says for _, says in SENTENCES])
def test_bad_input_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
