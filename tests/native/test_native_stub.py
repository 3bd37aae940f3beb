"""src/manyheads/_native.pyi is what the generator makes of the compiled module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = next(parent for parent in Path(__file__).parents if (parent / "pyproject.toml").is_file())


def test_the_stub_is_fresh(tmp_path: Path) -> None:
    pytest.importorskip("nanobind", reason="nanobind, which makes the stub, is not installed (dev extra)")
    made = tmp_path / "_native.pyi"
    subprocess.run([sys.executable, str(ROOT / "native" / "bindings" / "stub.py"), str(made)], check=True)
    stored = ROOT / "src" / "manyheads" / "_native.pyi"
    assert made.read_text(encoding="utf-8") == stored.read_text(encoding="utf-8"), "write it again with: make stub"
