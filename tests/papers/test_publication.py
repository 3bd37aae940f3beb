"""Published rows as records, points of exhibits, and claims by number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from manyheads import InputError, paper, published_rows
from manyheads.papers import Rows, Scale, claim_exhibits, exhibit_named, needed
from manyheads.papers.publication import published

CLAIMS = Path(__file__).parents[2] / "docs" / "reference" / "claims.md"


@pytest.fixture(scope="module")
def rows() -> Rows:
    return published()


def test_every_published_row_has_the_fields_of_its_run(rows: Rows) -> None:
    records = published_rows()
    assert len(records) == len(rows) == len({record["id"] for record in records})
    names = {"items", "d_model", "heads", "key_width", "key_budget", "seed", "graph", "degree", "rule", "step_limit"}
    layers = [record for record in records if record["kind"] == "layer"]
    assert all(names <= set(record) for record in layers)
    one = next(record for record in layers if record["status"] == "converged")
    assert one["steps"] == rows[str(one["id"])].steps
    assert int(str(one["steps"])) <= int(str(one["step_limit"]))


def test_the_table_of_claims_names_the_exhibit_that_judges_each() -> None:
    table = dict(re.findall(r"^\| (R?\d+[a-z]?) \|.*\| `(\w+)` \|$", CLAIMS.read_text(), flags=re.MULTILINE))
    assert table == claim_exhibits()


def test_a_figure_has_its_points(rows: Rows) -> None:
    law = paper("fig3", rows=rows)
    assert [verdict.claim for verdict in law.verdicts] == ["3", "4"]
    first = law.points[0]
    assert (first["items"], first["d_model"], first["x"], first["key_budget"]) == (64, 16, 24.0, 20)
    curve = paper("fig1", rows=rows).points
    assert {point["seeds"] for point in curve if point.get("key_budget")} == {10}
    pytest.importorskip("pandas")
    assert len(law.frame) == len(law.points)


def test_a_claim_needs_its_own_runs_only(rows: Rows) -> None:
    (verdict,) = paper(claim=6, rows=rows).verdicts
    assert (verdict.claim, verdict.outcome) == ("6", "reproduced")
    alone = needed(["claim6"], Scale())
    assert 0 < len(alone) < len(needed(["fig9"], Scale())) / 10
    few = Rows(rows.of(alone))
    assert exhibit_named("claim6").claims(few, Scale()) == [verdict]  # no other run changes it


@pytest.mark.parametrize(
    ("name", "claim", "says"),
    [
        (None, None, "one exhibit or one claim"),
        ("fig3", 6, "one exhibit or one claim"),
        (None, "99", "no claim '99': choose from 1, 2"),
        ("6", None, "the number of a claim: run it with --claim 6"),
        ("fig33", None, "did you mean fig3"),
    ],
)
def test_an_unknown_name_is_one_sentence(name: str | None, claim: int | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        paper(name, claim=claim, rows=Rows(()))
