"""The native engine: a run handed to the fused C++ step."""

from __future__ import annotations

import math
import time

import numpy as np

from manyheads._native import Settings, Training
from manyheads.layer.rules import MAX, RULES, SOFTMAX
from manyheads.training.data import TrainingData, initial_weights
from manyheads.training.outcome import Check, OnCheck, Outcome, Tally, finish
from manyheads.training.run import Run


def training(run: Run, data: TrainingData) -> Training:
    """The kernel with the run's first weights; tests and benchmarks drive it step by step."""
    kernel = Training(
        kernel_settings(run, data),
        run.protocol.precision,
        data.graph.row_starts,
        data.graph.targets,
        data.rows,
        data.messages,
    )
    kernel.set_weights(*initial_weights(run), run.protocol.initial_threshold)
    return kernel


def train_run(
    run: Run, data: TrainingData, *, progress: OnCheck | None = None, time_limit: float | None = None
) -> Outcome:
    """Train one run; the interpreter is free meanwhile, so threads run as many at once as there are cores."""

    def report(step: int, score: float, loss: float) -> bool | None:
        return progress(run, Check(step, score, loss)) if progress else None

    started = time.perf_counter()
    kernel = training(run, data)
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
    """Why the native engine cannot train this run, or None."""
    if run.rule.kernel is not None:
        return None
    known = " and ".join(rule.name for rule in RULES.values() if rule.kernel is not None)
    return f"the native engine trains {known}: use --engine reference for {run.rule}"


def step_flops(run: Run) -> int:
    """Additions and multiplications in the matrix products one step needs.

    Queries and keys, and the gradients of their weights: 2·ℓ·d·D_K each, for two matrices. Scores: 2·ℓ²·D_K. Their
    gradients by queries and keys: under softmax twice that, under max only the winning head of each pair: 4·ℓ²·d_k.
    """
    length, width = run.task.context, run.key_width if run.rule is MAX else run.key_budget
    return 8 * length * run.d_model * run.key_budget + 2 * length**2 * run.key_budget + 4 * length**2 * width


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
    settings.softmax = run.rule is SOFTMAX
    settings.values = run.task.objective == "values"
    settings.balanced = weight == "balanced"
    settings.positive_weight = 0.0 if weight == "balanced" else float(np.float64(weight))
    settings.context_key = data.context_key
    return settings
