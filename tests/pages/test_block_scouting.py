"""The page that chooses the size of Figure 7: its rule on made-up rows, one head only, and that it continues."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from manyheads.papers.exhibits.block_setting import GAUSSIAN, LAPTOP
from tools.pages.block_scouting import measurement
from tools.pages.block_scouting.text import grid_hours, page, qualifies
from tools.pages.catalogue import Settings
from tools.pages.rows import DOCS


def row(part: str, accuracy: float | None, **given: Any) -> dict[str, Any]:
    checks = {f"validation_{share}": accuracy for share in (25, 50, 75, 100)}
    common = {"part": part, "embedding": "Gaussian", "reduction": "none", "items": 1024, "d_model": 128, "seed": 100,
              "learning_rate": 1e-3, "steps": 4_000, "key_budget": 64, "seconds": 100.0}  # fmt: skip
    return common | {"accuracy": accuracy} | checks | given


def size(accuracies: Mapping[int, tuple[float | None, float]], **given: Any) -> list[dict[str, Any]]:
    """Rows of one size: the accuracy on either embedding, by the key budget."""
    return [
        row("size", accuracy, key_budget=budget, embedding=name, **given)
        for budget, pair in accuracies.items()
        for name, accuracy in zip(("SmolLM2", "Gaussian"), pair, strict=True)
    ]


def test_only_one_head_and_no_seed_of_the_figure_is_scouted() -> None:
    for one in (measurement.RATE_TRIAL, *measurement.SIZES):
        for budget in one.budgets:
            run = one.run(GAUSSIAN, budget, 1e-3)
            assert (run.heads, run.key_budget) == (1, budget)
            assert run.seed not in LAPTOP.seeds


def test_a_size_qualifies_by_one_heads_accuracy_and_its_time() -> None:
    inside = {64: (0.3, 0.4), 128: (0.5, 0.7), 256: (0.9, 0.95)}
    assert qualifies(size(inside))
    assert not qualifies(size(inside | {64: (0.19, 0.4)}))  # on one embedding too low
    assert not qualifies(size(inside | {64: (None, 0.4)}))  # diverged
    assert grid_hours(size(inside, seconds=225.0)) == pytest.approx(3.0)
    assert not qualifies(size(inside, seconds=226.0))


def test_the_page_names_the_largest_size_that_qualifies() -> None:
    rates = [row("rate", accuracy, learning_rate=rate) for rate, accuracy in ((1e-3, 0.4), (2e-3, 0.5), (4e-3, None))]
    inside = {64: (0.3, 0.4), 128: (0.5, 0.7)}
    rows = [*rates, *size(inside), *size(inside, items=2048, d_model=256, steps=10_000),
            *size({64: (0.9, 0.9)}, items=2048, d_model=576)]  # fmt: skip
    text = page({"block-scouting": rows})
    assert text.endswith("Chosen: m = 2048, d_model = 256, 10,000 steps, rate 0.002.\n")
    assert "- (2048, 576) does not qualify" in text
    assert page({"block-scouting": [*rates, *size({64: (0.9, 0.9)})]}).endswith("No size qualifies.\n")


def test_it_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the block needs the torch extra")
    monkeypatch.setattr(measurement, "RATE_TRIAL", measurement.Size(40, 8, 2, (4,)))
    monkeypatch.setattr(measurement, "SIZES", (measurement.Size(40, 8, 3, (4, 8)),))
    monkeypatch.setattr(measurement, "EMBEDDINGS", ("gaussian",))
    monkeypatch.setattr(measurement, "RATES", (1e-3, 2e-3))
    written: dict[str, list[dict[str, Any]]] = {}
    monkeypatch.setattr(measurement, "write_rows", lambda name, rows: written.update({name: list(rows)}))
    settings = Settings(store=tmp_path / "s.db", workers=1)
    measurement.measure(settings)
    first = written.pop("block-scouting")
    assert [(one["part"], one["key_budget"], one["heads"]) for one in first] == [("rate", 4, 1)] * 2 + [
        ("size", 4, 1), ("size", 8, 1),
    ]  # fmt: skip
    measurement.measure(settings)
    assert written["block-scouting"] == first  # seconds included: nothing was trained again


def test_the_figure_has_the_chosen_size() -> None:
    shape = f"m = {LAPTOP.items}, d_model = {LAPTOP.d_model}"
    chosen = f"Chosen: {shape}, {LAPTOP.steps:,} steps, rate {LAPTOP.learning_rate:g}."
    assert chosen in (DOCS / "results" / "block-scouting.md").read_text()
