"""The head-count paper: its exhibits on made-up rows, its page, and its command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.made_up import drawn, roughly

from manyheads import InputError
from manyheads.cli import main
from manyheads.cli.commands.paper import PaperCommand
from manyheads.papers import (
    BEYOND,
    CAPACITY,
    HEAD_COUNT,
    Row,
    Rows,
    Scale,
    exhibit_named,
    exhibit_names,
    needed,
    read_rows,
    verdicts,
    write_rows,
)
from manyheads.papers.head_count_page import page
from manyheads.papers.head_count_setting import table
from manyheads.papers.head_count_tables import DIGITS, FIXED, SETTING, TWO_LAYERS
from manyheads.papers.reproduction import draw_pictures, measure_rows, report
from manyheads.retrieval import RetrievalRun
from manyheads.sweep import Store, threads

FULL, QUICK = Scale(), Scale(quick=True)


RETRIEVAL = exhibit_names(HEAD_COUNT)


DOCS = Path(__file__).parents[2] / "docs"


def as_told(run: RetrievalRun) -> float:
    """What the paper says: a steep fall at L·h = D, growth with T before it."""
    if run.layers * run.heads >= run.dimension:
        return 2e-6 * (1 + 0.1 * run.seed)
    return 1e-2 * 3.0**-run.heads * (run.length / 8) ** 0.3 * (1 + 0.1 * run.seed)


def rows_of(nmse: Callable[[RetrievalRun], float | None], scale: Scale = FULL) -> Rows:
    runs = []
    for run in needed(RETRIEVAL, scale):
        assert isinstance(run, RetrievalRun)
        runs.append(run)
    made = [Row(run.id, "retrieval", "limit", {"nmse": nmse(run)}, run.steps, 1.0) for run in runs]
    return Rows(made, machine={"cpu": "made up"})


def outcomes(nmse: Callable[[RetrievalRun], float | None]) -> dict[str, str]:
    return {verdict.claim: verdict.outcome for verdict in verdicts(RETRIEVAL, rows_of(nmse), FULL)}


def test_the_papers_points_are_all_there() -> None:
    assert {(run.heads, run.length) for run in SETTING.runs(FULL)} == set(SETTING.paper)
    run = SETTING.run(4, 128, 0, FULL)
    assert (run.training_examples, run.validation_examples, run.mlp_width, run.input_width) == (8000, 2000, 32, 4)
    assert (run.embedding, run.dimension, run.layers, run.task) == (32, 4, 1, "maxima")
    assert SETTING.paper[1, 128] == 1.45e-1
    assert SETTING.paper[5, 8] == 3.35e-5
    assert [FIXED.width(heads) for heads in (1, 2, 3, 4, 5)] == [32, 16, 11, 8, 7]


def test_what_the_paper_says_is_reproduced_by_rows_that_say_so() -> None:
    assert outcomes(as_told) == {f"R{number}": "reproduced" for number in range(1, 7)}


@pytest.mark.parametrize(
    ("claims", "other"),
    [
        ("R1 R4", lambda run: as_told(run) * (0.01 if (run.heads, run.layers, run.dimension) == (3, 1, 4) else 1)),
        ("R1 R4 R5 R6", lambda run: 100 * as_told(run)),  # nothing reaches 1e-4
        ("R2", lambda run: as_told(run) * (run.length / 8) ** -0.5),
        ("R3", lambda run: as_told(run) * (run.length / 8)),
        ("R5", lambda run: as_told(run) if run.dimension == 4 else 1e-2 * 3.0**-run.heads),
        ("R6", lambda run: as_told(run) if run.layers == 1 else 2e-6 if run.heads >= 4 else 1e-3),
    ],
)
def test_what_differs_is_called_so(claims: str, other: Callable[[RetrievalRun], float]) -> None:
    found = outcomes(other)
    assert {claim for claim, outcome in found.items() if outcome == "differs"} == set(claims.split())


def test_what_was_not_run_or_diverged_is_not_attempted() -> None:
    lost = TWO_LAYERS.run(2, 16, 1, FULL).id
    found = outcomes(lambda run: None if run.id == lost else as_told(run))
    assert found["R6"] == "not attempted"
    assert list(found.values()).count("reproduced") == 5
    rows = rows_of(lambda run: None if run.id == lost else as_told(run))
    assert (2, 16) not in TWO_LAYERS.nmse(rows, FULL)
    assert "not run" in table(TWO_LAYERS, rows, FULL)


def test_the_table_has_means_deviations_and_the_papers_numbers() -> None:
    lines = table(SETTING, rows_of(as_told), FULL).splitlines()
    assert lines[0] == "| NMSE | T = 8 | T = 16 | T = 32 | T = 64 | T = 128 |"
    assert lines[2].startswith("| h = 1 (n = 8) | 3.7e-03 ± 3e-04 (best 3.3e-03); paper 7.0e-02 | ")


def test_the_page_is_drawn_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    made = report(RETRIEVAL, rows_of(as_told), FULL)
    drawn = {f"head-count/{path.name}" for path in draw_pictures(made, tmp_path)}
    text = page(made)
    assert drawn == {line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")}
    assert len(drawn) == len(RETRIEVAL)
    assert text.count("| NMSE |") == sum(len(exhibit_named(name).tables(made.rows, FULL)) for name in RETRIEVAL)
    assert "h = 3: nothing before T = 137" in text
    assert "scikit-learn" in text
    assert "Quick" not in text
    partly = Rows(rows_of(as_told).of(SETTING.runs(FULL)))
    assert "Not run." in page(report(RETRIEVAL, partly, FULL))


def test_every_exhibit_can_be_drawn_from_its_first_run_alone(tmp_path: Path) -> None:
    rows = rows_of(as_told)
    for name in RETRIEVAL:
        module = exhibit_named(name)
        first = Rows(rows.of(list(module.runs(FULL))[:1]))
        roughly(drawn(module, first, FULL), tmp_path / name)
        assert module.caption(first, FULL)


def test_the_command_redraws_from_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl.gz"
    write_rows(file, rows_of(as_told, QUICK), needed(RETRIEVAL, QUICK))
    options = ["--quick", "--from-rows", str(file), "--output", str(tmp_path / "out"), "--json"]
    assert main(["paper", "retrieval_heads", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [claim["claim"] for claim in facts["claims"]] == ["R1", "R2", "R3"]
    assert "**Quick" in (tmp_path / "out" / "head-count.md").read_text()


def test_retrieval_is_a_group_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert PaperCommand(what=("retrieval",))._names() == (RETRIEVAL, RETRIEVAL)
    assert not set(RETRIEVAL) & {*exhibit_names(CAPACITY), *exhibit_names(BEYOND)}
    assert set(RETRIEVAL) < set(PaperCommand(what=("list",))._names()[1])
    with pytest.raises(InputError, match="ask for one of them at a time"):
        PaperCommand(what=("retrieval", "fig3")).run()


def test_runs_are_made_and_stored(tmp_path: Path) -> None:
    for package in ("torch", "sklearn"):
        pytest.importorskip(package, reason="this trains on digits with torch")
    scale = Scale(quick=True, steps=2)
    with Store.write(tmp_path / "s.db") as store:
        rows = measure_rows(["retrieval_digits"], store, scale, workers=threads(1))
    assert len(rows) == 20
    assert len(DIGITS.nmse(rows, scale)) == 10


def test_the_page_follows_from_its_rows() -> None:
    rows = read_rows(DOCS / "data" / "head-count.jsonl.gz")
    text = (DOCS / "results" / "head-count.md").read_text()
    assert page(report(RETRIEVAL, rows, FULL)) == text
    for name in RETRIEVAL:
        assert f"(head-count/{name}.png)" in text
        assert (DOCS / "results" / "head-count" / f"{name}.png").stat().st_size > 2_000
