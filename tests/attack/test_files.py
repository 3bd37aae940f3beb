"""A short dose of the attack on files; `python -m attack.files 20000` is the long one."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader

import pytest
from attack.files import FAILURES, run_child
from attack.fuzz import PlainLoader, is_editable

COUNT, FIRST = 192, 1_000_000  # 6 files of each kind, other ones than those of the long attack


def test_damaged_files_are_read_equal_or_refused() -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    counts, errors = run_child(COUNT, first=FIRST)
    failed = {title: row for title, row in counts.items() if any(row.get(outcome) for outcome in FAILURES)}
    assert not failed, errors
    assert sum(sum(row.values()) for row in counts.values()) == COUNT
    assert sum(row.get("refused", 0) for row in counts.values()) > COUNT / 2


@pytest.mark.skipif(not any(map(is_editable, sys.meta_path)), reason="manyheads is not installed with pip install -e")
def test_the_fuzzer_loads_modules_as_atheris_needs_it() -> None:
    assert type(PlainLoader().find_spec("manyheads.files.graph_files").loader) is SourceFileLoader
    assert PlainLoader().find_spec("numpy") is None  # of another installation
