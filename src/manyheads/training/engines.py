"""train: one run to its end, on the native engine (the fused C++ step) or the reference engine (PyTorch)."""

from __future__ import annotations

import math
import time
from typing import Literal

import numpy as np

from manyheads._native import Settings, Training
from manyheads.errors import InputError, require_type
from manyheads.layer.rules import MAX, RULES, SOFTMAX
from manyheads.numbers import check_numbers
from manyheads.training.data import TrainingData, initial_weights, training_data
from manyheads.training.outcome import Check, OnCheck, Outcome, Tally, finish
from manyheads.training.run import Run


def train(
    run: Run,
    *,
    engine: Literal["native", "reference"] = "native",
    device: str = "cpu",
    progress: OnCheck | None = None,
    time_limit: float | None = None,
) -> Outcome:
    """Train a run until it stops early, reaches its step limit, diverges, is cancelled or runs out of time.

    Args:
        run: The task, the protocol, the shape and the seed.
        engine: "native", the fused C++ kernel, or "reference", plain PyTorch (needs the torch extra).
        device: Where the reference engine computes, as PyTorch names it.
        progress: Called at every validation check; False cancels the run.
        time_limit: Seconds of wall time.

    Returns:
        The scores, the curve and the layer.

    Raises:
        InputError: The engine is unknown, is not installed, or cannot train by this rule or on this device.

    >>> from manyheads.training import Protocol, Task
    >>> task = Task("permutation:32", "gaussian:16")
    >>> outcome = train(Run(task, heads=2, key_width=6, seed=0, protocol=Protocol(steps=2_000)))
    >>> outcome.stopped, outcome.steps, outcome.engine
    ('limit', 2000, 'native')
    """
    require_type(run, Run, "the run to train")
    check_numbers(time_limit=time_limit)
    if engine not in ("native", "reference"):
        raise InputError(f"unknown engine '{engine}': choose from native, reference")
    if engine == "native" and device != "cpu":
        raise InputError(f"the native engine runs on the cpu, not on '{device}'")
    if engine == "native" and (refusal := kernel_refusal(run)) is not None:
        raise InputError(refusal)
    data = training_data(run)
    if engine == "native":
        return train_run(run, data, progress=progress, time_limit=time_limit)
    try:
        from manyheads.training.reference.layer_batch import train_runs  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("the engine reference needs torch: pip install 'manyheads[torch]'") from None
    return train_runs([run], [data], device=device, progress=progress, time_limit=time_limit)[0]


def native_kernel(run: Run, data: TrainingData) -> Training:
    """The kernel with the run's first weights; tests and benchmarks call it step by step."""
    settings, graph = kernel_settings(run, data), data.graph
    kernel = Training(settings, run.protocol.precision, graph.row_starts, graph.targets, data.rows, data.messages)
    kernel.set_weights(*initial_weights(run), run.protocol.initial_threshold)
    return kernel


def train_run(
    run: Run, data: TrainingData, *, progress: OnCheck | None = None, time_limit: float | None = None
) -> Outcome:
    """Train one run on the native engine. It releases the interpreter's lock, so threads use all cores."""

    def report(step: int, score: float, loss: float) -> bool | None:
        return progress(run, Check(step, score, loss)) if progress else None

    started = time.perf_counter()
    kernel = native_kernel(run, data)
    stopped, curve, test = kernel.train(
        report if progress else None, math.inf if time_limit is None else float(time_limit)
    )
    seconds = time.perf_counter() - started
    query, key, threshold = kernel.weights()
    return finish(
        run,
        data.problem,
        query=query,
        key=key,
        threshold=threshold,
        stopped=stopped,
        steps=kernel.steps,
        curve=tuple(Check(*check) for check in curve),
        test=Tally(*test) if stopped in ("converged", "limit") else None,
        seconds=seconds,
        engine="native",
    )


def kernel_refusal(run: Run) -> str | None:
    """The reason why the native engine cannot train this run; None if it can."""
    if run.rule.kernel is not None:
        return None
    known = " and ".join(rule.name for rule in RULES.values() if rule.kernel is not None)
    return f"the native engine trains {known}: use --engine reference for {run.rule}"


def step_flops(run: Run) -> int:
    """Additions and multiplications in the matrix products one step needs.

    Queries and keys, and the gradients of their weights: 2·ℓ·d·(D_Q + D_K) each. Scores: 2·ℓ²·D_Q. Their gradients by
    queries and keys: under softmax twice that, under max only the winning head of each pair: 4·ℓ²·d_k.
    """
    length, width = run.task.context, run.key_width if run.rule is MAX else run.query_budget
    return 4 * length * run.weights + 2 * length**2 * run.query_budget + 4 * length**2 * width


def kernel_settings(run: Run, data: TrainingData) -> Settings:
    """The run's numbers for the kernel, every default resolved."""
    fields = run.fields
    weight = fields["positive_weight"]
    settings = Settings()
    for name in (
        "items", "d_model", "heads", "key_width", "context", "message_width", "target_rate", "sharpness",
        "learning_rate", "weight_decay", "beta1", "beta2", "epsilon", "steps", "validate_every",
        "validation_contexts", "test_contexts", "stop_above", "patience",
    ):  # fmt: skip
        setattr(settings, name, fields[name])
    settings.key_heads = run.groups
    settings.softmax = run.rule is SOFTMAX
    settings.values = run.task.objective == "values"
    settings.balanced = weight == "balanced"
    settings.positive_weight = 0.0 if weight == "balanced" else float(np.float64(weight))
    settings.context_key = data.context_key
    return settings
