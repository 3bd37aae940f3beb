"""Trials and the trainers of all kinds of runs."""

from __future__ import annotations

from dataclasses import replace

from support.made_up import QUICK, made_up_scores
from support.runs import make_run

from manyheads import one_hot
from manyheads.identity import fields_id
from manyheads.papers import CAPACITY, exhibit_names, needed
from manyheads.papers.exhibits.clocks import SplitClock
from manyheads.papers.trial import Trial, in_turns, trainer_of
from manyheads.training import train


def test_ids_are_those_of_the_fields_alone() -> None:
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


def test_made_up_scores_fit_every_trial() -> None:
    trials = [run for run in needed(exhibit_names(CAPACITY), QUICK) if isinstance(run, Trial)]
    assert trials
    assert all(made_up_scores(run) for run in trials)
