"""The page on the capacity floor: its picture shows every point; a search gives a row like the stored ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads.drawing.style import save
from manyheads.sweep import processes
from tools.pages.capacity_floor import measurement
from tools.pages.capacity_floor.measurement import PARTS, POINTS, SEEDS, Point, missing, search
from tools.pages.capacity_floor.pictures import draw_floor
from tools.pages.capacity_floor.text import summarise
from tools.pages.rows import read_rows


def test_the_picture_shows_every_point(tmp_path: Path) -> None:
    points = [point | {"measured": 2 * point["floor"]} for point in summarise(read_rows("capacity_floor"), {})]
    figure = draw_floor(points)
    for axes, families in zip(figure.axes, (("base", "diagonal"), ("regular",)), strict=True):
        own = sorted((p["x"], p["floor"]) for p in points if p["family"] in families)
        (floors,) = [bar for bar in axes.containers if str(bar.get_label()).startswith("certified floor")]
        np.testing.assert_allclose(sorted(zip(*floors[0].get_data(), strict=True)), own)
        scattered = {str(dots.get_label()): np.asarray(dots.get_offsets()) for dots in axes.collections}
        assert len(scattered["our $D_K^*$, the same protocol"]) == len(own)
    save(figure, tmp_path / "floor")


def test_a_search_gives_a_row() -> None:
    row = search(Point("base", 16, 8, 1, 0.2), seed=0)
    assert list(row) == list(read_rows("capacity_floor")[0])
    assert row["key_budget"] == row["heads"] * row["key_width"]


def test_a_row_does_not_depend_on_the_workers() -> None:
    with processes(2) as workers:
        rows = [search(Point("base", 24, 8, 1, 0.2), seed=1, workers=crew, trials=6) for crew in (None, workers)]
    times = ("found_after", "seconds")
    here, there = ({name: value for name, value in row.items() if name not in times} for row in rows)
    assert here == there
    assert here["tries"] == 6
    assert here["key_budget"] is not None


def test_shares_divide_the_points_that_have_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(missing(0, 1, PARTS)) == []  # the stored rows are complete
    monkeypatch.setattr(measurement, "read_rows", lambda name: [])
    whole = list(missing(0, 1, PARTS))
    assert len(whole) == len(set(whole)) == len(POINTS) * len(SEEDS)
    halves = [set(missing(part, 2, PARTS)) for part in (0, 1)]
    assert halves[0] | halves[1] == set(whole)
    assert not halves[0] & halves[1]
    assert {point.family for point, _ in missing(0, 1, ("base",))} == {"base"}
