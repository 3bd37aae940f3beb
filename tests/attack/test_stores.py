"""A short dose of the attack on stores; `python -m attack.stores 20000` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack.stores import FAILURES, attack

COUNT, FIRST = 40, 1_000_000  # other bits than those of the long attack


def test_one_flipped_bit_never_changes_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = attack(COUNT, tmp_path, first=FIRST)
    assert not any(counts[outcome] for outcome in FAILURES), capsys.readouterr().err
    assert counts.total() == COUNT
    assert counts["noticed"] > COUNT / 4
