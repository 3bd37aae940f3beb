"""A short dose of the attack on files; `python -m attack.files 20000` is the long one."""

from __future__ import annotations

import pytest
from attack.files import FAILURES, run_child

COUNT, FIRST = 1_056, 1_000_000  # 33 files of each kind, other ones than those of the long attack


def test_damaged_files_are_read_equal_or_refused() -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    counts, errors = run_child(COUNT, first=FIRST)
    failed = {title: row for title, row in counts.items() if any(row.get(outcome) for outcome in FAILURES)}
    assert not failed, errors
    assert sum(sum(row.values()) for row in counts.values()) == COUNT
    assert sum(row.get("refused", 0) for row in counts.values()) > COUNT / 2
