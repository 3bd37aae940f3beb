"""Bounds of regular graphs, and the verdict on claim 22."""

from __future__ import annotations

import math

import pytest
from support.made_up import made_up, outcomes

from manyheads.papers import Scale
from manyheads.papers.exhibits.regular_graphs import bounds_of
from manyheads.papers.panel import REGULAR

FINE = Scale(seeds=2, up_to=512)


def test_bounds_are_those_of_the_formulas() -> None:
    for panel in REGULAR:
        found = bounds_of(panel)
        assert found.construction == panel.degree * 4 * 5  # m'/d = 4r heads of ⌈ln 128⌉ = 5
        assert found.proved == 128 * panel.degree
        graphs = math.comb(128 * 127, 128 * panel.degree)
        assert found.lower == pytest.approx((math.log2(graphs) / 32 - 1) / 64)


@pytest.mark.parametrize(("slope", "verdict"), [(0.46, "reproduced"), (0.58, "reproduced"), (0.25, "differs")])
def test_thresholds_slightly_below_the_construction(slope: float, verdict: str) -> None:
    found = outcomes("bounds_gap", lambda run: made_up(run, slope=slope, single=True), FINE)
    assert found == {"22a": verdict, "22b": "reproduced"}
