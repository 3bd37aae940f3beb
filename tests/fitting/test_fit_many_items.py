"""fit with many items: what costs time and memory only there, seen on few."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any
from weakref import WeakSet

import pytest

from manyheads import gaussian, permutation_graph
from manyheads.fitting import Descent, FitOptions, FitProgress, fit
from manyheads.fitting.descent import DescentResult, Engine
from manyheads.fitting.layer_fit import MappedProblem
from manyheads.problem.problem import Problem

layer_fit = import_module("manyheads.fitting.layer_fit")  # not the function of that name
GRAPH, ROWS = permutation_graph(64, seed=0), gaussian(64, 16, seed=1)


def test_the_engine_is_gone_when_the_certificate_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hold several numbers for every item and key dimension: at 49,152 items they would not fit into 2 GiB."""
    engines: WeakSet[Engine] = WeakSet()
    judged: list[int] = []

    class Watched(Engine):
        def run(self, *args: Any, **options: Any) -> DescentResult:
            engines.add(self)
            return super().run(*args, **options)

    judge = MappedProblem.judge

    def judge_alone(problem: MappedProblem, attempt: DescentResult) -> object:
        gc.collect()
        judged.append(len(engines))
        return judge(problem, attempt)

    monkeypatch.setattr(layer_fit, "Engine", Watched)
    monkeypatch.setattr(MappedProblem, "judge", judge_alone)
    assert fit(Problem(GRAPH, ROWS), heads=2, key_width=6, options=FitOptions(seed=0)).certificate.holds
    assert judged
    assert set(judged) == {0}


@pytest.mark.parametrize(
    ("share", "near_pairs", "apart"), [(1.0, 0, 6), (0.5, 0, 12), (0.25, 0, 24), (0.25, 4, 8), (0.1, 4, 20)]
)
def test_looks_at_all_pairs_are_rare_where_a_step_sees_a_share(share: float, near_pairs: int, apart: int) -> None:
    """They cost as many steps as there are shares: six times as many steps lie between them, with near pairs twice."""
    seen: list[FitProgress] = []
    descent = Descent(
        steps=120, rate=1e-6, hold=0.99, share=share, near_pairs=near_pairs
    )  # held: it must not end as stuck
    fit(
        Problem(GRAPH, ROWS),
        heads=1,
        key_width=2,
        options=FitOptions(seed=0, restarts=1, descent=descent, progress=seen.append),
    )
    assert [progress.step for progress in seen] == list(range(apart, 121, apart))
