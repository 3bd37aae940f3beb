"""The roles of the heads of a trained block: how much each head attends to the pair that contains the successor.

Construction II gives each head a part of the sources. The attention, query by query, shows whether training also
finds a partition.
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
"""A head serves a query if at least this share of its attention, averaged over contexts, is on the successor's pair."""
EXAMPLES_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class HeadWork:
    """The mean attention to the pair that contains π(q), for each query q and each head.

    Attributes:
        queries: The queries that occurred at least once.
        attention: The mean attention of each head for each of these queries, from 0 to 1.
    """

    queries: Int64[ndarray, " queries"]
    attention: Float64[ndarray, "queries heads"]

    @property
    def mean(self) -> Float64[ndarray, " heads"]:
        """The mean attention of each head over all queries."""
        return self.attention.mean(axis=0)

    @property
    def first(self) -> Int64[ndarray, " queries"]:
        """The head with the largest attention for each query; −1 if no head serves the query."""
        best = self.attention.argmax(axis=1)
        return np.where(self.attention.max(axis=1) >= SERVES, best, -1)

    @property
    def servers(self) -> Int64[ndarray, " queries"]:
        """The number of heads that serve each query."""
        return (self.attention >= SERVES).sum(axis=1)


def head_work(
    run: BlockRun, weights: Mapping[str, ndarray], table: ndarray, *, per_query: int = 16, device: str = "cpu"
) -> HeadWork:
    """Measure the attention of a trained block on test contexts.

    Args:
        run: The run of the block.
        weights: The trained weights by name, as in `BlockOutcome.weights`.
        table: The table of the run, of shape (items + 1, d_model), as `table_of` returns it.
        per_query: The mean number of test contexts for each query.
        device: A device as torch names it.

    Returns:
        The mean attention of each head for each query.

    Raises:
        InputError: The weights do not have the shapes of the run, or torch or the device is missing.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError("a block needs torch: pip install 'manyheads[torch]'") from None
    from torch.nn.functional import layer_norm

    from manyheads.block.block_network import attention, encode, initial_weights, stack_weights
    from manyheads.training.batched_runs import device_named

    place = device_named(device)
    structure = initial_weights(run)
    shapes = {name: tuple(tensor.shape) for name, tensor in structure.by_name().items()}
    if {name: weight.shape for name, weight in weights.items()} != shapes:
        raise InputError("the weights do not have the shapes of a block of this run")
    own = stack_weights(
        [structure.with_tensors(torch.from_numpy(weights[name]).to(place, torch.float32) for name in shapes)]
    )
    rows = torch.from_numpy(table).to(place, torch.float32)[None]
    examples = task_of(run).batches(Stream.TEST, 0, 1, size=per_query * run.items)
    sums, counts = np.zeros((run.items, run.heads)), np.bincount(examples.queries, minlength=run.items)
    for start in range(0, len(examples.queries), EXAMPLES_AT_ONCE):
        part = slice(start, start + EXAMPLES_AT_ONCE)
        queries, pairs = (torch.from_numpy(each[part]).to(place)[None] for each in (examples.queries, examples.pairs))
        x = encode(rows, queries, pairs)
        with torch.no_grad():
            shares = attention(own, layer_norm(x, x.shape[-1:], eps=run.norm_epsilon))[0].cpu().numpy()
        places = examples.places[part]
        np.add.at(sums, examples.queries[part], shares[np.arange(len(places)), :, places])
    seen = np.flatnonzero(counts)
    return HeadWork(seen, sums[seen] / counts[seen, None])
