"""The page on how often the advice holds, and the constants that its rows give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads.planning import plan, prediction


def test_the_constants_are_what_the_stored_rows_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    from make_plan_check import CHECK_COUNT, CHECKS, calibration, fitted, problems

    found = fitted()
    np.testing.assert_allclose(found["ROOMY"], prediction.ROOMY, rtol=0.01)
    np.testing.assert_allclose(found["CROWDED"], prediction.CROWDED, rtol=0.01)
    assert found["SPREAD"] == [pytest.approx(prediction.SPREAD, rel=0.05)]
    np.testing.assert_allclose(found["LONG"], prediction.LONG, rtol=0.01)
    assert found["SOFTMAX, its spread"] == [
        pytest.approx(prediction.SOFTMAX_RATIO, rel=0.01),
        pytest.approx(prediction.SOFTMAX_SPREAD, rel=0.05),
    ]
    calibrated = {(row["items"], row["d_model"], row["degree"]) for row in calibration()}
    checked = {(one.items, one.d_model, one.degree) for one in problems(CHECKS[max(CHECKS)], CHECK_COUNT)}
    assert len(checked) == CHECK_COUNT
    assert not calibrated & checked


def test_the_page_of_the_check_counts_misses_as_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    from make_plan_check import COLUMNS, page

    good = {"number": 0, "items": 64, "d_model": 16, "degree": 1, "heads": 4, "key_width": 5, "key_budget": 20}
    good |= {"predicted": 19, "f1": 0.995, "seeds": 3, "measured": 18, "measured_heads": 3, "complete": True}
    good |= {"runs": 40, "ratio": 20 / 18, "held": True}
    short = good | {"number": 1, "f1": 0.98, "held": False}
    dear = good | {"number": 2, "ratio": 1.5, "held": False, "complete": False}
    none = good | dict.fromkeys(COLUMNS) | {"number": 3, "items": 500}
    text = page({1: [good, short, dear, none]}, [{"fact": "machine", "value": "made up"}])
    assert "| **both: the advice held** | **1 (25%)** | 90% |" in text
    assert "| F1 ≥ 0.99 at the recommended point | 2 |" in text
    assert "1 advised budgets were too small to reach 0.99 (F1 0.9800), 1 more than 1.35 × too large" in text
    assert "without any advice: 1. Of the 1 problems with more than 16 items to a dimension" in text
    assert text.count("**no**") == 3
    assert "At 1 of them the search was cut" in text
    assert text.count("(search cut)") == text.count("not looked for") == 1


def test_the_committed_page_of_the_check_follows_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.syspath_prepend(str(docs))
    from make_plan_check import CHECK_COUNT, CHECKS, page, problems, read_rows

    checks = {number: read_rows(f"plan-check-{number}") for number in CHECKS}
    assert (docs / "plan-check.md").read_text() == page(checks, read_rows("plan-check-machine"))
    for number, seed in CHECKS.items():  # all problems of the seed are there, none was left out
        drawn = [(one.items, one.d_model, one.degree) for one in problems(seed, CHECK_COUNT)]
        assert [(row["items"], row["d_model"], row["degree"]) for row in checks[number]] == drawn
    held = sum(row["held"] for row in checks[max(CHECKS)])
    assert f"the advice held in {held} (" in (docs.parent / "README.md").read_text()
    for row in checks[max(CHECKS)]:  # and the present advice is what was checked
        advice = plan(relations=row["items"] * row["degree"], items=row["items"], d_model=row["d_model"]).recommended
        assert (row["heads"], row["key_width"]) == (advice.heads, advice.key_width)
