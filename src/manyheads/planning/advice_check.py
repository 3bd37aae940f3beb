"""Advice check: train at the recommended split and at its neighbours, and compare with the advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from manyheads.capacity.thresholds import TARGET
from manyheads.errors import InputError
from manyheads.machine import cores
from manyheads.planning.layer_plan import Plan
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import random_graph
from manyheads.tables import counted
from manyheads.training import Protocol, Run, Task, step_limit, train
from manyheads.training.protocol import CONTEXT

SMALLER = 0.75  # share of the recommended key width that is trained beside it


@dataclass(frozen=True, kw_only=True)
class AdviceCheck:
    """Training by the paper's protocol at one split.

    Attributes:
        name: Relation of this split to the recommended one, in words.
        heads: Number of heads.
        key_width: Width of each head.
        scores: Test F1 for each seed; None for a run that did not finish.
    """

    name: str
    heads: int
    key_width: int
    scores: tuple[float | None, ...]

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    @property
    def mean(self) -> float | None:
        """The mean test F1; None if a run did not finish."""
        finished = [score for score in self.scores if score is not None]
        return float(np.mean(finished)) if len(finished) == len(self.scores) else None

    @property
    def reached(self) -> bool:
        """Whether the mean F1 is at least 0.99."""
        return self.mean is not None and self.mean >= TARGET


def check_points(advice: Plan) -> list[tuple[str, int, int]]:
    """The splits to train: the recommended one, a narrower one, and the alternatives of the plan.

    Args:
        advice: The plan to check.

    Returns:
        (name, heads, key_width) of each split, the recommended one first; splits that do not exist are absent.
    """
    heads, width = advice.recommended.heads, advice.recommended.key_width
    narrower = max(1, round(SMALLER * width))
    return [
        ("recommended", heads, width),
        *([("three quarters of it", heads, narrower)] if narrower != width else []),
        *((f"or {counted(one.heads, 'head')}", one.heads, one.key_width) for one in advice.alternatives),
    ]


def check_advice(
    advice: Plan,
    *,
    seeds: Sequence[int],
    graph: Graph | None = None,
    embedding: Float32[ndarray, "items d_model"] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[AdviceCheck]:
    """Train every split of `check_points` with every seed, one run on each core.

    Args:
        advice: The plan to check.
        seeds: Seeds of the runs.
        graph: The graph; None draws one from each seed.
        embedding: The rows; None draws Gaussian rows from each seed.
        progress: Called with the number of finished runs and the number of all runs.

    Returns:
        One check for each split, the recommended one first.

    Raises:
        InputError: The protocol's contexts have more items than the problem, or a run failed.
    """
    if advice.context_length is None and advice.items < CONTEXT:
        raise InputError(
            f"the protocol's contexts have {CONTEXT} items, more than the {advice.items} there are: give a shorter "
            "context length"
        )
    chosen, stop = check_points(advice), Event()
    with ThreadPoolExecutor(cores()) as pool:  # the native engine releases Python's lock while it trains
        runs = [
            [pool.submit(_score, advice, heads, width, seed, graph, embedding, stop) for seed in seeds]
            for _, heads, width in chosen
        ]
        try:
            every = [future for futures in runs for future in futures]
            for done, future in enumerate(as_completed(every), 1):
                future.result()
                if progress is not None:
                    progress(done, len(every))
        except BaseException as error:  # an interrupt too: queued runs are cancelled, active runs end at a validation
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, Exception) and not isinstance(error, InputError):
                raise InputError(f"no answer: a run failed ({type(error).__name__}: {error})") from error
            raise
    return [
        AdviceCheck(name=name, heads=heads, key_width=width, scores=tuple(future.result() for future in futures))
        for (name, heads, width), futures in zip(chosen, runs, strict=True)
    ]


def _score(
    advice: Plan,
    heads: int,
    width: int,
    seed: int,
    graph: Graph | None,
    embedding: Float32[ndarray, "items d_model"] | None,
    stop: Event,
) -> float | None:
    degree, rest = divmod(advice.relations, advice.items)
    if graph is None and (rest or (degree == 1 and not advice.permutation)):
        graph = random_graph(advice.items, advice.relations, seed=seed)
    words = f"permutation:{advice.items}" if degree == 1 else f"regular:{advice.items}:{degree}"
    task = Task(
        words if graph is None else graph,
        f"gaussian:{advice.d_model}" if embedding is None else embedding,
        context=CONTEXT if advice.context_length is None else advice.context_length,
    )
    protocol = Protocol(steps=step_limit(items=advice.items, d_model=advice.d_model, rule=advice.rule))
    run = Run(task, heads=heads, key_width=width, seed=seed, rule=advice.rule, protocol=protocol)
    return train(run, progress=lambda _, __: not stop.is_set()).micro_f1
