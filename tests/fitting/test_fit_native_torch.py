"""A burst of steps against torch: its autograd and its Adam, on weights and threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from manyheads import gaussian, power_law_graph
from manyheads._native import Fitting64


@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2), (3, 1)])
def test_a_burst_is_torchs_adam_on_weights_and_threshold(heads: int, key_heads: int) -> None:
    graph = power_law_graph(60, 150, exponent=2.2, seed=1)
    rows = gaussian(graph.items, 11, seed=3)
    rng = np.random.default_rng(0)
    start = [rng.standard_normal((number, 11, 5)) * 1.2 for number in (heads, key_heads)]
    fitting = Fitting64(graph.row_starts, graph.targets, rows, heads, 5, 1, key_heads)
    fitting.set_weights(start[0], start[1], 1.3)
    rates = [0.2, 0.1, 0.05, 0.3, 0.01]
    fitting.burst(rates, 0.9, 0.95, 3.0, 0.0, 1.0, math.inf, False)
    x, related = torch.tensor(rows, dtype=torch.float64), torch.tensor(graph.adjacency())
    query, key = (torch.tensor(w, requires_grad=True) for w in start)
    threshold = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([query, key, threshold], betas=(0.9, 0.95), eps=1e-12)
    for rate in rates:
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        keys = torch.stack([x @ key[head * key_heads // heads] for head in range(heads)])
        scores = (x @ query) @ keys.transpose(1, 2)
        # both levels move with the threshold
        others, lack = scores[:, ~related] - (threshold - 1), threshold + 1 - scores.amax(0)[related]
        (others.clamp(min=0).square().sum() + 3 * lack.clamp(min=0).square().sum()).backward()
        adam.step()
    mine = fitting.weights()
    for got, wanted in zip(mine, (query, key, threshold), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted.detach().numpy(), rtol=1e-8, atol=1e-10)
