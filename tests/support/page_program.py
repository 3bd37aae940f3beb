"""The modules of the page outside a browser: `ask` puts questions to them in node (tests/page/engine_answers.mjs)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from manyheads.layer.rules import rule_named
from manyheads.training import Protocol, Run, Task

NODE = shutil.which("node")
PROGRAM = Path(__file__).parents[1] / "page" / "engine_answers.mjs"


def ask(*questions: tuple[str, Any]) -> list[Any]:
    if NODE is None:
        pytest.skip("node, which runs the modules of the page outside a browser, is not installed")
    told = subprocess.run(
        [NODE, str(PROGRAM)], input=json.dumps(questions), capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return list(json.loads(told.stdout))


def page_run(values: dict[str, Any]) -> Run:
    """The run of the package that the page's sliders name."""
    return Run(
        Task(f"permutation:{values['items']}", f"gaussian:{values['d_model']}", context=values["context"]),
        heads=values["heads"],
        key_heads=values.get("key_heads"),
        key_width=values["key_width"],
        seed=values["seed"],
        rule=rule_named(values["rule"]),
        protocol=Protocol(steps=values["steps"]),
    )
