"""train: one run to its end, on either engine."""

from __future__ import annotations

from typing import Literal

from numpy import ndarray

from manyheads.errors import InputError
from manyheads.problem.graph import Graph
from manyheads.training.data import problem_of
from manyheads.training.native import kernel_refusal, train_run
from manyheads.training.outcome import Outcome, Progress
from manyheads.training.run import Run


def train(
    run: Run,
    *,
    graph: Graph | None = None,
    embedding: ndarray | None = None,
    engine: Literal["native", "reference"] = "native",
    device: str = "cpu",
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Outcome:
    """Train a run to its end: early stop, step limit, divergence, cancellation by `progress`, or `time_limit` seconds.

    `graph` and `embedding` are for runs that name one by its fingerprint. The engine `reference` needs the torch extra.

    >>> outcome = train(Run(items=32, d_model=16, heads=2, key_width=6, seed=0, steps=2_000))
    >>> outcome.stopped, outcome.steps, outcome.engine
    ('limit', 2000, 'native')
    """
    if engine not in ("native", "reference"):
        raise InputError(f"unknown engine '{engine}': choose from native, reference")
    if engine == "native" and device != "cpu":
        raise InputError(f"the native engine runs on the cpu, not on '{device}'")
    if engine == "native" and (refusal := kernel_refusal(run)) is not None:
        raise InputError(refusal)
    problem = problem_of(run, graph=graph, embedding=embedding)
    if engine == "native":
        return train_run(run, problem, progress=progress, time_limit=time_limit)
    try:
        from manyheads.training.reference import train_runs  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("the engine reference needs torch: install manyheads[torch]") from None
    return train_runs([run], [problem], device=device, progress=progress, time_limit=time_limit)[0]
