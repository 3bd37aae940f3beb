"""Every result page is the text that its stored rows give; its pictures and links exist; bad names are refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from manyheads.papers import BEYOND, CAPACITY, Scale, exhibit_named, needed, write_rows
from manyheads.papers import read_rows as paper_rows
from manyheads.papers.exhibit import EXHIBITS
from manyheads.papers.exhibits.one_head import OneHead
from tools.pages.__main__ import main
from tools.pages.catalogue import PAGES, PAPERS, Settings, add_trials, load, text
from tools.pages.rows import DATA, DOCS, fill, read_rows, rounded

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_text_of_its_rows(name: str) -> None:
    assert (DOCS / "results" / f"{name}.md").read_text(encoding="utf-8") == text(name)


def test_every_page_and_every_table_is_used() -> None:
    assert {path.stem for path in (DOCS / "results").glob("*.md")} == {*PAGES, *PAPERS}
    used = {table for name in PAGES for table in load(name).TABLES}
    others = {
        "measure-grid",
        "plan-calibration",
        "plan-heads",
        "block-scouting-machine",
    }  # a benchmark's, two of the prediction, a record
    assert {path.stem for path in DATA.glob("*.csv")} == used | others


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_the_links_of_a_page_lead_to_files(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [link for link in LINK.findall(prose) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/reference/laws.md", "docs/guide/plan.md"]
)
def test_the_files_that_a_page_names_exist(name: str) -> None:
    text = (DOCS.parent / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|native|tests|docs|tools|benchmarks|examples)/[\w/.-]*)`", text)
    links = [str(Path(name).parent / link) for link in LINK.findall(text)]
    assert [path for path in (*paths, *links) if not (DOCS.parent / path).exists()] == []


def test_every_room_is_in_architecture() -> None:
    text = (DOCS.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = DOCS.parent / "src" / "manyheads"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| `src/manyheads/(\w+)/` \|", text, re.MULTILINE))


def test_architecture_has_the_order_of_imports_that_is_checked() -> None:
    text = (DOCS.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    with (DOCS.parent / "pyproject.toml").open("rb") as file:
        (contract,) = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    assert "\n".join(layer for layer in contract["layers"] if layer != "__main__") in text


def test_a_template_without_a_fact_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("{{one}} and {{two}}")
    assert fill(str(tmp_path / "text.py"), {"one": 1, "two": 2}) == "1 and 2"
    with pytest.raises(ValueError, match=r"missing facts: \['two'\], unused facts: \['three'\]"):
        fill(str(tmp_path / "text.py"), {"one": 1, "three": 3})


def test_rows_are_read_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.pages import rows

    monkeypatch.setattr(rows, "DATA", tmp_path)
    written = {"text": "a, b", "whole": 3, "real": 0.123456789, "yes": True, "none": None}
    rows.write_rows("made-up", [written])
    assert rows.read_rows("made-up") == [written | {"real": 0.123457}]
    assert rounded(written)["real"] == "0.123457"
    assert read_rows("there-is-no-such-table") == []


def test_unknown_pages_and_parts_are_refused() -> None:
    with pytest.raises(SystemExit, match="there is no page floor: choose from bits-per-weight, block-scouting"):
        main(("floor",))
    with pytest.raises(SystemExit, match="fit has no part speed: choose from comparison, growth"):
        main(("fit",), measure=True, settings=Settings(only="speed"))
    with pytest.raises(SystemExit, match="rows of head-count are made by `manyheads paper retrieval`"):
        main(("head-count",), measure=True)


@pytest.mark.long
def test_a_missing_trial_of_the_paper_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in EXHIBITS if exhibit_named(name).collection in (CAPACITY, BEYOND)]
    rows, path = paper_rows(DATA / "paper.jsonl.gz"), tmp_path / "paper.jsonl.gz"
    runs, lost = needed(names, Scale(), rows), OneHead(64, 64, 0)
    write_rows(path, rows, [run for run in runs if run.id != lost.id])
    monkeypatch.setattr("tools.pages.catalogue.DATA", tmp_path)
    assert add_trials(Settings(workers=1)) == 1
    again = paper_rows(path)
    assert len(again) == len(rows)
    assert again[lost.id].scores == rows[lost.id].scores
    assert add_trials(Settings(workers=1)) == 0
