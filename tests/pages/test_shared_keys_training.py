"""The trained rows of the page on shared keys: complete, possible, and made by the code that is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.training import Task
from tools.pages import rows as page_rows
from tools.pages.catalogue import Settings
from tools.pages.rows import read_rows
from tools.pages.shared_keys import training
from tools.pages.shared_keys.training import NAME, TrainedSharing, measure_trained, missing


def test_no_row_is_missing_and_every_row_is_possible() -> None:
    assert list(missing()) == []
    rows = read_rows(NAME)
    assert len({(r["items"], r["degree"], r["heads"], r["key_heads"]) for r in rows}) == len(rows) >= 78
    for row in rows:
        assert row["heads"] % row["key_heads"] == 0
        assert row["widest"] <= row["d_model"]
        if row["key_width"] is None:  # the widest heads were tried, and did not reach the goal
            assert row["widest"] == row["d_model"]
            assert row["widest_f1"] < row["goal"]
        else:
            assert row["low_width"] <= row["key_width"] <= (row["high_width"] or row["widest"])
            assert row["mean_f1"] >= row["goal"]


def test_sharing_keys_costs_few_weights() -> None:
    """The claim of the page in one number: at equal heads, shared keys need at most a quarter more weights."""
    rows = {(r["items"], r["degree"], r["heads"], r["key_heads"]): r["key_width"] for r in read_rows(NAME)}
    ratios = []
    for (items, degree, heads, key_heads), width in rows.items():
        own = rows[items, degree, heads, heads]
        if key_heads < heads and own is not None and width is not None:
            ratios.append((heads + key_heads) * width / (2 * heads * own))
    assert len(ratios) > 20
    assert max(ratios) <= 1.25


def test_a_measurement_is_stored_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "HEADS", {(16, 8, 1): (2,)})
    monkeypatch.setattr(training, "SEEDS", 1)
    for module in (training, page_rows):
        monkeypatch.setattr(module, "DATA", tmp_path)
    monkeypatch.setattr(TrainedSharing, "task", property(lambda self: Task("permutation:16", "gaussian:8", context=8)))
    measure_trained(Settings(store=tmp_path / "s.db", workers=1))
    rows = read_rows(NAME)
    assert [(row["heads"], row["key_heads"]) for row in rows] == [(2, 2), (2, 1)]
    assert all(row["key_width"] is None or row["mean_f1"] >= 0.99 for row in rows)
    measure_trained(Settings(store=tmp_path / "s.db", workers=1))
    assert read_rows(NAME) == rows
