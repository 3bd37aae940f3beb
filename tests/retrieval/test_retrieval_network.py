"""The folded network against the plain one, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.tiny_retrieval import TINY

torch = pytest.importorskip("torch", reason="retrieval networks need the torch extra")
from manyheads.retrieval.network_weights import (  # noqa: E402
    NetworkWeights,
    initial_weights,
    run_weights,
    stack_weights,
)
from manyheads.retrieval.retrieval_network import SoftmaxPool, folded_answers, plain_answers  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_folded_network_is_the_plain_one_forward_and_backward(layers: int) -> None:
    """In float64, for several runs of different shapes at once."""
    noise = torch.Generator().manual_seed(layers)
    runs = [replace(TINY, layers=layers, heads=h, head_width=n, seed=h) for h, n in ((1, 3), (3, 2), (2, 4))]
    each = [initial_weights(run) for run in runs]
    each = [
        w.with_tensors(t + 0.1 * torch.randn(t.shape, dtype=t.dtype, generator=noise).abs() for t in w) for w in each
    ]
    together = stack_weights(each)
    together = together.with_tensors(tensor.requires_grad_() for tensor in together)
    x = torch.randn(3, 4, 5, 2, dtype=torch.float64, generator=noise)
    answers = folded_answers(together, x)
    found = torch.autograd.grad(answers.square().sum(), list(together), allow_unused=True)  # one layer: none between
    gradients = NetworkWeights(*(torch.zeros_like(w) if g is None else g for g, w in zip(found, together, strict=True)))
    for place, (run, weights) in enumerate(zip(runs, each, strict=True)):
        weights = weights.with_tensors(tensor.requires_grad_() for tensor in weights)
        said = plain_answers(weights, x[place])
        torch.testing.assert_close(answers[place], said, rtol=1e-12, atol=1e-12)
        by_hand = torch.autograd.grad(said.square().sum(), list(weights), allow_unused=True)
        own = run_weights(gradients, place, heads=run.heads, width=run.width)
        for name, mine, theirs in zip(NetworkWeights._fields, own, by_hand, strict=True):
            wanted = torch.zeros_like(mine) if theirs is None else theirs
            torch.testing.assert_close(mine, wanted, rtol=1e-10, atol=1e-11, msg=name)
        whole = sum(float(tensor[place].abs().sum()) for tensor in gradients)
        kept = sum(float(tensor.abs().sum()) for tensor in own)
        assert whole == pytest.approx(kept, rel=1e-12)  # what was filled up with zeros has no gradient


def test_the_pool_has_the_gradient_that_torch_finds() -> None:
    noise = torch.Generator().manual_seed(0)
    shapes = ((2, 3, 4, 2), (2, 2, 5), (2, 5), (2, 3, 5))
    x, *others = (torch.randn(shape, dtype=torch.float64, generator=noise) for shape in shapes)
    others = [tensor.requires_grad_() for tensor in others]
    assert torch.autograd.gradcheck(SoftmaxPool.apply, (x, *others))
