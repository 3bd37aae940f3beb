"""JAX: the whole training compiled, `scan` over the steps and `vmap` over 64 runs.

XLA spreads the batch over the cores. Contexts are drawn before and handed over at once. One product makes queries and
keys together, quicker than two; gathering all rows before the scan, or `scan` outside `vmap`, was not.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array

import manyheads
from manyheads.training.data import Stream, initial_weights, training_data
from manyheads.training.run import Run

SLICES = 10  # calls that make up the training; the best counts
SCORED = 100  # contexts after the last step, on which all contenders' losses must agree


@dataclass(frozen=True)
class Peer:
    """One shape, trained for many seeds at once."""

    items: int
    d_model: int
    heads: int
    key_width: int
    steps: int
    runs: int = 64


class Task(NamedTuple):
    """What one run learns: its rows, and each item's target."""

    embedding: Array
    targets: Array


class State(NamedTuple):
    """One run's (weights, threshold), AdamW's moments of them, and its step."""

    parameters: tuple[Array, Array]
    first: tuple[Array, Array]
    second: tuple[Array, Array]
    step: Array


def loss(parameters: tuple[Array, Array], task: Task, context: Array, heads: int) -> Array:
    weights, threshold = parameters
    length, width = len(context), weights.shape[1] // (2 * heads)
    query, key = (task.embedding[context] @ weights).reshape(length, 2, heads, width).swapaxes(0, 1)
    z = 10.0 * (jnp.einsum("phk,qhk->hpq", query, key).max(axis=0) - threshold)
    y = task.targets[context][:, None] == context
    return jnp.where(y, (length - 1) * jax.nn.softplus(-z), jax.nn.softplus(z)).mean()


def train(state: State, task: Task, contexts: Array, heads: int) -> State:
    def step(state: State, context: Array) -> tuple[State, None]:
        gradients = jax.grad(loss)(state.parameters, task, context, heads)
        t = state.step + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.second, gradients)
        rate, root = 1e-3 / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
        parameters = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) / root + 1e-8), state.parameters, first, second
        )
        return State(parameters, first, second, t), None

    return jax.lax.scan(step, state, contexts)[0]


def start(run: Run) -> State:
    query, key = (np.concatenate(list(weights), axis=1) for weights in initial_weights(run))
    parameters = (jnp.asarray(np.concatenate([query, key], axis=1), dtype=jnp.float32), jnp.zeros(()))
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return State(parameters, zeros, zeros, jnp.zeros(()))


def main(peer: Peer) -> None:
    family = manyheads.Task(f"permutation:{peer.items}", f"gaussian:{peer.d_model}")
    shape = [Run(family, heads=peer.heads, key_width=peer.key_width, seed=seed) for seed in range(peer.runs)]
    problems = [training_data(run) for run in shape]
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[start(run) for run in shape])
    task = Task(
        jnp.stack([problem.rows for problem in problems]),
        jnp.stack([jnp.asarray(problem.graph.targets, dtype=jnp.int32) for problem in problems]),
    )
    contexts = jnp.stack([problem.contexts(Stream.TRAIN, 0, peer.steps + SCORED) for problem in problems])
    taught, scored = jnp.split(contexts[:, : peer.steps], SLICES, axis=1), contexts[:, peer.steps :]

    batched = jax.jit(jax.vmap(lambda s, t, c: train(s, t, c, peer.heads)), donate_argnums=0)
    compiled = batched.lower(state, task, taught[0]).compile()
    seconds = []
    for part in taught:
        begin = time.perf_counter()
        state = jax.block_until_ready(compiled(state, task, part))
        seconds.append(time.perf_counter() - begin)

    first = jax.tree.map(lambda leaf: leaf[0], (state.parameters, task, scored))
    after = jax.vmap(loss, in_axes=(None, None, 0, None))(*first, peer.heads).mean()
    microseconds = 1e6 * min(seconds) * SLICES / (peer.steps * peer.runs)
    print(json.dumps({"microseconds": microseconds, "loss": float(after), "version": f"jax {jax.__version__}"}))


if __name__ == "__main__":
    main(tyro.cli(Peer))
