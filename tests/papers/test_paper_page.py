"""The page of the capacity paper follows from the committed rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.cli.commands.paper import PaperCommand
from manyheads.papers import BEYOND, CAPACITY, Rows, Scale, exhibit_names, read_rows
from manyheads.papers.panel import Panel
from manyheads.papers.paper_page import page
from manyheads.papers.reproduction import report

DOCS = Path(__file__).parents[2] / "docs"


RESULTS = DOCS / "results"


NAMES = exhibit_names(CAPACITY)


SHOWN = (*NAMES, *exhibit_names(CAPACITY, hours=True), *exhibit_names(BEYOND))


@pytest.fixture(scope="module")
def rows() -> Rows:
    return read_rows(DOCS / "data" / "paper.jsonl.gz")


@pytest.mark.long
def test_the_page_follows_from_the_rows(rows: Rows) -> None:
    command = PaperCommand(what=("all",), from_rows=Path("docs/data/paper.jsonl.gz"), output=Path("docs/results"))
    assert (
        page(report(SHOWN, rows, Scale(), origin=command._origin(command.what))) == (RESULTS / "paper.md").read_text()
    )


def test_every_picture_of_the_page_is_there() -> None:
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", (RESULTS / "paper.md").read_text())
    assert len(pictures) >= len(NAMES)
    for picture in pictures:
        assert (RESULTS / picture).stat().st_size > 2_000
        assert (RESULTS / picture).with_suffix(".svg").exists()


def test_other_rows_make_another_page(rows: Rows) -> None:
    """That the page is compared with something that the rows decide."""
    measured = rows.of(Panel(64, 16).runs(Scale()))
    failed = [replace(row, scores={**row.scores, "micro_f1": 0.5}) for row in measured]
    assert page(report(["table1"], rows.joined(Rows(failed)), Scale())) != page(report(["table1"], rows, Scale()))
