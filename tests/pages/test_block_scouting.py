"""The scouting for Figure 7: its rule on made-up rows, that it sees one head only, and that it goes on where it was."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from manyheads.papers.exhibits.block_setting import GAUSSIAN, LAPTOP

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return import_module("make_block_scouting")


@pytest.fixture
def scouting_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return import_module("block_scouting_page")


def row(part: str, accuracy: float | None, **given: Any) -> dict[str, Any]:
    checks = {f"validation_{share}": accuracy for share in (25, 50, 75, 100)}
    common = {"part": part, "embedding": "Gaussian", "reduction": "none", "items": 1024, "d_model": 128, "seed": 100,
              "learning_rate": 1e-3, "steps": 4_000, "key_budget": 64, "seconds": 100.0}  # fmt: skip
    return common | {"accuracy": accuracy} | checks | given


def size(accuracies: dict[int, tuple[float | None, float]], **given: Any) -> list[dict[str, Any]]:
    """Rows of one size: the accuracy on either embedding, by the key budget."""
    return [
        row("size", accuracy, key_budget=budget, embedding=name, **given)
        for budget, pair in accuracies.items()
        for name, accuracy in zip(("SmolLM2", "Gaussian"), pair, strict=True)
    ]


def test_only_one_head_and_no_seed_of_the_figure_is_scouted(make: ModuleType) -> None:
    for one in (make.RATE_TRIAL, *make.SIZES):
        for budget in one.budgets:
            run = one.run(GAUSSIAN, budget, 1e-3)
            assert (run.heads, run.key_budget) == (1, budget)
            assert run.seed not in LAPTOP.seeds


def test_a_size_qualifies_by_one_heads_accuracy_and_its_time(scouting_page: ModuleType) -> None:
    inside = {64: (0.3, 0.4), 128: (0.5, 0.7), 256: (0.9, 0.95)}
    assert scouting_page.qualifies(size(inside))
    assert not scouting_page.qualifies(size(inside | {64: (0.19, 0.4)}))  # on one embedding too low
    assert not scouting_page.qualifies(size(inside | {64: (None, 0.4)}))  # diverged
    assert scouting_page.grid_hours(size(inside, seconds=225.0)) == pytest.approx(3.0)
    assert not scouting_page.qualifies(size(inside, seconds=226.0))


def test_the_page_names_the_largest_size_that_qualifies(scouting_page: ModuleType, tmp_path: Path) -> None:
    rates = [row("rate", accuracy, learning_rate=rate) for rate, accuracy in ((1e-3, 0.4), (2e-3, 0.5), (4e-3, None))]
    inside = {64: (0.3, 0.4), 128: (0.5, 0.7)}
    rows = [*rates, *size(inside), *size(inside, items=2048, d_model=256, steps=10_000),
            *size({64: (0.9, 0.9)}, items=2048, d_model=576)]  # fmt: skip
    scouting_page.write_page(tmp_path / "page.md", rows)
    text = (tmp_path / "page.md").read_text()
    assert text.endswith("Chosen: m = 2048, d_model = 256, 10,000 steps, rate 0.002.\n")
    assert "- (2048, 576) does not qualify" in text
    scouting_page.write_page(tmp_path / "page.md", [*rates, *size({64: (0.9, 0.9)})])
    assert (tmp_path / "page.md").read_text().endswith("No size qualifies.\n")


def test_it_goes_on_where_it_was(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the block needs the torch extra")
    monkeypatch.setattr(make, "RATE_TRIAL", make.Size(40, 8, 2, (4,)))
    monkeypatch.setattr(make, "SIZES", (make.Size(40, 8, 3, (4, 8)),))
    monkeypatch.setattr(make, "EMBEDDINGS", ("gaussian",))
    monkeypatch.setattr(make, "RATES", (1e-3, 2e-3))
    written: dict[str, list[dict[str, Any]]] = {}
    monkeypatch.setattr(make, "write_rows", written.__setitem__)
    monkeypatch.setattr(make, "write_page", lambda path, rows: written.update(page=list(rows)))
    make.Scouting(store=tmp_path / "s.db", workers=1).go()
    first = written["page"]
    assert [(one["part"], one["key_budget"], one["heads"]) for one in first] == [("rate", 4, 1)] * 2 + [
        ("size", 4, 1), ("size", 8, 1),
    ]  # fmt: skip
    assert written["block-scouting"] == first
    make.Scouting(store=tmp_path / "s.db", workers=1).go()
    assert written["page"] == first  # to the second: nothing was trained again


def test_the_page_is_that_of_its_rows(make: ModuleType, scouting_page: ModuleType, tmp_path: Path) -> None:
    scouting_page.write_page(tmp_path / "page.md", make.read_rows("block-scouting"))
    text = (DOCS / "block-scouting.md").read_text()
    assert (tmp_path / "page.md").read_text() == text
    # and the figure is what was chosen
    shape = f"m = {LAPTOP.items}, d_model = {LAPTOP.d_model}"
    assert f"Chosen: {shape}, {LAPTOP.steps:,} steps, rate {LAPTOP.learning_rate:g}." in text
