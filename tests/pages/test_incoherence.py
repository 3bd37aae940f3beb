"""The page on incoherence: its rows can be measured again, its examples run, its pictures show the means."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest
from support.pictures import coordinates

from manyheads import gaussian
from manyheads.drawing.style import save
from manyheads.problem.incoherence import incoherence_profile, realised_profile
from tools.pages.incoherence.measurement import D_MODEL, ITEMS, blocks_of
from tools.pages.incoherence.pictures import draw_lemma, draw_profile
from tools.pages.rows import DOCS, read_rows


@pytest.fixture(scope="module")
def families() -> list[dict[str, Any]]:
    return read_rows("incoherence")


def test_the_examples_of_the_page_run() -> None:
    outcome = doctest.testfile(str(DOCS / "results" / "incoherence.md"), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("block_size", [16, 128])
def test_stored_rows_can_be_measured_again(families: list[dict[str, Any]], block_size: int) -> None:
    embedding = gaussian(ITEMS, D_MODEL, seed=1)
    blocks = blocks_of(ITEMS, block_size, seed=1)
    measured = {
        "sets": incoherence_profile(embedding, matching_size=block_size),
        "blocks": realised_profile(embedding, blocks),
    }
    stored = [row for row in families if (row["family"], row["seed"], row["block_size"]) == ("Gaussian", 1, block_size)]
    assert {row["over"] for row in stored} == set(measured)
    for row in stored:
        for name in ("rho", "gamma", "gamma_distinct"):
            assert row[name] == pytest.approx(getattr(measured[row["over"]], name), rel=1e-5)


def test_curves_are_means_over_seeds(families: list[dict[str, Any]]) -> None:
    sparse_gamma = draw_profile(families).axes[3]
    lines = {line.get_label(): line for line in sparse_gamma.get_lines()}
    own = [row for row in families if row["family"] == "sparse binary" and row["block_size"] == 64]
    for label, over, column in (
        ("worst set (Def. B.4)", "sets", "gamma"),
        ("worst set, $i ≠ j$", "sets", "gamma_distinct"),
        ("on the blocks", "blocks", "gamma"),
    ):
        values = [row[column] for row in own if row["over"] == over]
        places, heights = coordinates(lines[label])
        assert heights[places.index(64)] == pytest.approx(sum(values) / len(values))


def test_equal_rows_make_equal_files(tmp_path: Path) -> None:
    rows = read_rows("incoherence-lemma"), read_rows("incoherence-density")
    once, again = (save(draw_lemma(*rows), tmp_path / name) for name in ("once", "again"))
    assert [path.name for path in once] == ["once.png", "once.svg"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
