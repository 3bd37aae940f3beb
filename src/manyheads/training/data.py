"""TrainingData: the problem, the messages and the contexts of a run, derived from its seeds and nothing else.

Every draw has a key: numpy's SeedSequence over (purpose, seed, the sizes that shape the draw). So all (heads,
key_width) of a problem seed have the same graph, embedding and contexts, in every order and on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from jaxtyping import Float32, Float64, Int32
from numpy import ndarray

from manyheads._native import contexts
from manyheads.numbers import require_memory
from manyheads.problem.graph import Graph
from manyheads.problem.problem import Problem
from manyheads.tables import in_heads
from manyheads.training.run import Run
from manyheads.training.task import Purpose, Task, seed_key


class Stream(IntEnum):
    """The three sequences of contexts of a problem; the n-th context of each can be drawn on its own."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The data that a run trains on; both engines read it."""

    problem: Problem  # rows in float32
    messages: Float64[ndarray, "items message_width"] | None  # x·W_V, only with a value channel
    context: int
    target_rate: float
    context_key: int  # 64 bits

    @property
    def graph(self) -> Graph:
        """The relations."""
        return self.problem.graph

    @property
    def rows(self) -> Float32[ndarray, "items d_model"]:
        """The items' rows."""
        return self.problem.rows

    def contexts(self, stream: Stream, start: int, count: int) -> Int32[ndarray, "count context"]:
        """Contexts start … start + count − 1 of a stream, each a row of distinct items (native/engine/contexts.hpp)."""
        return contexts(
            self.graph.row_starts, self.graph.targets, self.context, self.target_rate, self.context_key,
            int(stream), start, count,
        )  # fmt: skip


def training_data(run: Run) -> TrainingData:
    """The data of a run, drawn from its problem seed; refused where run and data would not fit into the memory."""
    require_memory(
        run_bytes(run), f"a run of {in_heads(run.heads, run.key_width, run.key_heads)} on {run.items:,} items"
    )
    task, seed = run.task, run.seed if run.problem_seed is None else run.problem_seed
    problem = task.draw(seed)
    rate = int(np.float64(task.target_rate).view(np.uint64))
    return TrainingData(
        problem=problem,
        messages=_messages(problem.rows, seed, task) if task.objective == "values" else None,
        context=task.context,
        target_rate=task.target_rate,
        context_key=seed_key(Purpose.CONTEXTS, seed, task.items, task.context, rate),
    )


def run_bytes(run: Run) -> int:
    """An estimate of the memory of a run in bytes: rows, weights with their moments, scores, contexts of the tests."""
    number, length, protocol = 8 if run.protocol.precision == "float64" else 4, run.task.context, run.protocol
    messages = int(run.fields["message_width"]) if run.task.objective == "values" else 0
    rows = run.items * (run.d_model * (8 + number) + messages * (8 + number) + 8)
    weights = run.weights * (32 + 4 * number)  # float64 at the border, four arrays in the engine
    scores = number * length * (length * (6 + 2 * run.heads) + 2 * (run.query_budget + run.key_budget))
    return rows + weights + scores + 8 * length * (protocol.validation_contexts + protocol.test_contexts)


def initial_weights(
    run: Run,
) -> tuple[Float64[ndarray, "heads d_model d_k"], Float64[ndarray, "key_heads d_model d_k"]]:
    """The first query and key weights: normal, in float64, from (seed, shape); engines round to their precision."""
    shape = (run.heads, run.d_model, run.key_width, *([] if run.key_heads is None else [run.key_heads]))
    rng = np.random.default_rng(seed_key(Purpose.WEIGHTS, run.seed, *shape))
    drawn = rng.standard_normal((run.heads + run.groups, run.d_model, run.key_width))
    drawn *= float(run.fields["initial_scale"])
    return drawn[: run.heads], drawn[run.heads :]


def _messages(rows: Float32[ndarray, "items d_model"], seed: int, task: Task) -> Float64[ndarray, "items width"]:
    """y_i = x_i·W_V with the frozen random value map W_V ~ N(0, 1/d_msg)."""
    width = int(task.fields["message_width"])
    rng = np.random.default_rng(seed_key(Purpose.VALUES, seed, task.d_model, width))
    return rows.astype(np.float64) @ (rng.standard_normal((task.d_model, width)) / np.sqrt(width))
