"""Published rows as records, points of exhibits, and claims by number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.made_up import QUICK, made_up

from manyheads import InputError, paper, published_rows
from manyheads.papers import Rows, claim_exhibits, exhibit_named, needed
from manyheads.papers.publication import FILES, FOLDERS

CLAIMS = Path(__file__).parents[2] / "docs" / "reference" / "claims.md"


NAMES = ("fig1", "fig3", "fig9", "split_cost")


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)])


def test_every_row_has_the_fields_of_its_run(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.publication.published", lambda: rows)
    monkeypatch.setattr("manyheads.papers.publication.Scale", lambda: QUICK)
    monkeypatch.setattr("manyheads.papers.publication.EXHIBITS", NAMES)
    records = published_rows()
    assert len(records) == len(rows) == len({record["id"] for record in records})
    names = {"items", "d_model", "heads", "key_width", "key_budget", "seed", "graph", "degree", "rule", "step_limit"}
    layers = [record for record in records if record["kind"] == "layer"]
    assert all(names <= set(record) for record in layers)
    assert {record["exhibits"] for record in layers} >= {"fig3 fig9", "fig1 fig3 fig9"}
    assert {"score_1", "score_64"} <= {name for record in records for name in record}  # times of split_cost, by heads
    assert not any(name.isdigit() for record in records for name in record)
    one = next(record for record in layers if record["status"] == "converged")
    assert one["steps"] == rows[str(one["id"])].steps
    assert int(str(one["steps"])) <= int(str(one["step_limit"]))


def test_the_table_of_claims_names_the_exhibit_that_judges_each() -> None:
    table = dict(re.findall(r"^\| (R?\d+[a-z]?) \|.*\| `(\w+)` \|$", CLAIMS.read_text(), flags=re.MULTILINE))
    assert table == claim_exhibits()


def test_a_figure_has_its_points(rows: Rows) -> None:
    law = paper("fig3", rows=rows, scale=QUICK)
    assert [verdict.claim for verdict in law.verdicts] == ["3", "4"]
    first = law.points[0]
    assert (first["exhibit"], first["items"], first["d_model"], first["x"]) == ("fig3", 64, 16, 24.0)
    assert int(str(first["key_budget"])) >= 24  # the made-up rows succeed from x on
    curve = paper("fig1", rows=rows, scale=QUICK).points
    assert {point["seeds"] for point in curve} == {3}
    assert {point["micro_f1"] for point in curve if point.get("heads") == 2} >= {0.999}
    pytest.importorskip("pandas")
    assert len(law.frame) == len(law.points)


def test_a_claim_needs_its_own_runs_only(rows: Rows) -> None:
    (verdict,) = paper(claim=6, rows=rows, scale=QUICK).verdicts
    assert (verdict.claim, verdict.outcome) == ("6", "reproduced")
    alone = needed(["claim6"], QUICK)
    assert 0 < len(alone) < len(needed(["fig9"], QUICK)) / 4
    few = Rows(rows.of(alone))
    assert exhibit_named("claim6").claims(few, QUICK) == [verdict]  # no other run changes it


def test_the_published_files_are_found() -> None:
    assert all((FOLDERS[0] / name).exists() for name in FILES)


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


def test_every_line_of_figure_6_has_a_name() -> None:
    """Also the dotted line, which is drawn after the curves and their legend."""
    draw = exhibit_named("fig6").draw
    assert draw is not None
    figure = draw(Rows([made_up(run) for run in needed(["fig6"], QUICK)]), QUICK)
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert "answering zero" in named
    assert named == {str(line.get_label()) for axes in figure.axes for line in axes.lines}
