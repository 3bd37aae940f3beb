"""Problem: the graph, the embedding and the contexts of a run, derived from its seeds and nothing else.

Every draw has a key: numpy's SeedSequence over (purpose, seed, the sizes that shape the draw). So all (heads,
key_width) of a problem seed meet the same graph, embedding and contexts, whatever the order or the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from jaxtyping import Float32, Float64, Int32
from numpy import ndarray

from manyheads._native import contexts
from manyheads.errors import InputError
from manyheads.problem.embedding_generators import gaussian
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import permutation_graph, regular_graph
from manyheads.training.run import Run, fingerprint


class Purpose(IntEnum):
    """What a key is for; the first word of every SeedSequence."""

    GRAPH = 1
    EMBEDDING = 2
    CONTEXTS = 3
    VALUES = 4
    WEIGHTS = 5


class Stream(IntEnum):
    """The three sequences of contexts of a problem; the n-th context of each can be drawn on its own."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


@dataclass(frozen=True, eq=False)
class Problem:
    """What a run trains on: both engines read it from here."""

    graph: Graph
    embedding: Float32[ndarray, "items d_model"]
    messages: Float64[ndarray, "items message_width"] | None  # x·W_V, only with a value channel
    context: int
    target_rate: float
    context_key: int  # 64 bits

    def contexts(self, stream: Stream, start: int, count: int) -> Int32[ndarray, "count context"]:
        """Contexts start … start + count − 1 of a stream, each a row of distinct items (native/engine/contexts.hpp)."""
        return contexts(
            self.graph.row_starts, self.graph.targets, self.context, self.target_rate, self.context_key,
            int(stream), start, count,
        )  # fmt: skip


def problem_of(run: Run, *, graph: Graph | None = None, embedding: ndarray | None = None) -> Problem:
    """The problem of a run; a run on a given graph or embedding has to be handed the one it names."""
    drawn = run.meaning
    seed, width = int(drawn["problem_seed"]), int(drawn["message_width"])
    relations = _graph_of(run, seed, graph)
    rows = _embedding_of(run, seed, embedding)
    if run.objective == "values" and relations.out_degrees.max(initial=0) > 1:
        raise InputError("the value channel is defined for at most one relation out of each item")
    rate = int(np.float64(run.target_rate).view(np.uint64))
    return Problem(
        graph=relations,
        embedding=rows,
        messages=_messages(rows, seed, width) if run.objective == "values" else None,
        context=run.context,
        target_rate=run.target_rate,
        context_key=_key(Purpose.CONTEXTS, seed, run.items, run.context, rate),
    )


def initial_weights(run: Run) -> tuple[Float64[ndarray, "heads d_model d_k"], Float64[ndarray, "heads d_model d_k"]]:
    """The first query and key weights: normal, in float64, from (seed, shape); engines round to their precision."""
    key = _key(Purpose.WEIGHTS, run.seed, run.heads, run.d_model, run.key_width)
    query, key_weights = np.random.default_rng(key).standard_normal((2, run.heads, run.d_model, run.key_width))
    scale = float(run.meaning["initial_scale"])
    return query * scale, key_weights * scale


def _graph_of(run: Run, seed: int, given: Graph | None) -> Graph:
    key = _key(Purpose.GRAPH, seed, run.items, run.degree)
    match run.graph:
        case "permutation":
            made = permutation_graph(run.items, seed=key)
        case "regular":
            made = regular_graph(run.items, run.degree, seed=key)
        case name:
            if given is None:
                raise InputError(f"the run trains on the graph {name}: hand it in")
            if given.items != run.items:
                raise InputError(f"the graph has {given.items} items, the run {run.items}")
            if fingerprint(given) != name:
                raise InputError(f"the graph handed in is {fingerprint(given)}, the run names {name}")
            return given
    if given is not None:
        raise InputError(f"the run draws its own {run.graph} graph: none can be handed in")
    return made


def _embedding_of(run: Run, seed: int, given: ndarray | None) -> Float32[ndarray, "items d_model"]:
    if run.embedding == "gaussian":
        if given is not None:
            raise InputError("the run draws its own gaussian embedding: none can be handed in")
        return gaussian(run.items, run.d_model, seed=_key(Purpose.EMBEDDING, seed, run.items, run.d_model))
    if given is None:
        raise InputError(f"the run trains on the embedding {run.embedding}: hand it in")
    if given.shape != (run.items, run.d_model):
        raise InputError(f"the embedding has the shape {given.shape}, the run needs ({run.items}, {run.d_model})")
    if given.dtype.kind != "f" or not np.isfinite(given).all():
        raise InputError("the embedding must hold finite floating-point numbers only")
    if fingerprint(given) != run.embedding:
        raise InputError(f"the embedding handed in is {fingerprint(given)}, the run names {run.embedding}")
    return np.ascontiguousarray(given, dtype=np.float32)


def _messages(rows: Float32[ndarray, "items d_model"], seed: int, width: int) -> Float64[ndarray, "items width"]:
    """y_i = x_i·W_V with the frozen random value map W_V ~ N(0, 1/d_msg)."""
    rng = np.random.default_rng(_key(Purpose.VALUES, seed, rows.shape[1], width))
    return rows.astype(np.float64) @ (rng.standard_normal((rows.shape[1], width)) / np.sqrt(width))


def _key(purpose: Purpose, seed: int, *sizes: int) -> int:
    return int(np.random.SeedSequence((int(purpose), seed, *sizes)).generate_state(1, np.uint64)[0])
