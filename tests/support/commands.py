"""refused: run a command that must refuse its input, and return its one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manyheads.cli import main


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a command that refuses: exit code 2, nothing on stdout, no file new or changed."""
    before = {name: Path(name).stat().st_mtime_ns for name in sorted(os.listdir())}
    assert main(words) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said.startswith("manyheads: ")
    assert said.count("\n") == 1
    assert {name: Path(name).stat().st_mtime_ns for name in sorted(os.listdir())} == before
    return said
