"""RetrievalBatch: networks trained together in one set of tensors; seeds, head counts and head widths may differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from manyheads.errors import InputError
from manyheads.retrieval.network_weights import initial_weights, run_weights, stack_weights
from manyheads.retrieval.retrieval_examples import EXAMPLES_AT_ONCE, RetrievalExamples
from manyheads.retrieval.retrieval_network import folded_answers
from manyheads.retrieval.retrieval_run import RetrievalRun, RetrievalSeedKey
from manyheads.training.batched_runs import device_named


class RetrievalBatch:
    """Networks from their initial weights on. The runs share tensors, but no run depends on the data of another."""

    def __init__(
        self, runs: Sequence[RetrievalRun], examples: Sequence[RetrievalExamples], *, device: str = "cpu"
    ) -> None:
        if not runs or any(run.shared_fields != runs[0].shared_fields for run in runs):
            raise InputError("networks trained in one batch may differ in their seeds and heads only")
        self.runs, self.run, self.device = tuple(runs), runs[0], device_named(device)
        numbers: dict[int, int] = {}  # runs of one problem share its examples
        self.owner = torch.tensor([numbers.setdefault(id(own), len(numbers)) for own in examples])
        distinct = list({id(own): own for own in examples}.values())
        self.tokens = torch.from_numpy(np.stack([own.tokens for own in distinct])).to(self.device)
        self.targets = torch.from_numpy(np.stack([self._standard_targets(own) for own in distinct])).to(self.device)
        first = stack_weights([initial_weights(run) for run in runs])
        self.weights = first.with_tensors(tensor.to(self.device, torch.float32).requires_grad_() for tensor in first)
        self.adam = torch.optim.Adam(
            list(self.weights), lr=self.run.learning_rate, betas=(self.run.beta1, self.run.beta2),
            eps=self.run.epsilon, fused=True,
        )  # fmt: skip
        self.orders = [_BatchOrder(run) for run in runs]
        self.step = 0

    def advance(self, count: int) -> Float64[ndarray, "count runs"]:
        """Take `count` training steps and return their losses. A loss that is not finite affects its own run only."""
        losses = self.targets.new_empty((count, len(self.runs)))
        for n in range(count):
            chosen = torch.from_numpy(np.stack([order.next() for order in self.orders])).to(self.device)
            x, y = (part[self.owner[:, None], chosen] for part in (self.tokens, self.targets))
            for group in self.adam.param_groups:
                group["lr"] = learning_rate(self.run, self.step + n)
            loss = (folded_answers(self.weights, x) - y).square().mean(dim=1)
            self.adam.zero_grad()
            torch.autograd.backward(loss.sum())
            self.adam.step()
            losses[n] = loss.detach()
        self.step += count
        return losses.cpu().numpy().astype(np.float64)

    @torch.no_grad()
    def nmse(self, part: slice) -> Float64[ndarray, " runs"]:
        """MSE/Var(y) of each run over a part of its examples."""
        total = self.targets.new_zeros(len(self.runs), dtype=torch.float64)
        places = range(len(self.targets[0]))[part]
        for start in range(0, len(places), EXAMPLES_AT_ONCE):
            some = torch.tensor(places[start : start + EXAMPLES_AT_ONCE], device=self.device)
            x, y = (whole[:, some][self.owner] for whole in (self.tokens, self.targets))
            total += (folded_answers(self.weights, x) - y).double().square().sum(dim=1)
        variance = self.targets[:, part].double().var(dim=1, correction=0)[self.owner]
        return (total / len(places) / variance).cpu().numpy()

    def finite_runs(self) -> Bool[ndarray, " runs"]:
        """Whether all weights of each run are finite."""
        finite = [tensor.detach().reshape(len(self.runs), -1).isfinite().all(dim=1) for tensor in self.weights]
        return torch.stack(finite).all(dim=0).cpu().numpy()

    def weights_of(self, n: int) -> dict[str, Float32[ndarray, "*shape"]]:
        """The present weights of run n by name."""
        own = run_weights(self.weights, n, heads=self.runs[n].heads, width=self.runs[n].width)
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in own._asdict().items()}

    def _standard_targets(self, examples: RetrievalExamples) -> Float32[ndarray, " examples"]:
        """(y − mean) / standard deviation; both are those of the training examples."""
        training = examples.targets[: self.run.training_examples]
        deviation = float(training.std())
        if deviation == 0:
            raise InputError("all targets are the same: there is nothing to learn")
        return ((examples.targets - training.mean()) / deviation).astype(np.float32)


class _BatchOrder:
    """The batches of a run: the training examples in a new order each epoch, without the last incomplete batch."""

    def __init__(self, run: RetrievalRun) -> None:
        self.size, self.examples = run.batch, run.training_examples
        self.rng = np.random.default_rng((int(RetrievalSeedKey.ORDER), run.seed, run.training_examples, run.batch))
        self.left: Int64[ndarray, " left"] = np.empty(0, dtype=np.int64)

    def next(self) -> Int64[ndarray, " batch"]:
        """The numbers of the examples of the next batch."""
        if len(self.left) < self.size:
            self.left = self.rng.permutation(self.examples)
        chosen, self.left = self.left[: self.size], self.left[self.size :]
        return chosen


def learning_rate(run: RetrievalRun, step: int) -> float:
    """The learning rate of a step: a linear rise over `warm_up` steps, times a cosine that falls to 0."""
    rise = min(1.0, (step + 1) / run.warm_up) if run.warm_up else 1.0
    return run.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * step / run.steps))
