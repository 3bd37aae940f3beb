"""Run: its id is its meaning, and what is impossible says why."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest

from manyheads import InputError, permutation_graph
from manyheads.training.run import Run, fingerprint

BASE = Run(items=64, d_model=16, heads=4, key_width=5, seed=3)

# another value for every field, each alone possible
CHANGED: dict[str, Any] = {
    "items": 65, "d_model": 17, "heads": 3, "key_width": 6, "seed": 4, "problem_seed": 9, "graph": "regular",
    "degree": 2, "embedding": "given:0123456789abcdef", "rule": "softmax", "objective": "values", "message_width": 8,
    "context": 8, "target_rate": 0.25, "sharpness": 9.0, "positive_weight": 3.0, "initial_scale": 0.5,
    "initial_threshold": 0.1, "learning_rate": 2e-3, "weight_decay": 0.01, "beta1": 0.8, "beta2": 0.99,
    "epsilon": 1e-7, "steps": 30_000, "validate_every": 250, "validation_contexts": 100, "test_contexts": 100,
    "stop_above": 0.9, "patience": 3, "precision": "float64",
}  # fmt: skip


def changed(name: str) -> Run:
    base = replace(BASE, graph="regular") if name == "degree" else BASE
    return replace(base, **{name: CHANGED[name]})


def unchecked(**given: Any) -> Run:
    """A run as callers make it: without the type checker that this test run puts before __init__."""
    run = object.__new__(Run)
    for field in fields(Run):
        object.__setattr__(run, field.name, given.get(field.name, getattr(BASE, field.name)))
    run.__post_init__()
    return run


def test_every_field_has_another_value_here() -> None:
    assert set(CHANGED) == {field.name for field in fields(Run)}


def test_a_change_of_any_constant_changes_the_id() -> None:
    ids = [BASE.id, *(changed(name).id for name in CHANGED)]
    assert len(set(ids)) == len(ids)


def test_equal_meanings_have_equal_ids() -> None:
    written_out = replace(BASE, problem_seed=3, positive_weight=15.0, initial_scale=0.25, message_width=16)
    assert written_out.id == BASE.id
    other_numbers = unchecked(items=np.int64(64), d_model=np.int32(16), sharpness=10, learning_rate=np.float64(1e-3))
    assert other_numbers == BASE
    assert (hash(other_numbers), other_numbers.id) == (hash(BASE), BASE.id)
    assert Run(**json.loads(json.dumps(asdict(BASE), default=str))) == BASE


def test_the_id_does_not_drift() -> None:
    assert BASE.id == "d6c71779a2a71cc8"  # a new id needs a new PROTOCOL


def test_defaults_follow_the_paper() -> None:
    meaning = BASE.meaning
    assert (meaning["problem_seed"], meaning["positive_weight"], meaning["initial_scale"]) == (3, 15.0, 0.25)
    assert replace(BASE, graph="regular").meaning["positive_weight"] == "balanced"
    assert (BASE.steps, BASE.validate_every, BASE.validation_contexts, BASE.test_contexts) == (20_000, 500, 500, 2_000)
    assert (BASE.stop_above, BASE.patience, BASE.sharpness, BASE.learning_rate) == (0.995, 5, 10.0, 1e-3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"context": 65}, "65 distinct items cannot be drawn from 64"),
        ({"context": 1}, "at least 2 items"),
        ({"graph": "regular", "degree": 64}, "cannot have degree 64"),
        ({"degree": 2}, "only regular graphs"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"key_width": 0}, "key_width must be at least 1"),
        ({"d_model": -1}, "d_model must be at least 1"),
        ({"message_width": 0}, "message_width must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"validate_every": 0}, "validate_every must be at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"learning_rate": -1.0}, "learning_rate must not be negative"),
        ({"beta2": 1.0}, "beta2 must lie in"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"target_rate": 1.5}, "target_rate must lie in"),
        ({"rule": "mean"}, "unknown rule 'mean'"),
        ({"graph": "tree"}, "unknown graph 'tree'"),
        ({"embedding": "one-hot"}, "unknown embedding 'one-hot'"),
        ({"objective": "values", "rule": "softmax"}, "value channel"),
        ({"positive_weight": "heavy"}, "a number or 'balanced'"),
        ({"positive_weight": -2.0}, "positive_weight must not be negative"),
        ({"items": 64.5}, "items must be a whole number"),
        ({"sharpness": "ten"}, "sharpness must be a number"),
    ],
)
def test_an_impossible_run_says_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        unchecked(**change)


def test_fingerprints_name_what_they_are_of() -> None:
    graph, other = permutation_graph(64, seed=0), permutation_graph(64, seed=1)
    rows = np.random.default_rng(0).standard_normal((64, 16))
    names = [fingerprint(graph), fingerprint(other), fingerprint(rows), fingerprint(rows[:, ::-1]), fingerprint(rows.T)]
    assert len(set(names)) == len(names)
    assert fingerprint(graph.with_labels([f"item {i}" for i in range(64)])) == names[0]
    assert fingerprint(rows.astype(np.float32)) == names[2]
    assert replace(BASE, graph=names[0]).id != replace(BASE, graph=names[1]).id
