"""The pages' commands are run: every ```console block, in order, in one new directory for each page.

A line that begins with `$ ` is a command (a trailing backslash continues it); the lines below it, up to the next, are
what it prints. `…` in such a line stands for what varies, a line of `…` alone for any number of lines. A command exits
with 0; the last of a block that opens with ```console exit=N exits with N. Commands not to be run are in ```sh blocks.

`python tests/project/test_readme.py` writes what the commands print now into the pages, where that differs from what
they show.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRESS = re.compile(r"(?!manyheads: )\w+: ")  # on stderr, every ten seconds of a slow machine
BLOCK = re.compile(r"^```console(?: exit=(?P<exit>\d+))?\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it."""

    command: str
    output: list[str]
    exit_code: int


def shown(page: str) -> list[Shown]:
    commands: list[Shown] = []
    for block in BLOCK.finditer(page):
        lines = block["lines"].replace("\\\n", "").splitlines()
        if not lines or not lines[0].startswith("$ "):
            raise ValueError(f"a console block begins with a command, not with {lines[:1]}")
        for line in lines:
            if line.startswith("$ "):
                commands.append(Shown(line[2:], [], 0))
            else:
                commands[-1].output.append(line.rstrip())
        commands[-1] = replace(commands[-1], exit_code=int(block["exit"] or 0))
    return commands


def run(command: str, directory: Path) -> tuple[int, list[str]]:
    """The exit code and all that is printed but progress, in a terminal of 80 columns."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(
        command, shell=True, cwd=directory, env=environment, capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if not PROGRESS.match(line)]
    return done.returncode, [*done.stdout.splitlines(), *said]


def matches(pattern: list[str], output: list[str]) -> bool:
    """Whether the output is what the page shows, its `…` filled in."""
    lines = [r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + "\n" for line in pattern]
    return re.fullmatch("".join(lines), "".join(f"{line.rstrip()}\n" for line in output)) is not None


@pytest.mark.parametrize(
    "page",
    [PAGES[0], *(pytest.param(page, marks=pytest.mark.long) for page in PAGES[1:])],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    for step in shown(page.read_text()):
        exit_code, output = run(step.command, tmp_path)
        said = "\n".join(output)
        assert exit_code == step.exit_code, f"$ {step.command}\nexits with {exit_code} and says\n{said}"
        assert matches(step.output, output), f"$ {step.command}\nprints\n{said}\nand not\n" + "\n".join(step.output)


@pytest.mark.parametrize("page", ["README.md", "docs/guide/python.md", "docs/guide/cluster.md"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    """Its blocks are one program, from top to bottom."""
    program = "".join(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))
    assert program
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readmes_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", PAGES[0].read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# what README says, where "{}" are numbers, and the page that has these numbers in these words
FOUND = [
    ("{} are reproduced, {} differ.", "results/paper.md", r"reproduced: (\d+), differs: (\d+)"),
    ("a slope of {1} (paper: {0})", "results/paper.md", r"\| 3 \| D_K\* ≈ ([\d.]+)·.*?\| slope ([\d.]+)"),
    ("the law of head counts {1} ({0})", "results/paper.md", r"\| 5 \| h\* ≈ ([\d.]+)·.*?\| ([\d.]+)·m"),
    (
        "{2} of the key budget that training needs, in the median ({0} to {1})",
        "results/capacity-floor.md",
        r"between\s+([\d.]+) and ([\d.]+) times D_K\\\*, ([\d.]+) in the median",
    ),
    ("certified layers {} (median)", "results/bits-per-weight.md", r"Certified layers.*?, ([\d.]+) in the median"),
    ("trained layers {}, one head", "results/bits-per-weight.md", r"Trained layers.*?, ([\d.]+) in the median"),
    (
        "one head at its limit {} to {}",
        "results/bits-per-weight.md",
        r"One head at its transition\*\*: ([\d.]+) to ([\d.]+)",
    ),
    ("by a factor of {} to {}", "results/head-count.md", r"falls by factors from (\d+) to (\d+)"),
    (
        "{0} to {1} times an eager PyTorch",
        "lab-notes/engine.md",
        r"(?s)third look.*?drawn in the loop, × native \| (\d+) [^\n]*\| ([\d.]+) ±",
    ),
]


@pytest.mark.parametrize(("says", "page", "pattern"), FOUND, ids=[says for says, *_ in FOUND])
def test_the_numbers_of_the_readme_are_those_of_the_pages(says: str, page: str, pattern: str) -> None:
    """A number of README may have fewer digits."""
    found = re.search(pattern, (ROOT / "docs" / page).read_text())
    assert found is not None
    order = [int(place or number) for number, place in enumerate(re.findall(r"\{(\d?)\}", says))]
    ours = re.search(re.sub(r"\\\{\d?\\\}", r"([\\d.]*\\d)", re.escape(says)), PAGES[0].read_text().replace("\n", " "))
    assert ours is not None
    for place, number in zip(order, ours.groups(), strict=True):
        digits = len(number.partition(".")[2])
        assert number == f"{float(found[place + 1]):.{digits}f}"


def test_the_pages_have_commands_to_run() -> None:
    assert sum(len(shown(page.read_text())) for page in PAGES) >= 20
    assert shown(PAGES[0].read_text())


@pytest.mark.parametrize(
    ("pattern", "output", "expected"),
    [
        (["a 1.5 s"], ["a 1.5 s"], True),
        (["a … s"], ["a 17 s"], True),
        (["a … s"], ["a 17 m"], False),
        (["a", "…", "b"], ["a", "1", "2", "b"], True),
        (["a", "…", "b"], ["a", "b"], True),
        (["a", "…"], ["b", "a"], False),
        (["a"], ["a", "b"], False),
        ([], ["a"], False),
        (["a.b"], ["axb"], False),
    ],
)
def test_how_output_is_compared(pattern: list[str], output: list[str], expected: bool) -> None:
    assert matches(pattern, output) is expected


def test_how_a_page_is_read() -> None:
    page = "```sh\n$ no\n```\n```console\n$ one \\\n  two\nsays\n$ three\n```\n```console exit=1\n$ four\n$ five\n```\n"
    fours = [Shown("four", [], 0), Shown("five", [], 1)]
    assert shown(page) == [Shown("one   two", ["says"], 0), Shown("three", [], 0), *fours]
    with pytest.raises(ValueError, match="begins with a command"):
        shown("```console\nno command\n```\n")


def refresh(page: Path) -> None:
    text = page.read_text()
    with tempfile.TemporaryDirectory() as directory:
        for step in shown(text):
            _, output = run(step.command, Path(directory))
            if not matches(step.output, output):
                old, new = ("".join(f"{line}\n" for line in lines) for lines in (step.output, output))
                if not step.output or text.count(old) != 1:
                    sys.exit(f"{page.name}: put the output of `{step.command}` in by hand:\n{new}")
                text = text.replace(old, new)
    page.write_text(text)


if __name__ == "__main__":
    for each in PAGES:
        refresh(each)
