"""docs/fit.md and docs/capacity-floor.md: their numbers and pictures are those of the stored rows."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from manyheads.drawing.capacity_floor import draw_floor
from manyheads.drawing.style import save

DOCS = Path(__file__).parents[2] / "docs"
Row = dict[str, Any]


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return import_module("make_capacity_floor")


@pytest.fixture
def floor_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return import_module("capacity_floor_page")


def test_the_comparison_says_what_its_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    make = import_module("make_fit")
    template = (DOCS / "fit.md.in").read_text()
    written = make.page(template, make.read_rows("fit-comparison"), make.read_rows("fit-growth"))
    assert written == (DOCS / "fit.md").read_text()


def test_the_floor_says_what_its_rows_say(floor: ModuleType, floor_page: ModuleType) -> None:
    rows, machine = floor.read_rows("capacity_floor"), floor.read_rows("capacity_floor-machine")
    template = (DOCS / "capacity-floor.md.in").read_text()
    written = floor_page.page(floor_page.summarise(rows), rows, machine, template)
    assert written == (DOCS / "capacity-floor.md").read_text()
    assert "{{" not in written


def test_the_picture_shows_every_point(floor: ModuleType, floor_page: ModuleType, tmp_path: Path) -> None:
    points: list[Row] = floor_page.summarise(floor.read_rows("capacity_floor"))
    points = [point | {"measured": 2 * point["floor"]} for point in points]
    figure = draw_floor(points)
    for axes, families in zip(figure.axes, (("base", "diagonal"), ("regular",)), strict=True):
        own = sorted((p["x"], p["floor"]) for p in points if p["family"] in families)
        (floors,) = [bar for bar in axes.containers if str(bar.get_label()).startswith("certified floor")]
        np.testing.assert_allclose(sorted(zip(*floors[0].get_data(), strict=True)), own)
        scattered = {str(dots.get_label()): dots.get_offsets() for dots in axes.collections}
        assert len(scattered["our $D_K^*$, the same protocol"]) == len(own)
    save(figure, tmp_path / "floor")
