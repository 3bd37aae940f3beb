"""Softmax pooling of a ReLU layer by fixed probes, with its gradient: where nearly all the time of training goes.

Written by hand because the hidden layer is by far the largest tensor: autograd would pass over it twice as often, and
the products with h columns are twenty times slower in the layout it chooses.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class Pool(torch.autograd.Function):
    """Σ_t softmax_t(r_t·p_h)·r_t for every probe p_h, where r = ReLU(x·A + a); x itself gets no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "runs examples length inputs"],
        weight: Float[Tensor, "runs inputs mlp"],
        bias: Float[Tensor, "runs mlp"],
        probes: Float[Tensor, "runs heads mlp"],
    ) -> Float[Tensor, "runs examples heads mlp"]:
        """The pooled hidden layer of every head."""
        runs, examples, length, _ = x.shape
        hidden = torch.baddbmm(bias[:, None], x.flatten(1, 2), weight).relu_()
        scores = torch.bmm(probes, hidden.mT).view(runs, -1, examples, length)
        attention = torch.softmax(scores, dim=3).transpose(1, 2).contiguous()
        ctx.save_for_backward(x, probes, hidden, attention)
        pooled = torch.bmm(attention.flatten(0, 1), hidden.view(runs * examples, length, -1))
        return pooled.view(runs, examples, *pooled.shape[1:])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        """Through the pooled values and through the scores, both in one product."""
        x, probes, hidden, attention = ctx.saved_tensors
        runs, examples, heads, length = attention.shape
        above = upstream.reshape(runs * examples, heads, -1)
        by_attention = torch.bmm(above, hidden.view(runs * examples, length, -1).mT).view_as(attention)
        # softmax: ds = a∘(da − Σ_t a·da)
        by_score = attention * (by_attention - (attention * by_attention).sum(dim=3, keepdim=True))
        # dr_t = Σ_h a_ht·dm_h + ds_ht·p_h
        left = torch.cat([attention, by_score], dim=2).flatten(0, 1)
        right = torch.cat([above.view(runs, examples, heads, -1), probes[:, None].expand(-1, examples, -1, -1)], dim=2)
        by_hidden = torch.bmm(left.mT, right.flatten(0, 1)).view_as(hidden)
        by_hidden = torch.ops.aten.threshold_backward(by_hidden, hidden, 0)  # ReLU's own
        by_probe = torch.bmm(by_score.transpose(1, 2).flatten(2), hidden)
        return None, torch.bmm(x.flatten(1, 2).mT, by_hidden), by_hidden.sum(dim=1), by_probe
