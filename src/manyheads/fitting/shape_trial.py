"""One trial of a search: a chain of attempts at one shape, in any worker, and the certificate of what it reaches."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from manyheads.certificate import Certificate
from manyheads.errors import InputError
from manyheads.executors import stop_signal
from manyheads.fitting.descent import DescentResult, Engine, Weights, after_failure
from manyheads.fitting.layer_fit import CHAIN, MappedProblem, widened
from manyheads.fitting.options import Descent, FitOptions, FitProgress
from manyheads.fitting.trial_order import TrialPlan
from manyheads.layer.layer import Layer

HOPELESS = 1.5  # wrong pairs for each relation; a failure with more is not continued


class StoppedError(Exception):
    """Ends a trial whose result is no longer wanted."""


@dataclass(frozen=True, eq=False)
class TrialSetting:
    """All that the trials of a search share.

    Attributes:
        inner: The problem as the engine reads it.
        options: The options of the search, without functions and workers.
        descent: The constants of an attempt.
        key_heads: The number of key heads that the heads share; None: as many as heads.
    """

    inner: MappedProblem
    options: FitOptions
    descent: Descent
    key_heads: int | None


@dataclass(frozen=True, eq=False)
class TrialTask:
    """A trial for a worker; sent to processes and clusters.

    Attributes:
        plan: The shape and the first weights.
        setting: All that the trials share; pickled where it leaves this process.
        seconds: The time until the end of the search.
        token: Names the trial for `stop_signal`.
        progress: Called at every survey of all pairs; None in another process.
        begun: The start of the search by the clock of `time.monotonic`, for `progress`.
    """

    plan: TrialPlan
    setting: TrialSetting | bytes
    seconds: float
    token: str
    progress: Callable[[FitProgress], None] | None = None
    begun: float | None = None


@dataclass(frozen=True, eq=False)
class TrialEnd:
    """The result of a trial.

    Attributes:
        wrong: The number of pairs that the weights get wrong.
        normalised_margin: The certificate's; NaN if there is no certificate.
        steps: The number of steps of the last attempt.
        weights: The weights of a layer that certified, as the engine has them, or None.
        layer: The layer that certified, or None.
        certificate: Its certificate, or None.
    """

    wrong: int
    normalised_margin: float
    steps: int
    weights: Weights | None
    layer: Layer | None
    certificate: Certificate | None


def try_shape(task: TrialTask) -> TrialEnd:
    """A chain of attempts at one shape: the first from a start, each next from the weights of the last.

    Raises:
        StoppedError: The result is no longer wanted.
        InputError: There is not enough memory, or the machine starts no further thread.
    """
    setting = task.setting if isinstance(task.setting, TrialSetting) else _unpacked(task.setting)
    inner, options, graph = setting.inner, setting.options, setting.inner.problem.graph
    plan, deadline, stopped = task.plan, time.monotonic() + task.seconds, stop_signal(task.token)

    def pulse() -> None:
        if stopped():
            raise StoppedError

    def run(weights: Weights, descent: Descent, *, warm: bool = False) -> DescentResult:
        pulse()
        return Engine(
            graph, inner.rows, heads=plan.heads, key_width=plan.key_width, key_heads=setting.key_heads,
            descent=descent, ratio=inner.ratio(plan.heads), progress=task.progress, begun=task.begun,
            deadline=deadline, engine=options.engine, device=options.device, pulse=pulse,
        ).run(weights, warm=warm)  # fmt: skip

    weights, descent = plan.weights(inner.problem.d_model, setting.key_heads), setting.descent
    for _ in range(CHAIN):
        result = run(weights, descent)
        hopeless = result.wrong > HOPELESS * max(1, graph.relations)
        if result.separated or hopeless or time.monotonic() >= deadline:
            break
        weights, descent = after_failure(result, setting.descent)
    layer, certificate = None, None
    if result.separated:
        best = *inner.judge(result), result
        layer, certificate, result = widened(inner, best, partial(run, warm=True), setting.descent)
    margin = math.nan if certificate is None else certificate.normalised_margin
    if certificate is None or not certificate.holds_in(options.precision):
        return TrialEnd(result.wrong, margin, result.steps, None, None, None)
    return TrialEnd(result.wrong, margin, result.steps, result.weights, layer, certificate)


@lru_cache(maxsize=2)  # a worker tries many shapes of one problem
def _unpacked(packed: bytes) -> TrialSetting:
    setting = pickle.loads(packed)
    if not isinstance(setting, TrialSetting):
        raise InputError("this worker was sent another object than the setting of a trial")
    return setting
