"""The paper's exhibits on made-up rows whose thresholds are known, and the command around them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from support.made_up import made_up, roughly
from support.runs import make_run

from manyheads import InputError
from manyheads.cli import main
from manyheads.papers import CAPACITY, Rows, Scale, exhibit, exhibit_names, needed, read_rows, verdicts, write_rows
from manyheads.papers.panel import BASE, DIAGONAL, REGULAR, SOFTMAX, THRESHOLDS, Panel
from manyheads.papers.paper_page import page
from manyheads.papers.reproduction import draw_pictures, report

QUICK = Scale(quick=True)
NAMES = exhibit_names(CAPACITY)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)], machine={"cpu": "made up"})


def test_the_papers_points_are_all_there() -> None:
    assert {(panel.items, panel.d_model) for panel in BASE} == {
        (m, d) for m in (64, 128, 256, 512) for d in (16, 32, 64)
    }
    assert [(panel.items, panel.d_model) for panel in DIAGONAL] == [(8 * d, d) for d in (16, 32, 64, 128, 256, 512)]
    assert len(THRESHOLDS) == 16
    assert [panel.degree for panel in REGULAR] == [1, 2, 4, 8, 16, 32]
    assert (64, 32) in {(panel.items, panel.d_model) for panel in SOFTMAX}


def test_seeds_and_limits_are_the_papers() -> None:
    limits = {(panel.items, panel.d_model): panel.run(1, 8, 0, Scale()).steps for panel in THRESHOLDS}
    assert limits[4096, 512] == 200_000
    assert limits[256, 16] == 30_000
    assert limits[64, 16] == 20_000
    assert {panel.run(1, 8, 0, Scale()).steps for panel in SOFTMAX} == {80_000}
    seeds = {(panel.items, panel.d_model): len(panel.seeds(Scale())) for panel in THRESHOLDS}
    assert {at: count for at, count in seeds.items() if count != 10} == {(2048, 256): 3, (4096, 512): 3}
    assert {len(panel.seeds(Scale())) for panel in SOFTMAX} == {3}
    assert {len(panel.seeds(Scale(seeds=7))) for panel in THRESHOLDS} == {7}


@pytest.mark.parametrize("panel", THRESHOLDS, ids=str)
def test_windows_enclose_the_papers_thresholds(panel: Panel) -> None:
    """Budgets lie on both sides of the paper's law, 1.19 · m·log2 m/d_model over all its points.

    On the diagonal its thresholds are lower, 0.78 of that at (512, 64), and fall with m.
    """
    budgets = [heads * width for heads, width in panel.shapes(Scale()) if heads <= panel.law() / 2]
    assert min(budgets) <= 0.65 * panel.law()
    assert max(budgets) >= (0.95 if panel.items == 8 * panel.d_model >= 1024 else 1.3) * panel.law()


def test_thresholds_are_those_of_the_made_up_rows(rows: Rows) -> None:
    for panel in filter(lambda panel: panel.is_sketched, BASE):
        found = panel.threshold(rows, QUICK)
        tested = [heads * width for heads, width in panel.shapes(QUICK) if heads > 1]
        assert found.key_budget == min(budget for budget in tested if budget >= panel.law())


def test_a_point_without_all_its_seeds_is_absent(rows: Rows) -> None:
    panel = Panel(64, 16)
    heads, width = panel.shapes(QUICK)[0]
    lost = panel.run(heads, width, 1, QUICK)
    fewer = Rows([made_up(run) for run in panel.runs(QUICK) if run.id != lost.id])
    assert (heads, width) not in {(point.heads, point.key_width) for point in panel.points(fewer, QUICK)}
    assert panel.complete(rows, QUICK)
    assert not panel.complete(fewer, QUICK)


FINE = Scale(seeds=2, up_to=512)


def outcome(claim: str, name: str, *, slope: float, single: bool = False) -> str:
    made = Rows([made_up(run, slope=slope, single=single) for run in needed([name], FINE)])
    return {verdict.claim: verdict.outcome for verdict in verdicts([name], made, FINE)}[claim]


def test_verdicts_follow_the_rows() -> None:
    """A law of the paper's slope is reproduced and another is not; so for the claims about single heads."""
    assert outcome("3", "fig3", slope=1.12) == "reproduced"
    assert outcome("3", "fig3", slope=0.6) == "differs"
    assert outcome("6", "fig9", slope=0.9) == "reproduced"
    assert outcome("6", "fig9", slope=0.9, single=True) == "differs"
    assert outcome("9", "fig12", slope=0.42) == "reproduced"
    assert outcome("9", "fig12", slope=0.9) == "differs"
    assert outcome("12a", "fig5", slope=0.9) == "differs"  # an advantage everywhere, (64, 32) included


def test_what_was_not_run_is_said_to_be_missing() -> None:
    found = verdicts(NAMES, Rows(()), QUICK)
    assert found
    assert {verdict.outcome for verdict in found} == {"not attempted"}
    claims = [verdict.claim for verdict in found]
    assert len(claims) == len(set(claims))


def test_everything_is_drawn_and_named(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    made = report(NAMES, rows, QUICK)
    assert all(one.done == one.runs for one in made.exhibits)
    pictures = draw_pictures(made, tmp_path)
    assert all(path.stat().st_size > 2_000 for path in pictures)
    assert {path.stem for path in pictures} == set(NAMES)
    text = page(made)
    assert "Quick: a sketch" in text
    assert all(verdict.says in text for verdict in made.verdicts)
    assert text.count("![") == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_first_run_alone_is_drawn_and_captioned(name: str) -> None:
    """An interrupted reproduction is looked at too."""
    module = exhibit(name)
    first = Rows([made_up(module.runs(QUICK)[0])])
    assert module.draw(first, QUICK).axes
    assert module.caption(first, QUICK)
    assert {verdict.outcome for verdict in module.claims(first, QUICK)} <= {"not attempted"}


def test_missing_runs_are_counted_on_the_page(rows: Rows) -> None:
    fewer = Rows(rows.of(Panel(64, 16).runs(QUICK)))
    text = page(report(("fig3",), fewer, QUICK))
    missing = len(exhibit("fig3").runs(QUICK)) - len(fewer)
    assert f"{missing:,} of its" in text


def test_rows_of_several_machines_say_so(rows: Rows) -> None:
    others = Rows([], machine={"cpu": "another", "cores": "2"})
    joined = rows.joined(others).joined(others)
    assert joined.machine == {"cpu": "made up / another", "cores": "2"}
    assert "cpu made up / another" in page(report(("fig3",), joined, QUICK))


def test_rows_survive_their_file(rows: Rows, tmp_path: Path) -> None:
    runs = needed(NAMES, QUICK)
    write_rows(tmp_path / "a.jsonl.gz", rows, runs)
    again = read_rows(tmp_path / "a.jsonl.gz")
    assert again.of(runs) == rows.of(runs)
    assert again.machine == rows.machine
    write_rows(tmp_path / "b.jsonl.gz", again, runs)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_rows_of_another_protocol_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"format": "manyheads paper rows 1", "protocol": 0, "machine": {}}) + "\n")
    with pytest.raises(InputError, match="protocol 0"):
        read_rows(path)


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"[1]\n", mtime=0), gzip.compress(b"{\n", mtime=0)]
)
def test_what_is_no_file_of_rows_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="does not hold rows"):
        read_rows(path)


def test_the_command_redraws_from_rows(rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl.gz"
    write_rows(file, rows, needed(NAMES, QUICK))
    arguments = ["paper", "fig3", "--quick", "--from-rows", str(file), "--output", str(tmp_path / "out"), "--json"]
    assert main(arguments) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {claim["claim"] for claim in facts["claims"]} == {"3", "4"}
    assert (tmp_path / "out" / "paper" / "fig3.png").exists()
    assert "](paper/fig3.png)" in (tmp_path / "out" / "paper.md").read_text()


def test_the_command_runs_what_is_missing_and_only_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--quick", "--up-to", "64", "--steps", "50", "--seeds", "2", "--store", str(tmp_path / "p.db")]
    common += ["--output", str(tmp_path / "out")]
    assert main(["paper", "fig6", *common]) == 0
    assert "0 of" in capsys.readouterr().err
    assert main(["paper", "fig6", *common]) == 0
    assert ", 0 are left" in capsys.readouterr().err
    assert main(["paper", "list", *common]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("fig6"))
    assert shown.split()[1] == shown.split()[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fig7x"], "there is no 'fig7x' in the paper"),
        (["fig3", "all"], "'all' stands alone"),
        (["fig3", "--seeds", "1"], "seeds must be at least 2"),
        (["claims", "--store", "nowhere.db"], "there is no store"),
        (["fig3", "--from-rows", "nowhere"], "there are no rows"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", *arguments]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


OUTPUTS = [
    (["--output", "/proc/x"], "/proc/x/paper cannot be made"),
    (["--output", "afile"], "afile is not a directory"),
    (["--output", "afile/deeper"], "afile is not a directory"),
    (["--output", "holds-a-folder"], "paper.md cannot be written: it exists and is not a regular file"),
    (["--save-rows", "/nonexistent/r.jsonl.gz"], "there is no directory /nonexistent"),
    (["--save-rows", "/proc/r.jsonl.gz"], "the directory /proc is not writable"),
    (["--save-rows", "afile"], "afile already exists"),
]


@pytest.mark.parametrize(("options", "sentence"), OUTPUTS, ids=[" ".join(options) for options, _ in OUTPUTS])
def test_what_cannot_be_written_is_refused_before_anything_runs(
    options: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manyheads.papers.reproduction.sweep", lambda *_, **__: pytest.fail("a run was begun"))
    Path("afile").write_text("mine")
    Path("holds-a-folder/paper.md").mkdir(parents=True)
    assert main(["paper", "fig6", "--quick", *options]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["afile", "holds-a-folder", "paper.md"]
    assert Path("afile").read_text() == "mine"


def test_saved_rows_are_replaced_with_force_only(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also beside the page, in a folder that the command makes itself; page and pictures are drawn again and again."""
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl.gz"), rows, needed(NAMES, QUICK))
    saved = Path("out/fig3.jsonl.gz")
    command = ["paper", "fig3", "--quick", "--from-rows", "rows.jsonl.gz", "--output", "out"]
    assert main([*command, "--save-rows", str(saved)]) == 0
    content = saved.read_bytes()
    saved.write_text("mine")
    assert main(command) == 0
    assert main([*command, "--save-rows", str(saved)]) == 2
    assert "fig3.jsonl.gz already exists" in capsys.readouterr().err
    assert saved.read_text() == "mine"
    assert main([*command, "--save-rows", str(saved), "--force"]) == 0
    assert saved.read_bytes() == content


def test_rows_are_written_whole_or_not_at_all(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.jsonl.gz"
    file.write_text("mine")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("manyheads.files.atomic_files.os.fsync", fail)
    with pytest.raises(InputError, match="No space left"):
        write_rows(file, rows, needed(("fig3",), QUICK))
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("stored", [False, True])
def test_the_page_names_the_command_that_made_it(
    stored: bool, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.save", roughly)
    monkeypatch.setattr("manyheads.papers.reproduction.sweep", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl.gz"), rows, needed(NAMES, QUICK))
    command = ["paper", "fig6", "--quick", *(["--store", "my runs.db"] if stored else ["--from-rows", "rows.jsonl.gz"])]
    assert main([*command, "--json"]) == 0
    text = Path("paper-output/paper.md").read_text()
    if stored:
        assert (
            "follow from the runs stored in my runs.db:\n`manyheads paper fig6 --quick --store 'my runs.db'`." in text
        )
    else:
        assert "follow from the rows alone:\n`manyheads paper fig6 --quick --from-rows rows.jsonl.gz`." in text
    assert "docs/data" not in text


def test_estimates_grow_with_the_work() -> None:
    from manyheads.papers.effort import Speed

    speed = Speed()
    small, large = ([make_run(64, 16, 4, 5, seed=0, steps=steps)] for steps in (1_000, 100_000))
    assert speed.seconds(large) == pytest.approx(100 * speed.seconds(small))
    assert np.isfinite(speed.seconds(large))
    assert speed.seconds(large) > 0
