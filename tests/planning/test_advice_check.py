"""Advice check: the runs are those of the protocol, at the recommended split and its neighbours."""

from __future__ import annotations

import time

import pytest

from manyheads import InputError
from manyheads.cli import main
from manyheads.planning import check_advice, plan
from manyheads.planning.advice_check import check_points
from manyheads.training import Run
from manyheads.training.outcome import Check, OnCheck, Outcome


def test_trials_train_the_point_and_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = plan(relations=64, items=64, d_model=16)
    heads, width = advice.recommended.heads, advice.recommended.key_width
    chosen = check_points(advice)
    assert chosen[0] == ("recommended", heads, width)
    listed = [(one.heads, one.key_width) for one in advice.alternatives]
    assert [(h, w) for name, h, w in chosen if name.startswith("or ")] == listed  # what is listed is what is trained
    seen = []
    made = check_advice(advice, seeds=range(2), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2 * len(chosen), 2 * len(chosen))
    assert [(trial.heads, trial.key_width) for trial in made] == [(h, w) for _, h, w in chosen]
    assert made[0].reached
    assert made[0].mean is not None
    assert made[0].mean > 0.99
    starved = next(trial for trial in made if trial.name == "three quarters of it")
    assert starved.mean is not None
    assert starved.mean <= made[0].mean + 0.01


def test_an_interrupt_ends_the_trainings_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def endless(run: Run, *, progress: OnCheck | None = None, **_: object) -> Outcome:
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
        check_advice(plan(relations=64, items=64, d_model=16), seeds=range(2))
    assert time.monotonic() - started < 5


def test_trials_have_contexts_of_the_length_that_was_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def none(run: Run, **_: object) -> Outcome:
        seen.append(run.task.context)
        raise InputError("seen")

    monkeypatch.setattr("manyheads.planning.advice_check.train", none)
    with pytest.raises(InputError, match="seen"):
        check_advice(plan(relations=10, items=10, d_model=8, context_length=8), seeds=[0])
    assert set(seen) == {8}
    with pytest.raises(InputError, match="contexts have 16 items, more than the 10 there are"):
        check_advice(plan(relations=10, items=10, d_model=8), seeds=[0])


def test_a_run_that_fails_is_no_negative_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A computation that failed is an error, exit code 2; exit code 1 would say that the advice is wrong."""

    def fail(run: Run, **_: object) -> Outcome:
        raise ArithmeticError("no \x1b[31mtongs")

    monkeypatch.setattr("manyheads.planning.advice_check.train", fail)
    words = ["plan", "budget", "--items", "16", "--relations", "16", "--d-model", "8", "--measure", "--seeds", "1"]
    assert main(words) == 2
    told, said = capsys.readouterr()
    assert (told, said) == ("", "manyheads: no answer: a run failed (ArithmeticError: no \\x1b[31mtongs)\n")


def test_checks_train_as_long_as_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a check have the step limits of the paper's Table 2, and the longest under softmax."""
    seen: list[Run] = []

    def none(run: Run, **_: object) -> Outcome:
        seen.append(run)
        raise InputError("seen")

    monkeypatch.setattr("manyheads.planning.advice_check.train", none)
    for items, d_model, rule, steps in (
        (512, 32, "max", 20_000),
        (512, 16, "max", 80_000),
        (256, 16, "max", 30_000),
        (64, 16, "softmax", 80_000),
    ):
        seen.clear()
        advice = plan(items=items, relations=items, d_model=d_model, rule=rule, context_length=16)
        with pytest.raises(InputError, match="seen"):
            check_advice(advice, seeds=[0])
        assert {(run.protocol.steps, str(run.rule), run.items, run.task.d_model) for run in seen} == {
            (steps, rule, items, d_model)
        }


@pytest.mark.parametrize(
    ("relations", "permutation", "kind"),
    [(64, None, "permutation"), (64, False, "given"), (128, None, "regular"), (100, None, "given")],
)
def test_a_check_draws_the_graph_that_the_plan_is_for(
    relations: int, permutation: bool | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Run] = []

    def none(run: Run, **_: object) -> Outcome:
        seen.append(run)
        raise InputError("seen")

    monkeypatch.setattr("manyheads.planning.advice_check.train", none)
    with pytest.raises(InputError, match="seen"):
        check_advice(plan(items=64, relations=relations, d_model=16, permutation=permutation), seeds=[0])
    assert {str(run.fields["graph"]).split(":")[0] for run in seen} == {kind}
