"""The panels of the paper: its points, seeds, step limits and windows; thresholds of made-up rows."""

from __future__ import annotations

import pytest
from support.made_up import made_up

from manyheads.papers import CAPACITY, Rows, Scale, exhibit_names, needed
from manyheads.papers.panel import BASE, DIAGONAL, REGULAR, SOFTMAX, THRESHOLDS, Panel

QUICK = Scale(quick=True)


NAMES = exhibit_names(CAPACITY)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)], machine={"cpu": "made up"})


def test_the_papers_points_are_all_there() -> None:
    assert {(panel.items, panel.d_model) for panel in BASE} == {
        (m, d) for m in (64, 128, 256, 512) for d in (16, 32, 64)
    }
    assert [(panel.items, panel.d_model) for panel in DIAGONAL] == [(8 * d, d) for d in (16, 32, 64, 128, 256, 512)]
    assert len(THRESHOLDS) == 16
    assert [panel.degree for panel in REGULAR] == [1, 2, 4, 8, 16, 32]
    assert (64, 32) in {(panel.items, panel.d_model) for panel in SOFTMAX}


def test_seeds_and_limits_are_the_papers() -> None:
    limits = {(panel.items, panel.d_model): panel.run(1, 8, 0, Scale()).protocol.steps for panel in THRESHOLDS}
    assert limits[4096, 512] == 200_000
    assert limits[256, 16] == 30_000
    assert limits[64, 16] == 20_000
    assert {panel.run(1, 8, 0, Scale()).protocol.steps for panel in SOFTMAX} == {80_000}
    seeds = {(panel.items, panel.d_model): len(panel.seeds(Scale())) for panel in THRESHOLDS}
    assert {at: count for at, count in seeds.items() if count != 10} == {(2048, 256): 3, (4096, 512): 3}
    assert {len(panel.seeds(Scale())) for panel in SOFTMAX} == {3}
    assert {len(panel.seeds(Scale(seeds=7))) for panel in THRESHOLDS} == {7}


@pytest.mark.parametrize("panel", THRESHOLDS, ids=str)
def test_windows_enclose_the_papers_thresholds(panel: Panel) -> None:
    """Budgets lie on both sides of the paper's law, 1.19 · m·log2 m/d_model over all its points.

    On the diagonal its thresholds are lower, 0.78 of that at (512, 64), and fall with m.
    """
    budgets = [heads * width for heads, width in panel.shapes(Scale()) if heads <= panel.law() / 2]
    assert min(budgets) <= 0.65 * panel.law()
    assert max(budgets) >= (0.95 if panel.items == 8 * panel.d_model >= 1024 else 1.3) * panel.law()


def test_thresholds_are_those_of_the_made_up_rows(rows: Rows) -> None:
    for panel in filter(lambda panel: panel.is_sketched, BASE):
        found = panel.threshold(rows, QUICK)
        tested = [heads * width for heads, width in panel.shapes(QUICK) if heads > 1]
        assert found.key_budget == min(budget for budget in tested if budget >= panel.law())


def test_a_point_without_all_its_seeds_is_absent(rows: Rows) -> None:
    panel = Panel(64, 16)
    heads, width = panel.shapes(QUICK)[0]
    lost = panel.run(heads, width, 1, QUICK)
    fewer = Rows([made_up(run) for run in panel.runs(QUICK) if run.id != lost.id])
    assert (heads, width) not in {(point.heads, point.key_width) for point in panel.points(fewer, QUICK)}
    assert panel.complete(rows, QUICK)
    assert not panel.complete(fewer, QUICK)
