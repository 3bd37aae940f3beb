"""Eager PyTorch, one context a step: the ordinary training loop of the paper's protocol, written in two ways.

`--written with-care`: a module with a weight for queries and one for keys, `einsum`, the loss from logits with a weight
for positives, AdamW as it comes. No loop over heads or pairs, nothing computed twice, no waiting for a result.

`--written tuned`: what was quickest of all that was tried on small CPU tensors: one weight matrix for queries and
keys together, `bmm` for the scores, AdamW with `fused=True`.

Both have one thread in each of two processes. Contexts, rows and labels are prepared 500 steps at a time, at next to no
cost; `--draw` draws each context inside the loop instead, as App. A.1 describes it and as the native engine does.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing.synchronize import Barrier
from typing import Literal

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from manyheads.training.data import Stream, TrainingData, initial_weights, training_data
from manyheads.training.run import Run
from manyheads.training.task import Task

WARM_UP = 50
SLICE = 0.01  # seconds, as long as the native engine's: the longer a slice, the seldomer the machine is calm throughout
SCORED = 100  # contexts after the last step, on which all contenders' losses must agree
AHEAD = 500

together: Barrier  # of the processes, set in each by `ready`


@dataclass(frozen=True)
class Peer:
    """One shape, trained in as many processes as there are cores to fill."""

    items: int
    d_model: int
    heads: int
    key_width: int
    steps: int
    processes: int = 2
    draw: bool = False
    written: Literal["with-care", "tuned"] = "tuned"


class WithCare(torch.nn.Module):
    """The layer as the paper writes it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        query, key = initial_weights(run)
        self.query = torch.nn.Parameter(torch.tensor(query, dtype=torch.float32))
        self.key = torch.nn.Parameter(torch.tensor(key, dtype=torch.float32))
        self.threshold = torch.nn.Parameter(torch.zeros(()))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Scores over the threshold, under the rule max."""
        query = torch.einsum("pd,hdk->hpk", x, self.query)
        key = torch.einsum("qd,hdk->hqk", x, self.key)
        return torch.einsum("hpk,hqk->hpq", query, key).max(dim=0).values - self.threshold


class Tuned:
    """The same with as few and as quick calls as possible."""

    def __init__(self, run: Run) -> None:
        query, key = (np.concatenate(list(weights), axis=1) for weights in initial_weights(run))
        self.weights = torch.tensor(np.concatenate([query, key], axis=1), dtype=torch.float32, requires_grad=True)
        self.threshold = torch.zeros((), requires_grad=True)
        self.optimizer = torch.optim.AdamW([self.weights, self.threshold], lr=1e-3, weight_decay=0.0, fused=True)
        self.shape = (run.task.context, 2 * run.heads, run.key_width)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores over the threshold, under the rule max."""
        query, key = (x @ self.weights).view(self.shape).transpose(0, 1).chunk(2)
        return torch.bmm(query, key.mT).max(dim=0).values - self.threshold


WRITTEN: dict[str, type[WithCare | Tuned]] = {"with-care": WithCare, "tuned": Tuned}


def loss_of(layer: WithCare | Tuned, x: Tensor, y: Tensor, positive_weight: Tensor) -> Tensor:
    """The weighted logistic loss of one context's rows and labels."""
    return binary_cross_entropy_with_logits(10.0 * layer(x), y, pos_weight=positive_weight)


def learn(layer: WithCare | Tuned, x: Tensor, y: Tensor, positive_weight: Tensor) -> None:
    """One context, one update."""
    layer.optimizer.zero_grad()
    loss_of(layer, x, y, positive_weight).backward()
    layer.optimizer.step()


def prepared(problem: TrainingData, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and labels of the contexts start … stop − 1, made many at a time."""
    rows, targets = torch.from_numpy(problem.rows), torch.tensor(problem.graph.targets)
    for first in range(start, stop, AHEAD):
        contexts = torch.from_numpy(problem.contexts(Stream.TRAIN, first, min(AHEAD, stop - first))).long()
        labels = (targets[contexts][:, :, None] == contexts[:, None, :]).float()
        yield from zip(rows[contexts].unbind(), labels.unbind(), strict=True)


def drawn(problem: TrainingData, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The same, each context drawn when its turn comes (from another generator, so other contexts)."""
    rows, targets = torch.from_numpy(problem.rows), torch.tensor(problem.graph.targets)
    permutation, items, length = problem.graph.targets.tolist(), problem.graph.items, problem.context
    rng = np.random.default_rng(start)
    for _ in range(start, stop):
        context = rng.choice(items, length, replace=False).tolist()
        chosen = rng.permutation(context)[: rng.binomial(length, problem.target_rate)].tolist()
        replaced = rng.random(length).tolist()
        for source, where in zip(chosen, replaced, strict=False):
            target = permutation[source]
            if target not in context:
                others = [p for p, item in enumerate(context) if item != source]
                context[others[int(where * len(others))]] = target
        taken = torch.tensor(context)
        yield rows[taken], (targets[taken][:, None] == taken).float()


def ready(barrier: Barrier) -> None:
    global together
    together = barrier
    torch.set_num_threads(1)


def train(peer: Peer, seed: int) -> tuple[float, float]:
    """Seconds of a step in the best slice, and the loss on the contexts that follow."""
    task = Task(f"permutation:{peer.items}", f"gaussian:{peer.d_model}")
    run = Run(task, heads=peer.heads, key_width=peer.key_width, seed=seed)
    problem = training_data(run)
    layer = WRITTEN[peer.written](run)
    positive_weight = torch.tensor(run.task.context - 1.0)
    source = drawn if peer.draw else prepared
    contexts = source(problem, 0, peer.steps)

    def timed(steps: int) -> float:
        start = time.perf_counter()
        for x, y in islice(contexts, steps):
            learn(layer, x, y, positive_weight)
        return (time.perf_counter() - start) / steps

    timed(WARM_UP)
    together.wait(timeout=300)  # what counts is timed only while all processes run
    in_a_slice = max(1, round(SLICE / timed(WARM_UP)))
    slices = [timed(in_a_slice) for _ in range((peer.steps - 2 * WARM_UP) // in_a_slice)]
    for x, y in contexts:  # what is left makes no slice
        learn(layer, x, y, positive_weight)
    with torch.no_grad():
        scored = prepared(problem, peer.steps, peer.steps + SCORED)
        losses = [loss_of(layer, x, y, positive_weight).item() for x, y in scored]
    return min(slices), float(np.mean(losses))


def main(peer: Peer) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(peer.processes, spawn, ready, (spawn.Barrier(peer.processes),)) as pool:
        found = list(pool.map(train, [peer] * peer.processes, range(peer.processes)))
    # every process has a core of its own, so in the time of one step the machine makes `processes` steps
    step = sum(seconds for seconds, _ in found) / len(found)
    version = f"torch {torch.__version__}"
    print(json.dumps({"microseconds": 1e6 * step / peer.processes, "loss": found[0][1], "version": version}))


if __name__ == "__main__":
    main(tyro.cli(Peer))
