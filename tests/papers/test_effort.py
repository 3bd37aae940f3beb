"""Estimates of the time of runs."""

from __future__ import annotations

import numpy as np
import pytest
from support.runs import make_run

from manyheads.papers import Scale
from manyheads.papers.effort import Speed
from manyheads.papers.exhibits.clocks import SplitClock
from manyheads.papers.head_count_tables import SETTING, TWO_LAYERS


def test_estimates_grow_with_the_work() -> None:
    from manyheads.papers.effort import Speed

    speed = Speed()
    small, large = ([make_run(64, 16, 4, 5, seed=0, steps=steps)] for steps in (1_000, 100_000))
    assert speed.seconds(large) == pytest.approx(100 * speed.seconds(small))
    assert np.isfinite(speed.seconds(large))
    assert speed.seconds(large) > 0


def test_estimates_count_trials() -> None:
    speed = Speed()
    few, many = (SplitClock("kernel", "training", 64, 64, 16, (1, 2), rounds) for rounds in (3, 30))
    assert 0 < speed.seconds([few]) < speed.seconds([many])
    assert speed.seconds([many], workers=8) == speed.seconds([many], workers=1)  # a clock is read alone


FULL = Scale()


def test_estimates_count_retrieval_runs() -> None:
    from manyheads.papers.effort import _retrieval_seconds

    short, long, deep = (
        _retrieval_seconds(setting.run(2, length, 0, FULL), 1e10)
        for setting, length in ((SETTING, 8), (SETTING, 128), (TWO_LAYERS, 128))
    )
    assert 0 < short < long < deep


def test_the_solution_without_negative_numbers_is_that_of_scipy() -> None:
    from scipy.optimize import nnls

    from manyheads.papers.effort import non_negative_solution

    rng, zeros = np.random.default_rng(0), 0
    for _ in range(200):
        matrix, right = rng.standard_normal((4, 3)), rng.standard_normal(4)
        expected = nnls(matrix, right)[0]
        zeros += int((expected == 0).any())
        np.testing.assert_allclose(non_negative_solution(matrix, right), expected, rtol=1e-9, atol=1e-12)
    assert 50 < zeros < 200  # both cases were compared
