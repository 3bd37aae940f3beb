"""`manyheads paper` on made-up rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from support.made_up import QUICK, made_up, roughly

from manyheads.capacity import StoredProblem, Threshold
from manyheads.cli import main
from manyheads.papers import CAPACITY, Rows, exhibit_names, needed, write_rows
from manyheads.sweep import LayerTrainer

NAMES = exhibit_names(CAPACITY)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows([made_up(run) for run in needed(NAMES, QUICK)], machine={"cpu": "made up"})


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


def test_where_every_run_failed_there_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no")

    store, output = str(tmp_path / "p.db"), str(tmp_path / "out")
    command = [
        "paper",
        "fig6",
        "--quick",
        "--up-to",
        "64",
        "--seeds",
        "2",
        "--steps",
        "50",
        "--store",
        store,
        "--output",
        output,
    ]
    with monkeypatch.context() as patch:
        patch.setattr(LayerTrainer, "train", fail)
        assert main(command) == 2
    assert "manyheads: no answer: " in capsys.readouterr().err
    assert not (tmp_path / "out" / "paper.md").exists()
    assert (
        main(
            ["paper", "claims", "--quick", "--up-to", "64", "--seeds", "2", "--steps", "50", "--store", store, "--json"]
        )
        == 1
    )
    claims = {claim["claim"]: claim for claim in json.loads(capsys.readouterr().out)["claims"]}
    failed = [claim for claim in claims.values() if claim["outcome"] == "failed"]
    assert failed
    assert all("runs failed (ArithmeticError: no)" in claim["why"] for claim in failed)
    assert main(command) == 0  # a run that failed is tried again


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fig7x"], "there is no 'fig7x' in the paper"),
        (["fig3", "all"], "'all' cannot be combined with fig3"),
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
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
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


@pytest.mark.parametrize("stored", [False, True])
def test_the_page_names_the_command_that_made_it(
    stored: bool, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
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


def test_the_command_makes_clocks_and_one_hot_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.papers.exhibits.costs.SPLIT_SIZES", ((16, 16, 8),))
    monkeypatch.setattr("manyheads.papers.exhibits.costs.HEADS", (1, 4))
    common = ["--quick", "--steps", "20", "--seeds", "2", "--store", str(tmp_path / "p.db"), "--output", str(tmp_path)]
    assert main(["paper", "split_cost", "no_compression", *common, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(one["done"] == one["runs"] for one in facts["exhibits"])
    assert {claim["claim"] for claim in facts["claims"]} == {"20", "21"}


def test_a_page_keeps_what_earlier_calls_showed(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", roughly)
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl.gz"), rows, needed(NAMES, QUICK))
    common = ["--quick", "--from-rows", "rows.jsonl.gz", "--json"]
    for name in ("fig4", "fig3", "table1"):
        assert main(["paper", name, *common]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert [one["name"] for one in facts["exhibits"]] == [name]
    text = Path("paper-output/paper.md").read_text()
    assert [name for name in ("fig3", "fig4", "table1") if f"](paper/{name}.png)" in text] == ["fig3", "fig4"]
    assert "| m | d_model = 16 | d_model = 32 | d_model = 64 |" in text  # a table is a table, not a picture
    assert "`manyheads paper fig3 fig4 table1 --quick --from-rows rows.jsonl.gz`" in text
    write_rows(Path("few.jsonl.gz"), rows, needed(["fig6"], QUICK))
    assert main(["paper", "fig6", "--quick", "--from-rows", "few.jsonl.gz"]) == 0
    assert "no longer shows fig3, fig4, table1" in " ".join(capsys.readouterr().out.split())


def test_a_claim_is_run_by_its_number_and_writes_no_page(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["--quick", "--up-to", "64", "--steps", "20", "--seeds", "2"]
    assert main(["paper", "--claim", "13", *common]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("13  fig6")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("paper")] == ["paper.db"]
    assert main(["paper", "claims", *common, "--json"]) == 0
    exhibits = {claim["claim"]: claim["exhibit"] for claim in json.loads(capsys.readouterr().out)["claims"]}
    assert (exhibits["6"], exhibits["18b"]) == ("fig9", "softmax_construction")
    assert main(["paper", "fig3", "--claim", "6"]) == 2


@pytest.mark.parametrize("words", [["retrieval"], ["fig7"], ["split_cost"], ["--claim", "20"]])
def test_without_torch_the_extra_is_named_and_nothing_is_written(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manyheads.papers.trial.find_spec", lambda _: None)
    assert main(["paper", *words, "--quick"]) == 2
    told = capsys.readouterr().err
    assert "manyheads[torch]" in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_published_rows_are_exported(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl.gz"), rows, needed(NAMES, QUICK))
    command = ["paper", "rows", "--quick", "--from-rows", "rows.jsonl.gz"]
    assert main([*command, "--export", "rows.csv"]) == 0
    with Path("rows.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(rows)
    assert {"items", "d_model", "heads", "key_width", "seed", "graph", "rule", "micro_f1"} <= set(table[0])
    assert main([*command, "--export", "rows.csv"]) == 2  # it exists
    assert main([*command, "--export", "rows.txt"]) == 2
    assert main(["paper", "fig3", "--export", "a.csv"]) == 2
    capsys.readouterr()


def test_own_capacities_are_drawn_into_the_figures(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, framed = dict[str, list[str]](), list[bool]()

    def keep(figure: Figure, stem: Path) -> dict[Path, bytes]:
        legend = figure.axes[0].get_legend()
        assert legend is not None
        labels[stem.name] = [text.get_text() for text in legend.get_texts()]
        framed.append(legend.get_frame_on())
        return {}

    monkeypatch.setattr("manyheads.papers.reproduction.pack_picture", keep)
    monkeypatch.chdir(tmp_path)
    write_rows(Path("rows.jsonl.gz"), rows, needed(NAMES, QUICK))
    measured = ["--graph", "permutation:16", "--embedding", "gaussian:2", "--goal", "0.99", "--context-length", "4"]
    assert main(["measure", *measured, "--steps", "20", "--seeds", "2", "--heads", "1", "--max-runs", "2"]) == 1
    command = ["paper", "fig3", "fig4", "fig10", "--quick", "--from-rows", "rows.jsonl.gz", "--add", "manyheads.db"]
    assert main(command) == 2
    assert "has no capacity to draw" in capsys.readouterr().err
    found = StoredProblem(
        {"graph": "permutation", "items": 256, "d_model": 32, "degree": 1, "rule": "max"},
        Threshold(40, 36, 44, 4, 2, 4),
        2,
        8,
    )
    monkeypatch.setattr("manyheads.papers.reproduction.stored_problems", lambda *_: [found])
    assert main(command) == 0
    assert all("manyheads.db" in names for names in labels.values())
    assert set(labels) == {"fig3", "fig4", "fig10"}
    assert not any(framed)  # the legend with the added points looks as all others do
    assert main(["paper", "fig9", *command[4:]]) == 2
    assert "fig9 does not show added capacities: fig3, fig4, fig10 do" in capsys.readouterr().err
