"""Batch: blocks of one shape in training, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import cross_entropy

from manyheads.block.block_data import task_of
from manyheads.block.block_outcome import Answers
from manyheads.block.block_run import BlockRun
from manyheads.block.block_weights import Weights, initial_weights, side_by_side
from manyheads.block.encoding import encode
from manyheads.block.folded_block import logits
from manyheads.block.matching_task import Examples
from manyheads.errors import InputError
from manyheads.training.data import Stream
from manyheads.training.devices import device_named

NUMBERS_AT_ONCE = 1 << 24
"""How many numbers an evaluation may hold in one tensor; it takes as many examples at a time as that allows."""


class Batch:
    """Blocks at their first weights, to be trained step by step; no run reads what belongs to another."""

    def __init__(
        self, runs: Sequence[BlockRun], tables: Sequence[Float32[ndarray, "rows d_model"]], *, device: str = "cpu"
    ) -> None:
        if not runs or any(_shape(run) != _shape(runs[0]) for run in runs):
            raise InputError("blocks trained in one batch may differ in their seeds and embeddings only")
        self.run, self.device = runs[0], device_named(device)
        self.tasks = [task_of(run) for run in runs]
        self.table = torch.from_numpy(np.stack(tables)).to(self.device)
        first = side_by_side([initial_weights(run) for run in runs])
        self.weights = first.rebuilt(
            tensor.to(self.device, torch.float32).requires_grad_() for tensor in first.named().values()
        )
        self.best = self.weights.rebuilt(tensor.detach().clone() for tensor in self.weights.named().values())
        self.adamw = torch.optim.AdamW(
            self.weights.named().values(),
            lr=self.run.learning_rate,
            betas=(self.run.beta1, self.run.beta2),
            eps=self.run.epsilon,
            weight_decay=self.run.weight_decay,
            fused=True,
        )
        self.step = 0

    def advance(self, count: int) -> Float64[ndarray, "count runs"]:
        """Take so many steps and return their losses; what is not finite harms its own run only."""
        size = self.run.batch
        drawn = [task.batches(Stream.TRAIN, self.step, count, size=size) for task in self.tasks]
        losses = self.table.new_empty((count, len(self.tasks)))
        for n in range(count):
            part = slice(n * size, (n + 1) * size)
            answers = self._logits(self.weights, drawn, part)
            labels = self._stacked([examples.labels[part] for examples in drawn])
            loss = cross_entropy(answers.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels).mean(dim=1)
            self.adamw.zero_grad()
            torch.autograd.backward(loss.sum())
            self.adamw.step()
            losses[n] = loss.detach()
        self.step += count
        return losses.cpu().numpy().astype(np.float64)

    @torch.no_grad()
    def evaluate(self, weights: Weights, stream: Stream, count: int) -> list[Answers]:
        """How each run answers the first `count` examples of a stream, with these weights."""
        drawn = [task.batches(stream, 0, 1, size=count) for task in self.tasks]
        numbers = max(self.run.items + 1, (self.run.context + 2) * self.run.d_model) * len(drawn)
        at_once = max(1, NUMBERS_AT_ONCE // numbers)
        counts = torch.zeros((2, len(drawn)), dtype=torch.int64, device=self.device)
        for start in range(0, count, at_once):
            part = slice(start, start + at_once)
            named = self._logits(weights, drawn, part).argmax(dim=-1)
            labels = self._stacked([examples.labels[part] for examples in drawn])
            counts += torch.stack([(named == labels).sum(dim=1), (named == self.run.items).sum(dim=1)])
        return [Answers(right, null, count) for right, null in counts.T.tolist()]

    def sound(self) -> Bool[ndarray, " runs"]:
        """Which runs have finite weights."""
        finite = [tensor.detach().flatten(1).isfinite().all(dim=1) for tensor in self.weights.named().values()]
        return torch.stack(finite).all(dim=0).cpu().numpy()

    @torch.no_grad()
    def keep(self, n: int) -> None:
        """Remember the present weights of a run as its best."""
        for best, now in zip(self.best.named().values(), self.weights.named().values(), strict=True):
            best[n] = now[n]

    def best_of(self, n: int) -> dict[str, Float32[ndarray, "*shape"]]:
        """The best weights of a run, by name."""
        return {name: tensor[n].cpu().numpy().copy() for name, tensor in self.best.named().items()}

    def _logits(self, weights: Weights, drawn: Sequence[Examples], part: slice) -> Float[Tensor, "runs examples rows"]:
        """In float32, whatever the products are made in."""
        x = encode(
            self.table,
            self._stacked([examples.queries[part] for examples in drawn]),
            self._stacked([examples.pairs[part] for examples in drawn]),
        )
        mixed = self.run.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=mixed):
            return logits(weights, x, self.table, norm_epsilon=self.run.norm_epsilon).float()

    def _stacked(self, parts: Sequence[ndarray]) -> Int[Tensor, "runs examples *shape"]:
        return torch.from_numpy(np.stack(parts)).to(self.device, non_blocking=True)


def _shape(run: BlockRun) -> dict[str, int | float | str]:
    """What all runs of a batch have in common."""
    own = ("seed", "problem_seed", "embedding")
    return {name: value for name, value in run.fields.items() if name not in own}
