"""The check of `plan`: its page counts misses as misses, its rows give the constants and hold the present advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.planning import plan, prediction
from manyheads.sweep import Store, threads
from tools.pages.plan_check.measurement import (
    CheckProblem,
    calibration,
    checked,
    constants,
    problems,
)
from tools.pages.plan_check.regression import paper_thresholds
from tools.pages.plan_check.text import CHECK_COUNT, CHECKS, COLUMNS, check_text
from tools.pages.rows import DOCS, read_rows


def test_the_constants_are_those_of_the_stored_rows() -> None:
    found = constants()
    np.testing.assert_allclose(found["WEIGHTS"], prediction.WEIGHTS, rtol=0.01)
    np.testing.assert_allclose(found["SPREAD"], prediction.SPREAD, rtol=0.01)
    np.testing.assert_allclose(found["BUDGET"], prediction.BUDGET, rtol=0.01)
    assert found["SOFTMAX, its spread"] == [
        pytest.approx(prediction.SOFTMAX_RATIO, rel=0.01),
        pytest.approx(prediction.SOFTMAX_SPREAD, rel=0.05),
    ]
    calibrated = {(row["items"], row["d_model"], row["degree"]) for row in calibration() + read_rows("plan-heads")}
    tested = {(one.items, one.d_model, one.degree) for one in problems(CHECKS[max(CHECKS)], CHECK_COUNT)}
    assert len(tested) == CHECK_COUNT
    assert not calibrated & tested


def test_the_page_counts_misses_as_misses() -> None:
    good: dict[str, Any] = {"number": 0, "items": 64, "d_model": 16, "degree": 1, "heads": 4, "key_width": 5}
    good |= {"predicted": 19, "f1": 0.995, "seeds": 3, "measured": 18, "measured_heads": 3, "complete": True}
    good |= {"key_budget": 20, "runs": 40, "ratio": 20 / 18, "held": True}
    small = good | {"number": 1, "f1": 0.98, "held": False}
    large = good | {"number": 2, "ratio": 1.5, "held": False, "complete": False}
    none = good | dict.fromkeys(COLUMNS) | {"number": 3, "items": 500}
    text = check_text(1, [good, small, large, none])
    assert "| **both: the advice held** | **1 (25%)** | 54 of 60 |" in text
    assert "| F1 ≥ 0.99 at the recommended point | 2 |" in text
    assert "- too small to reach 0.99: 1 (F1 0.9800)" in text
    assert "- more than 1.35 × D_K\\*: 1" in text
    assert "- no advice: 1" in text
    assert "- problems with more than 16 items for each dimension, which train for up to 80,000 steps: 1, " in text
    assert text.count("**no**") == 3
    assert "1 searches were stopped" in text
    assert text.count("(search stopped)") == text.count("not measured") == 1


def test_the_rows_of_a_check_are_its_problems() -> None:
    """Check 5 lacks two rows, and its page says so. Every other check is complete."""
    checks = {number: read_rows(f"plan-check-{number}") for number in CHECKS}
    last = max(CHECKS)
    for number, seed in CHECKS.items():
        expected = [(one.items, one.d_model, one.degree) for one in problems(seed, CHECK_COUNT)]
        found = {row["number"]: (row["items"], row["d_model"], row["degree"]) for row in checks[number]}
        assert found == {place: expected[place] for place in found}
        absent = 2 if number == 5 else 0
        assert len(found) == CHECK_COUNT - absent
        missing = f"**{absent} problems, those with the most work, have no row yet.**"
        assert (missing in check_text(number, checks[number])) == (absent > 0)
    rows, held = checks[last], sum(row["held"] for row in checks[last])
    assert f"on {len(rows)} problems fixed beforehand it held in {held} |" in (DOCS.parent / "README.md").read_text()


def test_the_last_check_is_that_of_the_present_advice() -> None:
    for row in read_rows(f"plan-check-{max(CHECKS)}"):
        advice = plan(items=row["items"], relations=row["items"] * row["degree"], d_model=row["d_model"]).recommended
        assert (row["heads"], row["key_width"]) == (advice.heads, advice.key_width)


@pytest.mark.long
def test_the_paper_rows_of_the_calibration_are_those_of_the_paper() -> None:
    assert paper_thresholds() == [row for row in read_rows("plan-heads") if row["source"] == "paper"]


def test_a_small_problem_is_checked(tmp_path: Path) -> None:
    with Store.write(tmp_path / "s.db") as store, threads(1) as workers:
        row = checked(CheckProblem(32, 24, 1), store, workers)
    assert set(row) == set(COLUMNS)
    assert row["f1"] > 0.9
