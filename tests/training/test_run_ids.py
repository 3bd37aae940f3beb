"""Ids, fields and draws stay what they were when the stored rows were made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.runs import make_run

from manyheads import gaussian, permutation_graph, random_graph
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import EXHIBITS, needed
from manyheads.papers.rows import read_rows
from manyheads.training.data import initial_weights, training_data

ROWS = Path(__file__).parents[2] / "docs" / "data" / "paper.jsonl.gz"
PLAIN = {"items": 64, "d_model": 16, "heads": 4, "key_width": 5}
SMALL = {"items": 32, "d_model": 8, "heads": 1, "key_width": 3, "seed": 2}
GIVEN = {"items": 12, "d_model": 5, "heads": 1, "key_width": 3, "seed": 2, "context": 6}
PERMUTATION, GRAPH, GAUSSIAN = permutation_graph(12, seed=3), random_graph(12, 20, seed=4), gaussian(12, 5, seed=6)
EVERY_CONSTANT = {
    "sharpness": 5.0, "positive_weight": "balanced", "initial_scale": 1.0, "initial_threshold": 0.5,
    "learning_rate": 0.01, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, "steps": 1000,
    "validate_every": 100, "validation_contexts": 50, "test_contexts": 60, "stop_above": 1.0, "patience": 2,
    "precision": "float64",
}  # fmt: skip

# fields of the run, its id, the hash of its fields in their order, the hash of all that is drawn for it:
# computed before a run was a task and a protocol
GOLDEN: list[tuple[dict[str, Any], str, str, str]] = [
    (PLAIN | {"seed": 0}, "85169bc3d67910d1", "cc95d38d69bece20", "79b7000da94d6eb4"),
    (PLAIN | {"seed": 7, "problem_seed": 3}, "1bd9597730620fcf", "fff22e6557d93527", "4bfe27f19fa0c239"),
    (
        {"items": 128, "d_model": 32, "heads": 2, "key_width": 9, "seed": 1, "graph": "regular", "degree": 4},
        "549c821d4ec4791b",
        "ffcfad2916456d68",
        "602d6f481728ab91",
    ),
    (
        {"items": 128, "d_model": 32, "heads": 2, "key_width": 9, "seed": 1, "graph": "regular", "degree": 1},
        "b177f05d9f02577a",
        "6cc4244f13fddae7",
        "a8ee401957600ef3",
    ),
    (
        PLAIN | {"seed": 0, "rule": "softmax", "steps": 80_000},
        "ab686dcecc468347",
        "9ad9edc3673ae96b",
        "79b7000da94d6eb4",
    ),
    (
        PLAIN | {"seed": 0, "objective": "values", "message_width": 8},
        "91b4b772e0fa53ba",
        "21702212fc8fb9ed",
        "0f6bad9f7ddf2db4",
    ),
    (SMALL | {"context": 8, "target_rate": 0.25}, "e9c38b0359f29489", "0baa056af5f82861", "d31a17b5ce4940b9"),
    (SMALL | EVERY_CONSTANT, "41af63fa260d4323", "7fba4eea3978ac91", "db0c2a9b3af0c0ef"),
    (SMALL | {"positive_weight": 3.0}, "caf8d2a13d2a2780", "1e417a211b9ab4eb", "38fb401e038f10d6"),
    (PLAIN | {"seed": 0, "key_heads": 1}, "d26ce063e8af3c62", "d69f450a122ed84f", "50e92cb657e386c5"),
    (GIVEN | {"graph": PERMUTATION}, "dc5fa2fb33632e60", "02d9cf00d8f3e7b2", "74760d38846925f2"),
    (GIVEN | {"graph": GRAPH}, "a1ef8cc1ac3c25bf", "ec9cc16b610ddb2a", "7d2085ddd342e25d"),
    (GIVEN | {"embedding": GAUSSIAN}, "6523ca04b315482b", "d3e553b501869f33", "0be94cb41fa2e1a2"),
    (GIVEN | {"graph": GRAPH, "embedding": GAUSSIAN}, "a89a30c982bc2ea3", "93234f30d97c7f24", "32bb1a7c0be48992"),
]


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@pytest.mark.parametrize(("flat", "run_id", "fields", "drawn"), GOLDEN)
def test_ids_fields_and_draws_do_not_drift(flat: dict[str, Any], run_id: str, fields: str, drawn: str) -> None:
    """Another id needs another PROTOCOL_VERSION."""
    run = make_run(**flat)
    assert run.id == run_id
    assert digest(json.dumps(run.fields).encode()) == fields
    data = training_data(run)
    messages = np.zeros(0) if data.messages is None else data.messages
    arrays = (data.graph.sources, data.graph.targets, data.rows, messages, *initial_weights(run))
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    assert digest(*parts, str(data.context_key).encode()) == drawn


def test_every_run_of_the_paper_finds_its_committed_row() -> None:
    """Up to 128 items: every kind of graph, embedding, rule, objective and protocol of the paper is among them."""
    rows = read_rows(ROWS)
    names = [name for name in EXHIBITS if not name.startswith("retrieval")]  # these have a file of their own
    runs = needed(names, Scale(up_to=128), rows)
    assert len(runs) > 5_000
    assert [run.id for run in runs if run.id not in rows] == []


# the fields of every kind that has no golden row: the words, and degree 1
@pytest.mark.parametrize("graph", ["random:12:20", "star-out:12", "star-in:12", "power-law:12:20:2.5"])
@pytest.mark.parametrize("embedding", ["one-hot", "sparse-binary:6"])
def test_other_kinds_are_named_by_their_words(graph: str, embedding: str) -> None:
    run = make_run(12, 6, 2, 3, 0, graph=graph, embedding=embedding, context=6)
    assert (run.fields["graph"], run.fields["degree"], run.fields["embedding"]) == (graph, 1, embedding)
    assert make_run(12, 6, 2, 3, 0, graph=run.task.graph, embedding=run.task.embedding, context=6).id == run.id
