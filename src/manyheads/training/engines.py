"""train: one run to its end, on either engine."""

from __future__ import annotations

from typing import Literal

from manyheads.errors import InputError
from manyheads.training.data import training_data
from manyheads.training.native import kernel_refusal, train_run
from manyheads.training.outcome import OnCheck, Outcome
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
        from manyheads.training.reference import train_runs  # torch is an optional extra
    except ModuleNotFoundError:
        raise InputError("the engine reference needs torch: install manyheads[torch]") from None
    return train_runs([run], [data], device=device, progress=progress, time_limit=time_limit)[0]
