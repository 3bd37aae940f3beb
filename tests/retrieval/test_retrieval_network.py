"""The folded network against the plain one, and the construction as weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny_retrieval import TINY

from manyheads import InputError
from manyheads.retrieval import (
    SharpHeads,
    challenge,
    max_and_min,
    sharp_heads,
    sum_of_maxima,
)

torch = pytest.importorskip("torch", reason="retrieval networks need the torch extra")
from manyheads.retrieval import folded_network as folded  # noqa: E402
from manyheads.retrieval import plain  # noqa: E402
from manyheads.retrieval.network_weights import Weights, cut, initial_weights, side_by_side  # noqa: E402
from manyheads.retrieval.sharp_network import answers_of, network  # noqa: E402

torch.set_num_threads(1)


# --- one network, twice


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_folded_network_is_the_plain_one_forward_and_backward(layers: int) -> None:
    """In float64, several runs of different shapes side by side."""
    runs = [replace(TINY, layers=layers, heads=h, head_width=n, seed=h) for h, n in ((1, 3), (3, 2), (2, 4))]
    each = [initial_weights(run) for run in runs]
    each = [w.rebuilt(t + 0.1 * torch.randn(t.shape, dtype=t.dtype).abs() for t in w) for w in each]
    together = side_by_side(each)
    together = together.rebuilt(tensor.requires_grad_() for tensor in together)
    x = torch.randn(3, 4, 5, 2, dtype=torch.float64)
    answers = folded.answers(together, x)
    found = torch.autograd.grad(answers.square().sum(), list(together), allow_unused=True)  # one layer: none between
    gradients = Weights(*(torch.zeros_like(w) if g is None else g for g, w in zip(found, together, strict=True)))
    for place, (run, weights) in enumerate(zip(runs, each, strict=True)):
        weights = weights.rebuilt(tensor.requires_grad_() for tensor in weights)
        said = plain.answers(weights, x[place])
        torch.testing.assert_close(answers[place], said, rtol=1e-12, atol=1e-12)
        by_hand = torch.autograd.grad(said.square().sum(), list(weights), allow_unused=True)
        own = cut(gradients, place, heads=run.heads, width=run.width)
        for name, mine, theirs in zip(Weights._fields, own, by_hand, strict=True):
            wanted = torch.zeros_like(mine) if theirs is None else theirs
            torch.testing.assert_close(mine, wanted, rtol=1e-10, atol=1e-11, msg=name)
        whole = sum(float(tensor[place].abs().sum()) for tensor in gradients)
        kept = sum(float(tensor.abs().sum()) for tensor in own)
        assert whole == pytest.approx(kept, rel=1e-12)  # what was filled up with zeros has no gradient


def test_the_pool_has_the_gradient_that_torch_finds() -> None:
    from manyheads.retrieval.pooling import Pool

    shapes = ((2, 3, 4, 2), (2, 2, 5), (2, 5), (2, 3, 5))
    x, *others = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    others = [tensor.requires_grad_() for tensor in others]
    assert torch.autograd.gradcheck(Pool.apply, (x, *others))


def test_weights_are_cut_as_they_were_filled_up() -> None:
    runs = [replace(TINY, heads=h, head_width=n, layers=2) for h, n in ((1, 2), (3, 4))]
    each = [initial_weights(run) for run in runs]
    together = side_by_side(each)
    for place, (run, weights) in enumerate(zip(runs, each, strict=True)):
        for mine, theirs in zip(cut(together, place, heads=run.heads, width=run.width), weights, strict=True):
            assert torch.equal(mine, theirs)


# --- the construction as weights


@pytest.mark.parametrize("task", [
    sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0], [0.0, -1.0]]), 12, box=(-2.0, 2.0)),
    sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0]]), 12, subsets=(np.arange(3, 9), np.arange(12))),
    max_and_min(12),
], ids=["maxima", "subsets", "max and min"])  # fmt: skip
def test_the_construction_is_a_network_of_d_heads_of_width_2(task) -> None:  # type: ignore[no-untyped-def]
    sharp = sharp_heads(task, error=1e-3)
    weights = network(sharp)
    assert weights.query.shape == (1, task.dimension, 2 * task.dimension, 2)
    answer = answers_of(weights, task)
    x = np.random.default_rng(0).uniform(*task.box, size=(40, 12, task.width))
    np.testing.assert_allclose(answer(x), task.combination.value(sharp.retrieved(x)), atol=1e-11)
    promised, beta = sharp.guarantee.error + sharp.guarantee.rounding, sharp.inverse_temperature
    found = challenge(answer, task, promised, inverse_temperature=beta, seed=1, sequences=200, rounds=10)
    assert found.verdict == "stands"
    assert found.share > 0.5


@pytest.mark.parametrize("name", ["encode", "embed", "token", "key", "value", "output", "sharpness", "decide_bias"])
def test_a_network_that_was_tampered_with_is_refuted(name: str) -> None:
    task = max_and_min(8)
    sharp = SharpHeads(task, 200.0)
    weights = network(sharp)
    spoiled = weights._replace(**{name: getattr(weights, name) * 0.9})
    promised = sharp.guarantee.error + sharp.guarantee.rounding
    found = challenge(answers_of(spoiled, task), task, promised, inverse_temperature=200.0, seed=0, sequences=100)
    assert found.verdict == "refuted"


def test_heads_that_look_outside_their_places_are_refuted() -> None:
    task = sum_of_maxima(np.array([[0.6, -0.8], [1.0, 0.0]]), 12, subsets=(np.arange(3), np.arange(9, 12)))
    sharp = SharpHeads(task, 200.0)
    weights, promised = network(sharp), sharp.guarantee.error + sharp.guarantee.rounding
    query = weights.query.clone()
    query[..., 1] = 0  # no penalty
    verdicts = [
        challenge(answers_of(one, task), task, promised, inverse_temperature=200.0, seed=0, sequences=50).verdict
        for one in (weights, weights._replace(query=query))
    ]
    assert verdicts == ["stands", "refuted"]


def test_what_is_no_such_network_is_one_sentence() -> None:
    weights = network(SharpHeads(max_and_min(8), 9.0))
    with pytest.raises(InputError, match="2 heads of width 1 make up 2 dimensions, not E = 4"):
        answers_of(weights._replace(query=weights.query[..., :1]), max_and_min(8))
    curved = replace(max_and_min(8).features[0], slope=None)
    with pytest.raises(InputError, match="linear f_i and F0 only"):
        network(SharpHeads(replace(max_and_min(8), features=(curved,) * 2), 9.0))
