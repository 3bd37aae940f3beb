"""Weights of retrieval networks: initial, stacked, and those of the explicit construction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny_retrieval import TINY

from manyheads import InputError
from manyheads.retrieval import (
    RetrievalRun,
    RetrievalTask,
    SharpHeads,
    challenge,
    max_and_min,
    sharp_heads,
    sum_of_maxima,
)

torch = pytest.importorskip("torch", reason="retrieval networks need the torch extra")
from manyheads.retrieval.network_weights import initial_weights, run_weights, sharp_weights, stack_weights  # noqa: E402
from manyheads.retrieval.retrieval_network import network_function  # noqa: E402

torch.set_num_threads(1)


def test_weights_are_cut_as_they_were_filled_up() -> None:
    runs = [replace(TINY, heads=h, head_width=n, layers=2) for h, n in ((1, 2), (3, 4))]
    each = [initial_weights(run) for run in runs]
    together = stack_weights(each)
    for place, (run, weights) in enumerate(zip(runs, each, strict=True)):
        for mine, theirs in zip(run_weights(together, place, heads=run.heads, width=run.width), weights, strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("task", [
    sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0], [0.0, -1.0]]), 12, box=(-2.0, 2.0)),
    sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0]]), 12, subsets=(np.arange(3, 9), np.arange(12))),
    max_and_min(12),
], ids=["maxima", "subsets", "max and min"])  # fmt: skip
def test_the_construction_is_a_network_of_d_heads_of_width_2(task: RetrievalTask) -> None:
    sharp = sharp_heads(task, error=1e-3)
    weights = sharp_weights(sharp)
    assert weights.query.shape == (1, task.dimension, 2 * task.dimension, 2)
    answer = network_function(weights, task)
    x = np.random.default_rng(0).uniform(*task.box, size=(40, 12, task.width))
    np.testing.assert_allclose(answer(x), task.combination.value(sharp.soft_minima(x)), atol=1e-11)
    promised, beta = sharp.guarantee.error + sharp.guarantee.rounding, sharp.inverse_temperature
    found = challenge(answer, task, promised, inverse_temperature=beta, seed=1, sequences=200, rounds=10)
    assert found.verdict == "stands"
    assert found.share > 0.5


def test_what_is_no_such_network_is_one_sentence() -> None:
    weights = sharp_weights(SharpHeads(max_and_min(8), 9.0))
    with pytest.raises(InputError, match="2 heads of width 1 make up 2 dimensions, not E = 4"):
        network_function(weights._replace(query=weights.query[..., :1]), max_and_min(8))
    curved = replace(max_and_min(8).features[0], slope=None)
    with pytest.raises(InputError, match="linear f_i and F0 only"):
        sharp_weights(SharpHeads(replace(max_and_min(8), features=(curved,) * 2), 9.0))


@pytest.mark.parametrize(("heads", "width"), [(1, 32), (4, 8), (8, 16)])
def test_keys_begin_as_large_as_queries_and_beta_holds_the_scale(heads: int, width: int) -> None:
    """Adam takes equal steps in all weights, so that a step is equally small beside a query and beside a key."""
    first = initial_weights(RetrievalRun(4, 8, heads, 0, head_width=width, initial_sharpness=0.5))
    assert float(first.key.std()) == pytest.approx(float(first.query.std()), rel=0.1)
    np.testing.assert_allclose(torch.exp(first.sharpness), np.exp(0.5) / np.sqrt(width))


@pytest.mark.parametrize("name", ["encode", "embed", "token", "key", "value", "output", "sharpness", "decide_bias"])
def test_a_network_that_was_tampered_with_is_refuted(name: str) -> None:
    task = max_and_min(8)
    sharp = SharpHeads(task, 200.0)
    weights = sharp_weights(sharp)
    spoiled = weights._replace(**{name: getattr(weights, name) * 0.9})
    promised = sharp.guarantee.error + sharp.guarantee.rounding
    found = challenge(network_function(spoiled, task), task, promised, inverse_temperature=200.0, seed=0, sequences=100)
    assert found.verdict == "refuted"


def test_heads_that_look_outside_their_places_are_refuted() -> None:
    task = sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0]]), 12, subsets=(np.arange(3), np.arange(9, 12)))
    sharp = SharpHeads(task, 200.0)
    weights, promised = sharp_weights(sharp), sharp.guarantee.error + sharp.guarantee.rounding
    query = weights.query.clone()
    query[..., 1] = 0  # no penalty
    verdicts = [
        challenge(network_function(one, task), task, promised, inverse_temperature=200.0, seed=0, sequences=50).verdict
        for one in (weights, weights._replace(query=query))
    ]
    assert verdicts == ["stands", "refuted"]
