"""Trial: the advice checked on the spot, by training at the recommended point and at its neighbours."""

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
from manyheads.planning.advice import Plan
from manyheads.problem.graph import Graph
from manyheads.problem.graph_generators import random_graph
from manyheads.training import Run, fingerprint, step_limit, train, weight_for
from manyheads.training.run import Aggregation


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Training by the paper's protocol at one point; a seed whose run did not finish has no score."""

    what: str
    heads: int
    key_width: int
    scores: tuple[float | None, ...]

    @property
    def key_budget(self) -> int:
        """D_K = heads · key_width."""
        return self.heads * self.key_width

    @property
    def mean(self) -> float | None:
        """The mean test F1, where every seed has one."""
        finished = [score for score in self.scores if score is not None]
        return float(np.mean(finished)) if len(finished) == len(self.scores) else None

    @property
    def reached(self) -> bool:
        """Whether the mean F1 reaches 0.99."""
        return self.mean is not None and self.mean >= TARGET


def points(advice: Plan) -> list[tuple[str, int, int]]:
    """The recommended point, three quarters of its budget, and its budget in half and in twice the heads."""
    heads, width, budget = advice.recommended.heads, advice.recommended.key_width, advice.recommended.key_budget
    around = [
        ("recommended", heads, width),
        ("three quarters of it", heads, max(1, round(0.75 * width))),
        ("half the heads", heads // 2, budget // max(1, heads // 2)),
        ("twice the heads", 2 * heads, budget // (2 * heads)),
    ]
    return [
        (what, h, w)
        for what, h, w in around
        if h >= 1 and w >= 1 and (what == "recommended" or (h, w) != (heads, width))
    ]


def trials(
    advice: Plan,
    *,
    seeds: Sequence[int],
    graph: Graph | None = None,
    embedding: Float32[ndarray, "items d_model"] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trial]:
    """Train every point with every seed, a run a core; a graph or embedding not given is drawn from the seed."""
    if advice.context_length is None and advice.items < Run.context:
        raise InputError(
            f"the protocol's contexts have {Run.context} items, more than the {advice.items} there are: give a shorter "
            "context length"
        )
    chosen, stop = points(advice), Event()
    with ThreadPoolExecutor(cores()) as pool:  # the engine leaves Python alone while it trains
        asked = [
            [pool.submit(_score, advice, heads, width, seed, graph, embedding, stop) for seed in seeds]
            for _, heads, width in chosen
        ]
        try:
            every = [future for futures in asked for future in futures]
            for done, future in enumerate(as_completed(every), 1):
                future.result()
                if progress is not None:
                    progress(done, len(every))
        except BaseException:  # an interrupt too: what has not begun must not, and what has ends at its next check
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [
        Trial(what=what, heads=heads, key_width=width, scores=tuple(future.result() for future in futures))
        for (what, heads, width), futures in zip(chosen, asked, strict=True)
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
    if graph is None and rest:
        graph = random_graph(advice.items, advice.relations, seed=seed)
    drawn = "permutation" if degree == 1 else "regular"
    rule: Aggregation = "softmax" if advice.rule == "softmax" else "max"
    context = Run.context if advice.context_length is None else advice.context_length
    run = Run(
        items=advice.items,
        d_model=advice.d_model,
        heads=heads,
        key_width=width,
        seed=seed,
        graph=drawn if graph is None else fingerprint(graph),
        degree=degree if graph is None else 1,
        embedding="gaussian" if embedding is None else fingerprint(embedding),
        rule=rule,
        context=context,
        positive_weight=weight_for(graph, context),
        steps=step_limit(advice.items, advice.d_model, rule),
    )
    return train(run, graph=graph, embedding=embedding, progress=lambda _, __: not stop.is_set()).micro_f1
