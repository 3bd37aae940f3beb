"""BlockRun: its id is its meaning, and what is impossible says why before anything is trained."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
from support.runs import make_run

from manyheads.block import BlockRun
from manyheads.errors import InputError

BASE = BlockRun(items=64, d_model=16, heads=4, key_width=5, seed=3)
CHANGED: dict[str, Any] = {
    "items": 65, "d_model": 20, "heads": 2, "key_width": 6, "seed": 4, "problem_seed": 9,
    "embedding": "given:0123456789abcdef", "reduction": "pca", "context": 8, "mlp_width": 8, "final_norm": True,
    "norm_epsilon": 1e-6, "initial_scale": 0.5, "batch": 64, "learning_rate": 2e-3, "weight_decay": 0.0, "beta1": 0.8,
    "beta2": 0.99, "epsilon": 1e-7, "steps": 30_000, "validate_every": 250, "validation_examples": 100,
    "test_examples": 100, "precision": "bfloat16",
}  # fmt: skip


def unchecked(**given: Any) -> BlockRun:
    """A run as callers make it: without the type checker that this test run puts before __init__."""
    run = object.__new__(BlockRun)
    for field in fields(BlockRun):
        object.__setattr__(run, field.name, given.get(field.name, getattr(BASE, field.name)))
    run.__post_init__()
    return run


def test_a_change_of_any_constant_changes_the_id() -> None:
    assert set(CHANGED) == {field.name for field in fields(BlockRun)}
    given = {"embedding": CHANGED["embedding"]}  # only a given table can be reduced
    changes = [{name: value} | (given if name == "reduction" else {}) for name, value in CHANGED.items()]
    ids = [BASE.id, *(replace(BASE, **change).id for change in changes)]
    assert len(set(ids)) == len(ids)


def test_equal_meanings_have_equal_ids() -> None:
    assert replace(BASE, problem_seed=3).id == BASE.id
    other_numbers = unchecked(items=np.int64(64), learning_rate=np.float64(1e-3), initial_scale=1)
    assert (other_numbers, other_numbers.id) == (BASE, BASE.id)
    assert BlockRun(**asdict(BASE)).id == BASE.id


def test_the_id_does_not_drift() -> None:
    assert BASE.id == "f1f55cf2bcbc0c61"  # a new id needs a new PROTOCOL


def test_a_block_is_not_a_layer() -> None:
    assert make_run(items=64, d_model=16, heads=4, key_width=5, seed=3).id != BASE.id
    assert BASE.fields["kind"] == "block"


def test_defaults_are_the_papers() -> None:
    paper = BlockRun(items=6144, d_model=768, heads=8, key_width=64, seed=0)
    assert (paper.key_budget, paper.value_width, paper.context, paper.mlp_width) == (512, 96, 16, 16)
    assert (paper.weight_decay, paper.steps, paper.final_norm) == (0.01, 100_000, False)


def test_only_training_needs_torch() -> None:
    rooms = "from manyheads.block import *; from manyheads.sweep import BlockTrainer"
    words = f"import sys; {rooms}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"items": 32}, r"2·16 \+ 1 = 33 items, not 32"),
        ({"heads": 3}, "d_model = 16 cannot be divided into the values of 3 heads"),
        ({"heads": 0}, "heads is a whole number from 1"),
        ({"key_width": 0}, "key_width is a whole number from 1"),
        ({"context": 0}, "context is a whole number from 1"),
        ({"batch": 0}, "batch is a whole number from 1"),
        ({"steps": 0}, "steps is a whole number from 1"),
        ({"seed": -1}, "^seed is a whole number from 0"),
        ({"problem_seed": -2}, "^problem_seed is a whole number from 0"),
        ({"embedding": "gpt2"}, "unknown embedding 'gpt2'"),
        ({"reduction": "umap"}, "unknown reduction 'umap'"),
        ({"precision": "float16"}, "unknown precision 'float16'"),
        ({"final_norm": 1}, "final_norm must be true or false"),
        ({"learning_rate": float("nan")}, "learning_rate is a number from 0"),
        ({"learning_rate": -1.0}, "learning_rate is a number from 0"),
        ({"norm_epsilon": 0.0}, "norm_epsilon is a number above 0"),
        ({"beta2": 1.0}, "beta2 is a number from 0"),
        ({"items": 64.5}, "items is a whole number from 1"),
    ],
)
def test_an_impossible_run_says_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        unchecked(**change)
