"""BlockBatch: blocks of one shape, trained together in one set of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import cross_entropy

from manyheads.block.block_data import MatchingExamples, task_of
from manyheads.block.block_network import BlockWeights, encode, folded_logits, initial_weights, stack_weights
from manyheads.block.block_run import NUMBERS_AT_ONCE, Answers, BlockRun
from manyheads.errors import InputError
from manyheads.training.batched_runs import device_named
from manyheads.training.data import Stream


class BlockBatch:
    """Blocks from their initial weights on. The runs share tensors, but no run depends on the data of another."""

    def __init__(
        self, runs: Sequence[BlockRun], tables: Sequence[Float32[ndarray, "rows d_model"]], *, device: str = "cpu"
    ) -> None:
        if not runs or any(run.shared_fields != runs[0].shared_fields for run in runs):
            raise InputError("blocks trained in one batch may differ in their seeds and embeddings only")
        self.run, self.device = runs[0], device_named(device)
        self.tasks = [task_of(run) for run in runs]
        self.table = torch.from_numpy(np.stack(tables)).to(self.device)
        first = stack_weights([initial_weights(run) for run in runs])
        self.weights = first.with_tensors(
            tensor.to(self.device, torch.float32).requires_grad_() for tensor in first.by_name().values()
        )
        self.best = self.weights.with_tensors(tensor.detach().clone() for tensor in self.weights.by_name().values())
        self.adamw = torch.optim.AdamW(
            self.weights.by_name().values(),
            lr=self.run.learning_rate,
            betas=(self.run.beta1, self.run.beta2),
            eps=self.run.epsilon,
            weight_decay=self.run.weight_decay,
            fused=True,
        )
        self.step = 0

    def advance(self, count: int) -> Float64[ndarray, "count runs"]:
        """Take `count` training steps and return their losses. A loss that is not finite affects its own run only."""
        size = self.run.batch
        examples = [task.batches(Stream.TRAIN, self.step, count, size=size) for task in self.tasks]
        losses = self.table.new_empty((count, len(self.tasks)))
        for n in range(count):
            part = slice(n * size, (n + 1) * size)
            answers = self._logits(self.weights, examples, part)
            labels = self._stacked([own.labels[part] for own in examples])
            loss = cross_entropy(answers.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels).mean(dim=1)
            self.adamw.zero_grad()
            torch.autograd.backward(loss.sum())
            self.adamw.step()
            losses[n] = loss.detach()
        self.step += count
        return losses.cpu().numpy().astype(np.float64)

    @torch.no_grad()
    def evaluate(self, weights: BlockWeights, stream: Stream, count: int) -> list[Answers]:
        """The answers of each run to the first `count` examples of a stream, with these weights."""
        examples = [task.batches(stream, 0, 1, size=count) for task in self.tasks]
        at_once = max(1, NUMBERS_AT_ONCE // (self.run.numbers * len(examples)))
        counts = torch.zeros((2, len(examples)), dtype=torch.int64, device=self.device)
        for start in range(0, count, at_once):
            part = slice(start, start + at_once)
            answers = self._logits(weights, examples, part).argmax(dim=-1)
            labels = self._stacked([own.labels[part] for own in examples])
            counts += torch.stack([(answers == labels).sum(dim=1), (answers == self.run.items).sum(dim=1)])
        return [Answers(right, null, count) for right, null in counts.T.tolist()]

    def finite_runs(self) -> Bool[ndarray, " runs"]:
        """Whether all weights of each run are finite."""
        finite = [tensor.detach().flatten(1).isfinite().all(dim=1) for tensor in self.weights.by_name().values()]
        return torch.stack(finite).all(dim=0).cpu().numpy()

    @torch.no_grad()
    def store_best(self, n: int) -> None:
        """Store the present weights of run n as its best weights."""
        for best, now in zip(self.best.by_name().values(), self.weights.by_name().values(), strict=True):
            best[n] = now[n]

    def best_weights(self, n: int) -> dict[str, Float32[ndarray, "*shape"]]:
        """The best weights of run n by name."""
        return {name: tensor[n].cpu().numpy().copy() for name, tensor in self.best.by_name().items()}

    def _logits(
        self, weights: BlockWeights, examples: Sequence[MatchingExamples], part: slice
    ) -> Float[Tensor, "runs examples rows"]:
        """The logits in float32, for every precision of the products."""
        x = encode(
            self.table,
            self._stacked([own.queries[part] for own in examples]),
            self._stacked([own.pairs[part] for own in examples]),
        )
        mixed = self.run.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=mixed):
            return folded_logits(weights, x, self.table, norm_epsilon=self.run.norm_epsilon).float()

    def _stacked(self, parts: Sequence[ndarray]) -> Int[Tensor, "runs examples *shape"]:
        return torch.from_numpy(np.stack(parts)).to(self.device, non_blocking=True)
