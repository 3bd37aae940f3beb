"""The list of planted faults fits the source: each fault has exactly one place, and its tests exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.faults import FAULTS, ROOT, Fault

ROOMS = sorted(path.name for path in (ROOT / "src" / "manyheads").iterdir() if (path / "__init__.py").exists())
LEAST = 36


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_has_one_place(fault: Fault) -> None:
    assert fault.places() == 1
    assert fault.wrong != fault.right
    planted = (ROOT / "src" / "manyheads" / fault.file).read_text().replace(fault.right, fault.wrong)
    ast.parse(planted)  # a module that cannot be read would be found by any test


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_the_tests_of_a_fault_exist(fault: Fault) -> None:
    for name in fault.tests.split():
        file, *parts = name.split("::")
        nodes = ast.walk(ast.parse((ROOT / file).read_text()))
        assert set(parts) <= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_every_room_has_faults() -> None:
    assert len(FAULTS) >= LEAST
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
    assert {Path(fault.file).parts[0] for fault in FAULTS} >= set(ROOMS)
