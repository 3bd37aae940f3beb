"""The benchmark's peers train what the native engine trains: a ratio of times means nothing otherwise."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.runs import make_run

from manyheads.training.data import Stream, training_data
from manyheads.training.engines import native_kernel

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
RUN, STEPS = make_run(64, 16, 4, 5, seed=0), 60


def peer(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PEERS)
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def expected() -> tuple[np.ndarray, np.ndarray, float]:
    kernel = native_kernel(RUN, training_data(RUN))
    kernel.advance(STEPS)
    return kernel.weights()


def side_by_side(weights: np.ndarray) -> np.ndarray:
    """(heads, d_model, key_width) as the peers keep it: (d_model, heads·key_width)."""
    return np.concatenate(list(weights), axis=1)


def taught(written: str) -> Any:
    """PyTorch's layer after the same contexts."""
    pytest.importorskip("torch")
    eager = peer("eager_torch")
    layer, positive_weight = eager.WRITTEN[written](RUN), eager.torch.tensor(RUN.task.context - 1.0)
    for x, y in eager.prepared(training_data(RUN), 0, STEPS):
        eager.learn(layer, x, y, positive_weight)
    return layer


def test_eager_torch_with_care(expected: tuple[np.ndarray, np.ndarray, float]) -> None:
    layer = taught("with-care")
    np.testing.assert_allclose(layer.query.detach().numpy(), expected[0], atol=1e-4)
    np.testing.assert_allclose(layer.key.detach().numpy(), expected[1], atol=1e-4)
    assert layer.threshold.item() == pytest.approx(expected[2], abs=1e-4)


def test_eager_torch_tuned(expected: tuple[np.ndarray, np.ndarray, float]) -> None:
    layer = taught("tuned")
    query, key = np.split(layer.weights.detach().numpy(), 2, axis=1)
    np.testing.assert_allclose(query, side_by_side(expected[0]), atol=1e-4)
    np.testing.assert_allclose(key, side_by_side(expected[1]), atol=1e-4)
    assert layer.threshold.item() == pytest.approx(expected[2], abs=1e-4)


def test_contexts_drawn_in_the_loop_are_the_papers() -> None:
    pytest.importorskip("torch")
    eager, problem = peer("eager_torch"), training_data(RUN)
    drawn = [y.sum().item() for _, y in eager.drawn(problem, 0, 3000)]
    prepared = [y.sum().item() for _, y in eager.prepared(problem, 0, 3000)]
    assert np.mean(drawn) == pytest.approx(np.mean(prepared), rel=0.02)  # relations in a context
    assert np.std(drawn) == pytest.approx(np.std(prepared), rel=0.06)


def test_jax_scan(expected: tuple[np.ndarray, np.ndarray, float]) -> None:
    pytest.importorskip("jax", reason="JAX is in the bench extra")
    scan, problem = peer("jax_scan"), training_data(RUN)
    task = scan.Task(scan.jnp.asarray(problem.rows), scan.jnp.asarray(problem.graph.targets))
    state = scan.train(scan.start(RUN), task, scan.jnp.asarray(problem.contexts(Stream.TRAIN, 0, STEPS)), RUN.heads)
    query, key = np.split(np.asarray(state.parameters[0]), 2, axis=1)
    np.testing.assert_allclose(query, side_by_side(expected[0]), atol=1e-4)
    np.testing.assert_allclose(key, side_by_side(expected[1]), atol=1e-4)
    assert float(state.parameters[1]) == pytest.approx(expected[2], abs=1e-4)
