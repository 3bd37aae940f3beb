"""Builds of constructions I to IV, and the verdict on claim 18a."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.made_up import BUILDS, made_up, made_up_scores, outcomes, trial_row

from manyheads.papers import Row, Scale
from manyheads.papers.exhibits.constructions import Build, ConstantResult, _needed
from manyheads.sweep.store.record import Storable


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: f"{build.construction}-{build.graph}")
def test_a_build_is_what_its_layer_decides(build: Build) -> None:
    problem = build.problem()
    assert problem.relations == build.relations
    layer, embedding = build.layer(problem), problem.embedding.rows
    assert layer.key_width == int(np.ceil(build.constant * np.log(32)))
    scores, related = layer.scores(embedding) / layer.threshold, problem.graph.adjacency()
    found = build.make()
    assert found["false"] == pytest.approx(scores[~related].max())
    assert found["true"] == pytest.approx(scores[related].min())
    assert found["paper"] == int((layer.recognise(embedding) == related).all())
    assert found["best"] == int(scores[~related].max() < scores[related].min())
    assert found["heads"] == layer.heads


def test_builds_that_fail_say_so() -> None:
    found = replace(BUILDS[1], constant=1.0).make()
    assert (found["paper"], found["best"]) == (0, 0)


def test_each_construction_has_to_work_somewhere() -> None:
    def without(construction: str, *, at_best: bool = False) -> Callable[[Storable], Row]:
        def row(run: Storable) -> Row:
            assert isinstance(run, Build)
            lost = {"paper": 0} if at_best else {"paper": 0, "best": 0}
            return trial_row(run, {**made_up_scores(run), **(lost if run.construction == construction else {})})

        return row

    assert outcomes("constructions", made_up) == {"18a": "reproduced"}
    for construction in ("I", "II", "III", "IV"):
        assert outcomes("constructions", without(construction)) == {"18a": "differs"}
    assert outcomes("constructions", without("II", at_best=True)) == {"18a": "differs"}


def test_a_constant_counts_only_if_all_larger_ones_work() -> None:
    rungs = [
        ConstantResult(c, paper, paper, 3, 0.8, 1.2, 100) for c, paper in ((20.0, 3), (40.0, 2), (80.0, 3), (160.0, 3))
    ]
    found = _needed(rungs, "paper")
    assert found is not None
    assert found.constant == 80
    assert _needed([*rungs, ConstantResult(320.0, 2, 3, 3, 0.8, 1.2, 100)], "paper") is None


@pytest.mark.parametrize("name", ["constructions", "softmax_construction"])
def test_what_is_left_out_is_not_judged(name: str) -> None:
    assert set(outcomes(name, made_up, Scale(up_to=64)).values()) == {"not attempted"}
