"""Hooks and workflows: they call programs, targets and files that exist, and a hook fetches nothing."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / ".pre-commit-config.yaml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = [*WORKFLOWS, ROOT / ".ci" / "run"]
MAKE_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
MAKE_CALL = re.compile(r"^(?:\s*- run: |\s*)make (.+)$", re.MULTILINE)
TESTS_PATH = re.compile(r"(?<![\w/.-])((?:tests|tools|src|native|examples|docs)/[\w/.-]+)")


def test_every_hook_is_a_program_of_the_projects_environment() -> None:
    """`git commit` must work in an editor that knows nothing of .venv, and without the internet."""
    text = HOOKS.read_text()
    assert re.findall(r"repo: (.+)", text) == ["local"]
    entries = re.findall(r"entry: (\S+)", text)
    assert len(entries) == len(re.findall(r"- id: ", text)) == len(re.findall(r"language: system", text)) >= 4
    programs = Path(sysconfig.get_path("scripts"))
    for entry in entries:
        assert entry.startswith(".venv/bin/"), entry
        assert (programs / Path(entry).name).exists(), entry


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_workflow_calls_targets_of_make_that_exist(path: Path) -> None:
    targets = set(MAKE_TARGET.findall((ROOT / "Makefile").read_text()))
    calls = [target for call in MAKE_CALL.findall(path.read_text()) for target in call.split()]
    assert [target for target in calls if target not in targets] == []
    assert calls or path.name == "wheels.yml"  # it builds with cibuildwheel alone


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_workflow_names_files_that_exist(path: Path) -> None:
    made = {"docs/_build/html"}
    named = [word for word in TESTS_PATH.findall(path.read_text()) if word not in made]
    assert [word for word in named if not (ROOT / word).exists()] == []
