"""Task, Protocol and Run: the id is the hash of the fields, and impossible values say why."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support.runs import changed, make_run

from manyheads import Graph, InputError, Protocol, Run, Task, gaussian, permutation_graph, random_graph, regular_graph
from manyheads.layer.rules import SUM
from manyheads.problem.embedding import Embedding
from manyheads.training.data import initial_weights
from manyheads.training.run import shared_fields

BASE = make_run(items=64, d_model=16, heads=4, key_width=5, seed=3)

# another value for every field, each alone possible
CHANGED: dict[str, Any] = {
    "items": 65, "d_model": 17, "heads": 3, "key_heads": 2, "key_width": 6, "seed": 4, "problem_seed": 9,
    "graph": "regular", "degree": 2, "embedding": np.eye(64), "rule": "softmax", "objective": "values",
    "message_width": 8, "context": 8, "target_rate": 0.25, "sharpness": 9.0, "positive_weight": 3.0,
    "initial_scale": 0.5, "initial_threshold": 0.1, "learning_rate": 2e-3, "weight_decay": 0.01, "beta1": 0.8,
    "beta2": 0.99, "epsilon": 1e-7, "steps": 30_000, "validate_every": 250, "validation_contexts": 100,
    "test_contexts": 100, "stop_above": 0.9, "patience": 3, "precision": "float64",
}  # fmt: skip


def with_change(name: str) -> Run:
    base = changed(BASE, graph="regular") if name == "degree" else BASE
    return changed(base, **{name: CHANGED[name]})


def unchecked(base: Any, **given: Any) -> Any:
    """A protocol or run as callers make it: without the type checker that this test run puts before __init__."""
    made = object.__new__(type(base))
    for field in fields(base):
        object.__setattr__(made, field.name, given.get(field.name, getattr(base, field.name)))
    made.__post_init__()
    return made


def test_every_field_has_another_value_here() -> None:
    assert set(CHANGED) == (set(BASE.fields) | {"key_heads"}) - {"protocol"}


def test_a_change_of_any_constant_changes_the_id_and_the_run() -> None:
    runs = [BASE, *map(with_change, CHANGED)]
    assert len({run.id for run in runs}) == len(set(runs)) == len(runs)


def test_equal_fields_have_equal_ids() -> None:
    written_out = changed(BASE, problem_seed=3, positive_weight=15.0, initial_scale=0.25, message_width=16)
    assert written_out.id == BASE.id
    other_numbers = unchecked(Protocol(), sharpness=10, learning_rate=np.float64(1e-3), steps=np.int64(20_000))
    assert other_numbers == Protocol()
    assert hash(other_numbers) == hash(Protocol())
    assert unchecked(BASE, heads=np.int32(4)) == BASE
    assert replace(BASE, task=Task("permutation:64", "gaussian:16", message_width=16)) == BASE
    assert replace(BASE, key_heads=4) == BASE
    assert replace(BASE, key_heads=4).id == BASE.id


def test_key_heads_are_a_field_only_where_heads_share_them() -> None:
    shared = replace(BASE, key_heads=2)
    assert list(BASE.fields.items()) == [(name, at) for name, at in shared.fields.items() if name != "key_heads"]
    assert (shared.groups, shared.query_budget, shared.key_budget, shared.weights) == (2, 20, 10, 480)
    assert (BASE.groups, BASE.query_budget, BASE.key_budget, BASE.weights) == (4, 20, 20, 640)
    assert replace(BASE, heads=8).groups == 8  # the default follows the heads
    assert not np.array_equal(initial_weights(shared)[0], initial_weights(BASE)[0])  # other weights from the same seed


def test_runs_of_one_task_and_protocol_share_all_fields_but_shape_and_seeds() -> None:
    own = {"heads", "key_width", "seed", "problem_seed"}
    shared = {name: value for name, value in BASE.fields.items() if name not in own}
    assert shared == shared_fields(BASE.task, BASE.rule, BASE.protocol)


def test_defaults_follow_the_paper() -> None:
    written, protocol = BASE.fields, BASE.protocol
    assert (written["problem_seed"], written["positive_weight"], written["initial_scale"]) == (3, 15.0, 0.25)
    assert changed(BASE, graph="regular").fields["positive_weight"] == "balanced"
    assert (protocol.steps, protocol.validate_every) == (20_000, 500)
    assert (protocol.validation_contexts, protocol.test_contexts) == (500, 2_000)
    assert (protocol.stop_above, protocol.patience, protocol.sharpness) == (0.995, 5, 10.0)
    assert protocol.learning_rate == 1e-3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"context": 65}, "65 distinct items cannot be drawn from 64"),
        ({"context": 1}, "context is a whole number from 2"),
        ({"graph": "regular:64:64"}, "degree 1 to 63, not 64"),
        ({"graph": "regular:64"}, "not of the form regular:ITEMS:DEGREE"),
        ({"graph": "random:64:9999"}, "4032 possible relations, not 9999"),
        ({"graph": "permutation:0"}, "ITEMS of permutation:ITEMS is a whole number from 1"),
        ({"graph": "tree:64"}, "unknown kind of graph 'tree'"),
        ({"embedding": "gaussian:0"}, "D_MODEL of gaussian:D_MODEL is a whole number from 1"),
        ({"embedding": "gausian:16"}, "did you mean gaussian"),
        ({"embedding": np.eye(63)}, "64 items but the embedding has 63 rows"),
        ({"embedding": np.full((64, 2), np.nan)}, "NaN or infinite"),
        ({"message_width": 0}, "message_width is a whole number from 1"),
        ({"target_rate": 1.5}, "target_rate is a number from 0"),
        ({"target_rate": float("nan")}, "target_rate is a number from 0"),
        ({"objective": "values", "graph": "regular:64:2"}, "at most one relation out"),
        ({"objective": "values", "graph": "star-out:64"}, "at most one relation out"),
        ({"objective": "values", "graph": random_graph(64, 200, seed=0)}, "at most one relation out"),
    ],
)
def test_an_impossible_task_says_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Task(**{"graph": "permutation:64", "embedding": "gaussian:16"} | change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 0}, "steps is a whole number from 1"),
        ({"validate_every": 0}, "validate_every is a whole number from 1"),
        ({"learning_rate": float("nan")}, "learning_rate is a number from 0"),
        ({"learning_rate": -1.0}, "learning_rate is a number from 0"),
        ({"beta2": 1.0}, "beta2 is a number from 0"),
        ({"epsilon": 0.0}, "epsilon is a number above 0"),
        ({"positive_weight": "heavy"}, "a number or 'balanced'"),
        ({"positive_weight": -2.0}, "positive_weight is a number from 0"),
        ({"steps": 64.5}, "steps is a whole number from 1"),
        ({"sharpness": "ten"}, "sharpness is a number above 0"),
        ({"precision": "float16"}, "unknown precision 'float16'"),
    ],
)
def test_an_impossible_protocol_says_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        unchecked(Protocol(), **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"heads": 0}, "heads is a whole number from 1"),
        ({"key_width": 0}, "key_width is a whole number from 1"),
        ({"key_heads": 3}, "4 heads cannot share 3 key heads evenly: the number of key heads divides"),
        ({"key_heads": 8}, "4 heads cannot share 8 key heads evenly"),
        ({"key_heads": 0}, "key_heads is a whole number from 1"),
        ({"seed": -1}, "seed is a whole number from 0"),
        ({"rule": "mean"}, "unknown rule 'mean'"),
        ({"rule": SUM, "task": Task("permutation:64", "gaussian:16", objective="values")}, "value channel"),
    ],
)
def test_an_impossible_run_says_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        unchecked(BASE, **change)


def test_a_task_is_its_words_and_fingerprints() -> None:
    graph, other = permutation_graph(64, seed=0), permutation_graph(64, seed=1)
    rows = np.random.default_rng(0).standard_normal((64, 16))
    tasks = [Task(graph, rows), Task(other, rows), Task(graph, rows[:, ::-1])]
    tasks += [Task("permutation:64", rows), Task(graph, "gaussian:16")]
    assert len(set(tasks)) == len(tasks)
    labelled = graph.with_labels([f"item {i}" for i in range(64)])
    assert Task(labelled, rows.astype(np.float32)) == Task(graph, Embedding(rows)) == tasks[0]
    assert hash(Task(labelled, rows)) == hash(tasks[0])
    assert tasks[0].fields["graph"] == f"given:{graph.fingerprint}"
    assert tasks[0].fields["embedding"] == f"given:{Embedding(rows).fingerprint}"


@pytest.mark.parametrize("graph", ["permutation:12", "power-law:12:20:2.5", regular_graph(12, 3, seed=0)])
@pytest.mark.parametrize("embedding", ["gaussian:5", "one-hot", gaussian(12, 5, seed=0)])
def test_a_task_travels_to_other_processes(graph: Any, embedding: Any) -> None:
    run = Run(Task(graph, embedding, context=6), heads=2, key_width=3, seed=1)
    copy = pickle.loads(pickle.dumps(run))
    assert (copy, copy.id, hash(copy)) == (run, run.id, hash(run))
    ours, theirs = run.task.draw(7), copy.task.draw(7)
    assert ours.graph == theirs.graph
    np.testing.assert_array_equal(ours.rows, theirs.rows)


def test_the_papers_slope_is_that_of_permutations_only_for_permutations() -> None:
    permutation, crowded = permutation_graph(64, seed=0), random_graph(64, 64, seed=0)
    words = ("permutation:64", "regular:64:4", "regular:64:1", "random:64:64", "star-in:64")
    given = {
        "given permutation": permutation,
        "given others": crowded,
        "given double": Graph(64, np.r_[permutation.sources, 0], np.r_[permutation.targets, 0]),
    }
    slopes = {name: Task(name, "gaussian:16").slope for name in words}
    slopes |= {name: Task(graph, "gaussian:16").slope for name, graph in given.items()}
    assert [name for name, slope in slopes.items() if slope == 1.19] == [
        "permutation:64", "regular:64:1", "given permutation"
    ]  # fmt: skip
    assert set(slopes.values()) == {1.19, 0.46}


def test_a_given_permutation_is_weighted_as_a_drawn_one() -> None:
    weights = [Task(graph, "gaussian:16").paper_weight for graph in (permutation_graph(64, seed=0), "permutation:64")]
    assert weights == [15.0, 15.0]
    assert Task(random_graph(64, 64, seed=0), "gaussian:16").paper_weight == "balanced"
