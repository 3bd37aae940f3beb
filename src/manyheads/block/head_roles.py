"""What the heads of a trained block do: how much each attends to the pair that holds the query's successor.

Construction II gives every head a share of the sources. Whether training finds such a partition is seen query by query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from manyheads.block.block_data import task_of
from manyheads.block.block_run import BlockRun
from manyheads.errors import InputError
from manyheads.training.data import Stream

SERVES = 0.5
"""A head serves a query if so much of its attention, in the mean over contexts, goes to the successor's pair."""
EXAMPLES_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class HeadWork:
    """By query and head, the mean attention to the pair that holds π(q); queries that were never drawn are absent."""

    queries: Int64[ndarray, " queries"]
    attention: Float64[ndarray, "queries heads"]

    @property
    def mean(self) -> Float64[ndarray, " heads"]:
        """Of each head, over all queries."""
        return self.attention.mean(axis=0)

    @property
    def first(self) -> Int64[ndarray, " queries"]:
        """The head that attends most to the successor of each query; −1 where none serves it."""
        best = self.attention.argmax(axis=1)
        return np.where(self.attention.max(axis=1) >= SERVES, best, -1)

    @property
    def servers(self) -> Int64[ndarray, " queries"]:
        """How many heads serve each query."""
        return (self.attention >= SERVES).sum(axis=1)


def head_work(
    run: BlockRun, weights: Mapping[str, ndarray], table: ndarray, *, per_query: int = 16, device: str = "cpu"
) -> HeadWork:
    """Look at the attention of a trained block in about so many test contexts for each query.

    `table` is the run's own, as `table_of` gives it.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError("a block needs torch: install manyheads[torch]") from None
    from torch.nn.functional import layer_norm

    from manyheads.block.block_weights import initial_weights, side_by_side
    from manyheads.block.encoding import encode
    from manyheads.block.folded_block import attention
    from manyheads.training.devices import device_named

    place = device_named(device)
    like = initial_weights(run)
    shapes = {name: tuple(tensor.shape) for name, tensor in like.named().items()}
    if {name: weight.shape for name, weight in weights.items()} != shapes:
        raise InputError("the weights are not those of a block of the run's shape")
    own = side_by_side([like.rebuilt(torch.from_numpy(weights[name]).to(place, torch.float32) for name in shapes)])
    rows = torch.from_numpy(table).to(place, torch.float32)[None]
    examples = task_of(run).batches(Stream.TEST, 0, 1, size=per_query * run.items)
    sums, counts = np.zeros((run.items, run.heads)), np.bincount(examples.queries, minlength=run.items)
    for start in range(0, len(examples.queries), EXAMPLES_AT_ONCE):
        part = slice(start, start + EXAMPLES_AT_ONCE)
        queries, pairs = (torch.from_numpy(each[part]).to(place)[None] for each in (examples.queries, examples.pairs))
        x = encode(rows, queries, pairs)
        with torch.no_grad():
            given = attention(own, layer_norm(x, x.shape[-1:], eps=run.norm_epsilon))[0].cpu().numpy()
        places = examples.places[part]
        np.add.at(sums, examples.queries[part], given[np.arange(len(places)), :, places])
    drawn = np.flatnonzero(counts)
    return HeadWork(drawn, sums[drawn] / counts[drawn, None])
