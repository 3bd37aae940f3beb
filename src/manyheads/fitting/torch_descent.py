"""The engine in torch: the surveys and the steps of native/fitting, on a GPU or on the CPU.

The costs, the gradient, Adam and its constants are those of native/fitting/survey.hpp and native/fitting/fitting.hpp;
tests/fitting/test_torch_descent.py compares both engines. The scores of a block of sources with all items are computed
at once, one head after another. A step with a share below 1 surveys whole groups of sources, which a generator of torch
chooses: only steps over all pairs are the same as those of the native engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64
from numpy import ndarray
from torch import Tensor

from manyheads.errors import InputError
from manyheads.fitting.stepwise import AdamStep, FittedWeights, Levels, StepwiseFitting
from manyheads.problem.graph import Graph
from manyheads.training.batched_runs import device_named

GROUP = 48  # sources that a step over a share takes or leaves together, as in native/fitting/survey.hpp
BLOCK_NUMBERS = {"cpu": 2**20}  # scores of one head that are computed at once; on the CPU they stay in its cache
LARGE_BLOCK = 2**25  # on other devices, which need much work in one call


@dataclass(frozen=True)
class TorchFinding:
    """The result of a survey: the fields of the native `Finding`.

    Attributes:
        loss: The sum of all costs.
        by_ceiling: The derivative of the loss by the ceiling.
        by_summit: The derivative of the loss by the summit.
        lowest: The lowest score of any head, at most the floor.
        low: The highest score of a pair without a relation, at least the ceiling.
        high: The lowest score of a relation.
        missed: Relations at or below the threshold.
        false_pairs: Other pairs above the threshold.
        costly: Pairs with a cost, counted once for each head.
    """

    loss: float
    by_ceiling: float
    by_summit: float
    lowest: float
    low: float
    high: float
    missed: int
    false_pairs: int
    costly: int


class TorchFitting(StepwiseFitting):
    """Weights fitted to a graph by full gradients; the methods of `Fitting32`.

    Args:
        graph: The graph to hold.
        rows: The embedding.
        heads: h.
        key_width: d_k.
        key_heads: g, the number of key heads that the heads share; None: as many as heads.
        device: Where torch computes.
        precision: The number type of weights and scores.

    Raises:
        InputError: torch has no such device here.
    """

    def __init__(
        self,
        graph: Graph,
        rows: Float32[ndarray, "items d_model"],
        *,
        heads: int,
        key_width: int,
        key_heads: int | None = None,
        device: str = "cpu",
        precision: torch.dtype = torch.float32,
    ) -> None:
        self._device, self._type = device_named(device), precision
        self._wide = torch.float32 if self._device.type == "mps" else torch.float64  # of sums over all pairs
        self._shape = heads, rows.shape[1], key_width
        self._key_heads = key_heads or heads
        with self._in_memory():
            self._rows = torch.tensor(rows, dtype=precision, device=self._device)
            self._targets = torch.tensor(graph.targets, device=self._device)
        self._starts = [int(start) for start in graph.row_starts]
        self._degrees = torch.tensor(graph.out_degrees, dtype=torch.int64)
        self._groups = torch.arange(-(-graph.items // GROUP))
        self._next_group, self._random = len(self._groups), torch.Generator().manual_seed(0)

    def set_weights(
        self,
        query: Float64[ndarray, "heads d_model key_width"],
        key: Float64[ndarray, "key_heads d_model key_width"],
        threshold: float,
    ) -> None:
        """Set the weights, and the optimiser's moments to zero."""
        with self._in_memory():
            self._values = [torch.tensor(matrix, dtype=self._type, device=self._device) for matrix in (query, key)]
            self._first = [torch.zeros_like(value) for value in self._values]
            self._second = [torch.zeros_like(value) for value in self._values]
        self._threshold, self._threshold_moments, self.taken = float(threshold), (0.0, 0.0), 0

    def weights(self) -> FittedWeights:
        """Return (query, key, threshold)."""
        return (*self._exported(self._values), self._threshold)

    def gradient(
        self,
    ) -> tuple[Float64[ndarray, "heads d_model key_width"], Float64[ndarray, "key_heads d_model key_width"]]:
        """Return the gradient of the last survey, (by query, by key)."""
        return self._exported(self._gradient)

    def look(self, floor: float, ceiling: float, summit: float, threshold: float, weight: float) -> TorchFinding:
        """Survey all pairs, and compute the gradient by the weights."""
        return self.survey((floor, ceiling, summit, threshold), weight, 1.0)

    @property
    def threshold(self) -> float:
        """The threshold."""
        return self._threshold

    @torch.no_grad()
    def survey(self, levels: Levels, weight: float, share: float) -> TorchFinding:
        """Survey the pairs of a share of the sources, and compute the gradient by the weights."""
        with self._in_memory():
            keys = self._rows @ self._values[1]  # (key_heads, items, key_width)
            by_keys = torch.zeros_like(keys)
            by_query = torch.zeros_like(self._values[0])
            tally = _PairSums(levels, weight, self._device, self._wide)
            for first, last in self._blocks(share):
                rows = self._rows[first:last]
                by_block = self._survey_block(rows @ self._values[0], keys, by_keys, (first, last), tally)
                by_query += rows.T @ by_block
            self._gradient = [by_query, self._rows.T @ by_keys]
            return tally.finding()

    def _survey_block(
        self, queries: Tensor, keys: Tensor, by_keys: Tensor, block: tuple[int, int], tally: _PairSums
    ) -> Tensor:
        """Count the pairs of a block of sources; add their gradient by the keys, and return that by the queries."""
        first, last = block
        targets = self._targets[self._starts[first] : self._starts[last]]
        local = torch.repeat_interleave(torch.arange(last - first), self._degrees[first:last]).to(self._device)
        related = local * len(self._rows) + targets  # the places of the relations among the pairs of the block
        shared = self._shape[0] // self._key_heads
        best: Tensor | None = None
        for head, query in enumerate(queries):  # head by head: relations can be most of all pairs
            score = (query[local] * keys[head // shared][targets]).sum(dim=1)
            if best is None:
                best, winner = score, torch.zeros_like(targets)
            else:
                winner = torch.where(score > best, head, winner)
                best = torch.maximum(best, score)
        assert best is not None, "there is at least one head"
        pull = tally.relations(best)
        by_queries, wrong = torch.empty_like(queries), torch.zeros(0, dtype=torch.bool, device=self._device)
        for head, query in enumerate(queries):
            key = keys[head // shared]
            scores = query @ key.T
            scores.view(-1)[related] = tally.neutral
            wrong = tally.wrong(scores, wrong)
            slope = tally.others(scores)
            slope.view(-1)[related] = torch.where(winner == head, pull, 0)
            by_queries[head] = slope @ key
            by_keys[head // shared].addmm_(slope.T, query)
        tally.false_pairs += wrong.sum()
        return by_queries

    @torch.no_grad()
    def step(self, adam: AdamStep, by_threshold: float) -> None:
        """One step of Adam on the weights and, where `by_threshold` is not 0, on the threshold."""
        for value, first, second, by in zip(self._values, self._first, self._second, self._gradient, strict=True):
            first.mul_(adam.beta1).add_(by)
            second.mul_(adam.beta2).addcmul_(by, by)
            value.addcdiv_(first, second.sqrt().add_(adam.epsilon), value=-adam.rate)
        mean, square = self._threshold_moments
        mean, square = adam.beta1 * mean + by_threshold, adam.beta2 * square + by_threshold**2
        self._threshold_moments = mean, square
        self._threshold -= adam.rate * mean / (math.sqrt(square) + adam.epsilon)

    def _blocks(self, share: float) -> Iterator[tuple[int, int]]:
        """The first and the last item (excluded) of each block of sources of a survey."""
        items, every = len(self._rows), len(self._groups)
        size = max(1, BLOCK_NUMBERS.get(self._device.type, LARGE_BLOCK) // items)
        count = min(max(1, round(share * every)), every)
        if count == every:
            ranges = [(0, items)]
        else:
            if self._next_group + count > every:  # the order is used up: shuffle again
                self._groups = self._groups[torch.randperm(every, generator=self._random)]
                self._next_group = 0
            chosen = self._groups[self._next_group : self._next_group + count].tolist()
            self._next_group += count
            ranges = [(GROUP * group, min(GROUP * group + GROUP, items)) for group in chosen]
        for begin, end in ranges:
            for first in range(begin, end, size):
                yield first, min(first + size, end)

    def _exported(self, tensors: list[Tensor]) -> tuple[Float64[ndarray, ...], Float64[ndarray, ...]]:
        query, key = (tensor.cpu().numpy().astype(np.float64) for tensor in tensors)
        return query, key

    @contextmanager
    def _in_memory(self) -> Iterator[None]:
        """Turn an error of memory on the device into one sentence."""
        try:
            yield
        except RuntimeError as error:  # of which torch.OutOfMemoryError is one
            if "memory" not in str(error):
                raise
            heads, d_model, key_width = self._shape
            raise InputError(
                f"{self._device} has too little memory for a fit of {heads} × {key_width}, d_model {d_model}: "
                "fit fewer items or a smaller shape, or use the device cpu"
            ) from None


class _PairSums:
    """The sums of a survey, on the device until its end."""

    def __init__(self, levels: Levels, weight: float, device: torch.device, wide: torch.dtype) -> None:
        self.floor, self.ceiling, self.summit, self.threshold = levels
        self.weight, self.wide = weight, wide
        # a score without a cost, and not above the threshold
        self.neutral = max(self.floor, min(self.ceiling, self.threshold))
        zero, count = torch.zeros((), dtype=wide, device=device), torch.zeros((), dtype=torch.int64, device=device)
        self.loss, self.by_ceiling, self.by_summit = zero, zero.clone(), zero.clone()
        self.lowest, self.low, self.high = zero + self.floor, zero + self.ceiling, zero + math.inf
        self.missed, self.false_pairs, self.costly = count, count.clone(), count.clone()

    def relations(self, best: Tensor) -> Tensor:
        """Count relations by the score of their best head; the derivative of the loss by it."""
        lack = (self.summit - best).clamp_(min=0)
        self.loss = self.loss + self.weight * lack.square().sum(dtype=self.wide)
        self.by_summit = self.by_summit + 2 * self.weight * lack.sum(dtype=self.wide)
        self.missed = self.missed + len(best) - (best > self.threshold).sum()
        self.costly = self.costly + lack.count_nonzero()
        if len(best):
            self.high = torch.minimum(self.high, best.min().to(self.wide))
        return lack * (-2 * self.weight)

    def others(self, scores: Tensor) -> Tensor:
        """Count the other pairs in one head; the derivative of the loss by their scores."""
        self.low = torch.maximum(self.low, scores.max().to(self.wide))
        excess = (scores - self.ceiling).clamp_(min=0)
        self.by_ceiling = self.by_ceiling - 2 * excess.sum(dtype=self.wide)
        if self.floor > -math.inf:
            self.lowest = torch.minimum(self.lowest, scores.min().to(self.wide))
            excess -= (self.floor - scores).clamp_(min=0)
        self.loss = self.loss + excess.square().sum(dtype=self.wide)
        self.costly = self.costly + excess.count_nonzero()
        return excess.mul_(2)

    def wrong(self, scores: Tensor, before: Tensor) -> Tensor:
        """The pairs that this head, or one before it, has above the threshold."""
        now = scores > self.threshold
        return now | before if len(before) else now

    def finding(self) -> TorchFinding:
        """The sums as numbers."""
        sums = (self.loss, self.by_ceiling, self.by_summit, self.lowest, self.low, self.high)
        counts = (self.missed, self.false_pairs, self.costly)
        return TorchFinding(*torch.stack(sums).tolist(), *torch.stack(counts).tolist())
