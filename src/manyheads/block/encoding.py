"""What the block reads: pairs as sums of their rows, then NULL, then the query; no positions (Sec. 7.3)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag


def encode(
    table: Float[Tensor, "runs rows d_model"],
    queries: Int[Tensor, "runs examples"],
    pairs: Int[Tensor, "runs examples context 2"],
) -> Float[Tensor, "runs examples positions d_model"]:
    """X = [E[a_1] + E[b_1], …, E[a_ℓ] + E[b_ℓ], E[NULL], E[q]] of every example; NULL is the table's last row."""
    runs, rows, d_model = table.shape
    count, context = pairs.shape[1:3]
    first_row = rows * torch.arange(runs, device=table.device)[:, None, None]
    null = torch.full_like(queries, rows - 1)
    members = torch.cat([pairs.flatten(2), null[..., None], queries[..., None]], dim=2) + first_row
    # bags of two rows, the last two of one: summed without a copy of all rows
    starts = torch.tensor([*range(0, 2 * context + 1, 2), 2 * context + 1], device=table.device)
    offsets = starts + (2 * context + 2) * torch.arange(runs * count, device=table.device)[:, None]
    sums = embedding_bag(members.flatten(), table.flatten(0, 1), offsets.flatten(), mode="sum")
    return sums.view(runs, count, context + 2, d_model)
