"""The generated reference is what the code gives: every command, every option, every public name."""

from __future__ import annotations

import re

import pytest

import manyheads
from manyheads.cli.commands import command_names
from tools import reference
from tools.reference import REFERENCE, ROOT, box_entries, help_text, markdown_table, parse_help, prose, public_names


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): text for path, text in reference.pages().items()}


def test_the_pages_are_fresh(pages: dict[str, str]) -> None:
    stored = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in [REFERENCE / "commands.md", *(REFERENCE / "api").glob("*.md")]
    }
    stale = sorted(path for path in stored.keys() | pages.keys() if stored.get(path) != pages.get(path))
    assert stale == [], "run `make reference`"


def test_every_option_of_a_help_text_is_in_its_section(pages: dict[str, str]) -> None:
    sections = re.split(r"^###? (.+)\n", pages["docs/reference/commands.md"], flags=re.MULTILINE)
    section = dict(zip(sections[1::2], sections[2::2], strict=True))
    for name in command_names():
        shown = re.findall(r"^│ (?:-\w\b.*, )?(--[\w-]+)", help_text(name), re.MULTILINE)
        listed = re.findall(r"^\| `(?:-\w\b.*, )?(--[\w-]+)", section[name], re.MULTILINE)
        assert [option for option in shown if option != "--help"] == listed, name
        assert "--json" in listed


def test_every_public_name_is_listed_once(pages: dict[str, str]) -> None:
    names = [name for room in public_names().values() for name in room]
    assert len(names) == len(set(names))
    assert {f"manyheads.{name}" for name in manyheads.__all__} - set(names) == {"manyheads.construct"}  # a room
    for room, expected in public_names().items():
        found = re.findall(r"^\| \[?`(\w+)`", pages[f"docs/reference/api/{room}.md"], re.MULTILINE)
        assert found == [name.rpartition(".")[2] for name in expected]


def test_how_to_cite_says_what_citation_cff_says() -> None:
    page = (ROOT / "docs" / "guide" / "cite.md").read_text(encoding="utf-8")
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = re.findall(r"^ *(?:- )?(?:version|title|family-names|value): \"?(.+?)\"?$", cff, re.MULTILINE)
    assert len(facts) == 12
    assert [fact for fact in facts if fact not in page] == []


def test_how_a_box_of_options_is_read() -> None:
    help_of = "\n".join(
        [
            "usage: x",
            "",
            "What it does.",
            "╭─ files options ─────╮",
            "│ Files to write.     │",
            "│ ─────────────────── │",
            "│ -o FILE, --output FILE │",
            "│         The layer.  │",
            "│ --force  Overwrite. │",
            "╰─────────────────────╯",
        ]
    )
    entries = [("-o FILE, --output FILE", "The layer."), ("--force", "Overwrite.")]
    expected = ["usage: x", "", "What it does."], [("files options", "Files to write.", entries)]
    assert parse_help(help_of) == expected
    assert box_entries([" (required)", "   • fit  Fit a layer."]) == ("", [("fit", "Fit a layer.")])


def test_text_is_no_markup() -> None:
    assert prose("D_K* of `a*b`, <x> [y]") == "D_K\\* of `a*b`, \\<x> \\[y]"
    assert markdown_table(["a"], [["x|y\nz"]]) == ["| a |", "|---|", "| x\\|y z |"]
