"""The folded block against the usual block, and the usual block against torch's encoder layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.block import BlockRun, table_of, task_of
from manyheads.training.data import Stream

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="the block needs the torch extra")
from support.textbook_block import textbook_logits  # noqa: E402

from manyheads.block.block_network import (  # noqa: E402
    BlockWeights,
    attention,
    encode,
    folded_logits,
    initial_weights,
    stack_weights,
)

torch.set_num_threads(1)
EXAMPLES = 3


@dataclass(frozen=True)
class Scene:
    """Runs of one shape, with weights that no symmetry hides behind, and what they read, in float64."""

    weights: BlockWeights
    table: Tensor
    x: Tensor
    queries: Tensor
    pairs: Tensor


def scene(run: BlockRun, seeds: int) -> Scene:
    runs = [BlockRun(**{**run.__dict__, "seed": run.seed + n}) for n in range(seeds)]
    noise = torch.Generator().manual_seed(run.seed)
    first = stack_weights([initial_weights(each) for each in runs])
    moved = [
        tensor + 0.3 * torch.randn(tensor.shape, generator=noise, dtype=torch.float64)
        for tensor in first.by_name().values()
    ]
    table = torch.tensor(np.stack([table_of(each) for each in runs]), dtype=torch.float64)
    drawn = [task_of(each).batches(Stream.TRAIN, 0, 1, size=EXAMPLES) for each in runs]
    queries = torch.tensor(np.stack([examples.queries for examples in drawn]))
    pairs = torch.tensor(np.stack([examples.pairs for examples in drawn]))
    weights = first.with_tensors(tensor.requires_grad_() for tensor in moved)
    return Scene(weights, table, encode(table, queries, pairs), queries, pairs)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """A run's fields: the run itself is built in the test, whose type checks draw from `random`."""
    heads, context = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return dict(
        items=draw(st.integers(2 * context + 1, 12)),
        d_model=heads * draw(st.integers(2, 4)),
        heads=heads,
        key_width=draw(st.integers(1, 5)),
        context=context,
        mlp_width=draw(st.sampled_from([1, 3, 16])),
        final_norm=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )


def of(weights: BlockWeights, n: int) -> BlockWeights:
    return weights.with_tensors(tensor[n] for tensor in weights.by_name().values())


@settings(max_examples=25)
@given(fields(), st.integers(1, 3))
def test_folded_equals_textbook_forward_and_backward(drawn: dict[str, Any], seeds: int) -> None:
    run = BlockRun(**drawn)
    made, epsilon = scene(run, seeds), run.norm_epsilon
    fast = folded_logits(made.weights, made.x, made.table, norm_epsilon=epsilon)
    plain = torch.stack(
        [
            textbook_logits(of(made.weights, n), x, table, norm_epsilon=epsilon)
            for n, (x, table) in enumerate(zip(made.x, made.table, strict=True))
        ]
    )
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-10)
    upstream = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parameters = list(made.weights.by_name().values())
    gradients = [torch.autograd.grad((each * upstream).sum(), parameters) for each in (fast, plain)]
    for name, ours, theirs in zip(made.weights.by_name(), *gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8, msg=lambda text, name=name: f"{name}: {text}")


def test_textbook_equals_torchs_own_encoder_layer() -> None:
    run = BlockRun(items=20, d_model=12, heads=3, key_width=4, context=4, seed=5)  # d_k = d_model / h, as torch has it
    made = scene(run, 1)
    weights, d_model = of(made.weights, 0), run.d_model
    layer = torch.nn.TransformerEncoderLayer(
        d_model, run.heads, run.mlp_width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    joined = [part.permute(0, 2, 1).reshape(d_model, d_model) for part in (weights.query, weights.key, weights.value)]
    state = {
        "self_attn.in_proj_weight": torch.cat(joined),
        "self_attn.in_proj_bias": torch.zeros(3 * d_model),
        "self_attn.out_proj.weight": weights.output.flatten(0, 1).T,
        "self_attn.out_proj.bias": torch.zeros(d_model),
        "linear1.weight": weights.rise.T, "linear1.bias": weights.rise_bias,
        "linear2.weight": weights.fall.T, "linear2.bias": weights.fall_bias,
        "norm1.weight": weights.before_attention.gain, "norm1.bias": weights.before_attention.bias,
        "norm2.weight": weights.before_mlp.gain, "norm2.bias": weights.before_mlp.bias,
    }  # fmt: skip
    layer.load_state_dict(state)
    expected = layer(made.x[0])[:, -1] @ made.table[0].T
    found = textbook_logits(weights, made.x[0], made.table[0], norm_epsilon=run.norm_epsilon)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_a_prompt_is_sums_of_pairs_then_null_then_the_query() -> None:
    made = scene(BlockRun(items=20, d_model=6, heads=2, key_width=4, context=4, seed=5), 2)
    assert made.x.shape == (2, EXAMPLES, 6, 6)
    for run, example in np.ndindex(2, EXAMPLES):
        table, x = made.table[run], made.x[run, example]
        slots = [table[a] + table[b] for a, b in made.pairs[run, example]]
        expected = torch.stack([*slots, table[20], table[made.queries[run, example]]])
        torch.testing.assert_close(x, expected, rtol=1e-15, atol=0)


def test_attention_is_that_of_the_normed_inputs_through_keys() -> None:
    run = BlockRun(items=20, d_model=6, heads=2, key_width=4, context=4, seed=5)
    made = scene(run, 1)
    weights, x = of(made.weights, 0), made.x[0]
    unit = torch.nn.functional.layer_norm(x, (6,), eps=run.norm_epsilon)
    normed = unit * weights.before_attention.gain + weights.before_attention.bias
    scores = torch.stack(
        [(normed[:, -1:] @ q) @ (normed @ k).mT for q, k in zip(weights.query, weights.key, strict=True)]
    )
    expected = torch.softmax(scores[:, :, 0] / 4**0.5, dim=-1).transpose(0, 1)
    torch.testing.assert_close(attention(made.weights, unit[None])[0], expected, rtol=1e-10, atol=1e-12)


def test_null_and_the_query_itself_are_attended_to() -> None:
    made = scene(BlockRun(items=20, d_model=6, heads=2, key_width=4, context=4, seed=5), 1)
    whole = folded_logits(made.weights, made.x, made.table, norm_epsilon=1e-5)
    order = torch.tensor([2, 0, 3, 1, 4, 5])  # the pairs have no positions
    moved = folded_logits(made.weights, made.x[:, :, order], made.table, norm_epsilon=1e-5)
    torch.testing.assert_close(moved, whole, rtol=1e-10, atol=1e-10)
    for left_out in range(5):
        kept = [position for position in range(6) if position != left_out]
        less = folded_logits(made.weights, made.x[:, :, kept], made.table, norm_epsilon=1e-5)
        assert (less - whole).abs().max() > 1e-3


def test_first_weights_follow_seed_and_shape_only() -> None:
    run = BlockRun(items=20, d_model=64, heads=2, key_width=40, context=4, seed=5)
    first = initial_weights(run)
    again = initial_weights(BlockRun(items=30, d_model=64, heads=2, key_width=40, context=3, seed=5, steps=7))
    assert all(torch.equal(a, b) for a, b in zip(first.by_name().values(), again.by_name().values(), strict=True))
    assert not torch.equal(first.query, initial_weights(BlockRun(**{**run.__dict__, "seed": 6})).query)
    for weight in (first.query, first.key, first.value, first.output, first.rise):
        assert weight.std().item() == pytest.approx(64**-0.5, rel=0.06)
    assert first.fall.std().item() == pytest.approx(16**-0.5, rel=0.1)
    assert first.final is None
