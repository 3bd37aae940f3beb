"""docs/constructions.md and its picture say what the stored rows say."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.drawing.noise import draw_noise

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    from constructions_page import Stored, page

    stored = Stored.read()
    assert (DOCS / "constructions.md").read_text(encoding="utf-8") == page(stored)
    # where no width works there is no budget, and where there is one, enough draws certified
    for row in stored.smallest:
        assert (row["key_budget"] is None) or (row["works"] and row["certified"] >= 19)


def test_the_picture_shows_every_row() -> None:
    scores = dict.fromkeys(("signal", "n1", "n2", "n3_mean", "n3_fluctuation", "low", "limit_low"), 0.3)
    problem = {"items": 64, "d_model": 16, "key_width": 8, "high": 0.8, "limit_high": 0.9}
    terms = [{**problem, **scores, "block_size": size} for size in (8, 16, 64)]
    backgrounds = [
        {**problem, "heads": 4, "scale": scale, "context_length": length, "least": 0.1, "mean": 0.2, "most": 0.3}
        for scale in (1.0, 0.5)
        for length in (8, 16)
    ]
    left, middle, right = draw_noise(terms, backgrounds).axes
    assert {len(line.get_xdata()) for line in left.get_lines()[2:8]} == {3}
    assert [line.get_ydata()[0] for line in middle.get_lines()[:2]] == [0.8, 0.3]
    assert {"mean, $(h-1)/ℓ$", "Eq. 13, $C_2 = 1$"} <= set(right.get_legend_handles_labels()[1])
    (mean,) = (line for line in right.get_lines() if line.get_label() == "mean, $(h-1)/ℓ$")
    assert list(mean.get_ydata()) == [3 / 8, 3 / 16]
