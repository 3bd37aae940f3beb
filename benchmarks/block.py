"""One training step of the folded block against the textbook's in eager PyTorch, and its memory at the paper's size.

python benchmarks/block.py [step] [memory]      both on two threads; run alone
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from manyheads.block import BlockRun, table_of, task_of
from manyheads.block.block_batch import BlockBatch
from manyheads.block.block_network import encode, initial_weights
from manyheads.machine import machine
from manyheads.training.data import Stream

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.textbook_block import textbook_logits

THREADS = 2
ROUNDS, STEPS = 5, 8  # the quickest of 5 rounds counts, of 8 steps each
SPEED_UP, GIBIBYTES = 4, 4  # wanted


class Textbook:
    """The same run by the textbook block and torch's AdamW, with examples generated and encoded the same way."""

    def __init__(self, run: BlockRun) -> None:
        self.run, self.task, self.table = run, task_of(run), torch.from_numpy(table_of(run))
        first = initial_weights(run)
        self.weights = first.with_tensors(tensor.float().requires_grad_() for tensor in first.by_name().values())
        parameters = self.weights.by_name().values()
        self.adamw = torch.optim.AdamW(parameters, lr=run.learning_rate, weight_decay=run.weight_decay, fused=True)
        self.step = 0

    def advance(self, count: int) -> np.ndarray:
        """Take `count` training steps and return their losses."""
        drawn = self.task.batches(Stream.TRAIN, self.step, count, size=self.run.batch)
        losses = np.empty((count, 1))
        for n in range(count):
            part = slice(n * self.run.batch, (n + 1) * self.run.batch)
            queries, pairs, labels = (torch.from_numpy(a[part]) for a in (drawn.queries, drawn.pairs, drawn.labels))
            x = encode(self.table[None], queries[None], pairs[None])[0]
            loss = cross_entropy(
                textbook_logits(self.weights, x, self.table, norm_epsilon=self.run.norm_epsilon), labels
            )
            self.adamw.zero_grad()
            loss.backward()
            self.adamw.step()
            losses[n] = loss.item()
        self.step += count
        return losses


def step() -> None:
    torch.set_num_threads(THREADS)
    for heads in (1, 4, 8):
        run = BlockRun(items=2048, d_model=576, heads=heads, key_width=256 // heads, seed=0)
        folded, textbook = BlockBatch([run], [table_of(run)]), Textbook(run)
        np.testing.assert_allclose(folded.advance(STEPS), textbook.advance(STEPS), rtol=1e-3)  # the same training
        best = {"folded": np.inf, "textbook": np.inf}
        for _ in range(ROUNDS):  # in turns, so that a slow moment of the machine meets both
            for name, contender in (("folded", folded), ("textbook", textbook)):
                begun = perf_counter()
                contender.advance(STEPS)
                best[name] = min(best[name], (perf_counter() - begun) / STEPS)
        print(
            f"m = 2048, d_model = 576, D_K = 256, ℓ = 16, h = {heads}, batch {run.batch}: folded "
            f"{best['folded'] * 1e3:.1f} ms, textbook {best['textbook'] * 1e3:.1f} ms a step: "
            f"{best['textbook'] / best['folded']:.1f} times faster (wanted: {SPEED_UP})"
        )


def memory() -> None:
    """In a process of its own, whose peak is then this training's."""
    done = subprocess.run([sys.executable, __file__, "paper-size"], check=True, capture_output=True, text=True)
    print(f"m = 6144, d_model = 768, D_K = 512, h = 8: {done.stdout.strip()} (wanted: under {GIBIBYTES} GiB)")


def paper_size() -> None:
    torch.set_num_threads(THREADS)
    run = BlockRun(items=6144, d_model=768, heads=8, key_width=64, seed=0)
    batch = BlockBatch([run], [table_of(run)])
    batch.advance(2)
    begun = perf_counter()
    batch.advance(4)
    took = (perf_counter() - begun) / 4
    batch.evaluate(batch.weights, Stream.VALIDATION, run.validation_examples)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB, {took * 1e3:.0f} ms a step")


BENCHMARKS: dict[str, Callable[[], None]] = {"step": step, "memory": memory, "paper-size": paper_size}

if __name__ == "__main__":
    for name in sys.argv[1:] or ["step", "memory"]:
        BENCHMARKS[name]()
    if sys.argv[1:] != ["paper-size"]:
        print(*machine().values(), sep=", ")
