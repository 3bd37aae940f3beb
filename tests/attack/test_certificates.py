"""A short dose of the attack on certificates; `python -m attack.certificates 100000` is the long one."""

from __future__ import annotations

import pytest
from attack.certificates import attack

COUNT, FIRST = 100, 1_000_000  # other layers than those of the long attack


def test_no_certificate_and_no_proof_is_unsound() -> None:
    pytest.importorskip("torch")
    counts = attack(COUNT, first=FIRST)
    assert [family for family, row in counts.items() if row["unsound"]] == []
    assert sum(sum(row.values()) for row in counts.values()) == COUNT
    for family, outcomes in {
        "pairwise": ("holds (BLAS)", "refuted (BLAS)", "not proved (BLAS)"),
        "softmax": ("holds (BLAS)", "refuted (BLAS)"),
        "PyTorch": ("neither", "float32", "bfloat16"),
        "proof": ("verified", "refused", "disturbed"),
    }.items():
        assert all(counts[family][outcome] > 0 for outcome in outcomes), family
    assert counts["proof"]["close"] < 6  # the checker is nearly as sharp as certify
