"""docs/incoherence.md: its numbers are those of the stored rows, its rows can be measured again, its examples run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from manyheads import gaussian
from manyheads.drawing.incoherence import draw_lemma, draw_profile
from manyheads.drawing.style import save
from manyheads.problem.incoherence import incoherence, realised_incoherence

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS)
    return import_module("make_incoherence")


@pytest.fixture
def families(make: ModuleType) -> list[dict[str, Any]]:
    return make.read_rows("incoherence")


def test_the_page_says_what_its_rows_say(make: ModuleType) -> None:
    assert make.page(*map(make.read_rows, make.STORED)) == (DOCS / "incoherence.md").read_text()


def test_the_examples_of_the_page_run() -> None:
    outcome = doctest.testfile(str(DOCS / "incoherence.md"), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("block_size", [16, 128])
def test_stored_rows_can_be_measured_again(make: ModuleType, families: list[dict[str, Any]], block_size: int) -> None:
    embedding = gaussian(make.ITEMS, make.D_MODEL, seed=1)
    blocks = make.blocks_of(make.ITEMS, block_size, seed=1)
    measured = {
        "sets": incoherence(embedding, block_size=block_size),
        "blocks": realised_incoherence(embedding, blocks),
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
        places = list(lines[label].get_xdata())
        assert lines[label].get_ydata()[places.index(64)] == pytest.approx(sum(values) / len(values))


def test_equal_rows_make_equal_files(make: ModuleType, tmp_path: Path) -> None:
    rows = make.read_rows("incoherence-lemma"), make.read_rows("incoherence-density")
    once, again = (save(draw_lemma(*rows), tmp_path / name) for name in ("once", "again"))
    assert [path.name for path in once] == ["once.png", "once.svg"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
