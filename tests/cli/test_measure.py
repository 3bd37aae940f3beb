"""`manyheads measure`: the answer, the picture, what it says while it runs and when it is stopped, and bad input."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from rich.console import Console
from support.commands import refused

from manyheads import Run, Store, gaussian, permutation_graph, write_embedding, write_graph
from manyheads.bounds import Shape
from manyheads.capacity import Bracket, Goal, MeasureProgress, Point
from manyheads.cli import main
from manyheads.cli.render.progress import watch_line, watch_table, watching
from manyheads.sweep import LayerTrainer, Record
from manyheads.sweep.store.record import FINISHED

PROTOCOL = ["--context-length", "8", "--steps", "3000", "--seeds", "3", "--goal", "0.9", "--heads", "1,2,4"]
SMALL = ["measure", "--graph", "permutation:16", "--embedding", "gaussian:8", *PROTOCOL]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_the_answer_the_store_and_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--picture", "curve"]) == 0
    told, said = capsys.readouterr()
    assert said == ""
    assert told.startswith("D_K* = ")
    assert max(map(len, told.splitlines())) <= 80
    assert sorted(os.listdir()) == ["curve.png", "curve.svg", "manyheads.db"]
    assert imread("curve.png").std() > 0.05  # something is drawn
    # again: nothing is trained, and machines are told the same
    assert main([*SMALL, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert told.startswith(f"D_K* = {facts['key_budget']}\n")
    assert facts["complete"]
    assert facts["bits_per_weight"]["weights"] == 2 * 8 * facts["key_budget"]
    assert f"bits per weight  {facts['bits_per_weight']['value']:.3g}: 44 bits (permutations of 16 items)" in told
    assert facts["low"] <= facts["key_budget"]
    assert facts["heads_low"] <= facts["heads"] <= facts["heads_high"]
    assert 0 < facts["runs"] <= facts["grid"]
    assert {"heads", "key_width", "key_budget", "scores", "interval", "t_interval"} == set(facts["curve"][0])
    assert all(0 <= end <= 1 for point in facts["curve"] for end in point["interval"] or ())
    # with and without the picture, and by the store alone: one answer
    assert main(["results", "--capacity", "--goal", SMALL[SMALL.index("--goal") + 1], "--json"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    names = ("key_budget", "low", "high", "heads", "heads_low", "heads_high")
    assert [problem[name] for name in names] == [facts[name] for name in names]
    low, high = ("?" if facts[name] is None else facts[name] for name in ("low", "high"))
    assert f"{facts['key_budget']}, 95 % range {low} to {high}\n" in told
    # a picture is not overwritten, and nothing is trained before that is said
    assert main([*SMALL, "--seeds", "4", "--picture", "curve"]) == 2
    assert "already exists" in capsys.readouterr().err


def test_shared_keys_are_told_with_weights_and_cached_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--heads", "powers:4", "--key-heads", "h/2"]
    assert main([*words, "--picture", "curve"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {point["heads"] for point in facts["curve"]} <= {2, 4}  # one head cannot share half a key head
    assert facts["key_heads"] * 2 == facts["heads"]
    assert facts["query_budget"] == 2 * facts["key_budget"]
    assert facts["weights"] == facts["bits_per_weight"]["weights"] == 3 * 8 * facts["key_budget"]
    width = facts["key_budget"] // facts["key_heads"]
    shape = Shape(d_model=8, heads=facts["heads"], key_width=width, key_heads=facts["key_heads"])
    assert facts["freedom"] == shape.all_freedom
    cost = f"{facts['weights']:,} weights, {facts['freedom']:,} degrees of freedom; D_Q {facts['query_budget']}, D_K "
    assert f"{cost}{facts['key_budget']} cached for each token" in " ".join(told.split())
    cached = facts["bits_per_weight"]["log2_graphs"] / (16 * facts["key_budget"])
    assert facts["bits_per_cached_number"] == pytest.approx(cached)
    row = next(line.split() for line in told.splitlines() if line.split()[:1] == [str(facts["heads"])])
    assert row[:4] == [str(facts[name]) for name in ("heads", "key_heads", "weights", "key_budget")]
    filters = ["--key-budget", str(facts["key_budget"]), "--key-heads", str(facts["key_heads"])]
    assert main(["results", *filters]) == 0
    heading, *listed = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heading[2:7] == ["graph", "rule", "heads", "keys", "d_k"]
    numbers = [cells for cells in listed if len(cells) == len(heading)]
    assert numbers
    assert not any("…" in cell for cells in numbers for cell in (*cells[:2], *cells[3:-1]))  # words are cut, no number
    assert main(["results", *filters, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert {(row["key_heads"], row["key_budget"]) for row in rows} == {(facts["key_heads"], facts["key_budget"])}
    held = facts["bits_per_weight"]["log2_graphs"]
    for row in rows:
        weights = 8 * (row["heads"] + row["key_heads"]) * row["key_width"]
        assert row["bits_per_weight"] == pytest.approx(held / weights)


def test_one_head_that_never_gets_there_is_impossible_or_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--context-length", "8", "--steps", "200", "--seeds", "2", "--goal", "0.999"]
    for width, counts, says in ((5, [2, 0, 0], "impossible at every width, proved, for 2 of 2 seeds"),
                                (16, [0, 2, 0], "possible, certified, for 2 of 2 seeds, but not found")):  # fmt: skip
        problem = ["measure", "--graph", "permutation:24", "--embedding", f"gaussian:{width}", *words]
        assert main([*problem, "--heads", "1"]) == 1
        assert says in " ".join(capsys.readouterr().out.split())
        assert main([*problem, "--heads", "1", "--json"]) == 1
        assert list(json.loads(capsys.readouterr().out)["one_head"].values()) == counts
    assert main([*problem, "--heads", "2", "--max-runs", "1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["one_head"] is None


def test_files_of_the_users_own_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    write_graph("graph.csv", permutation_graph(16, seed=0))
    write_embedding("rows.npy", gaussian(16, 8, seed=1))
    words = ["measure", "--graph", "graph.csv", "--embedding", "rows.npy", *PROTOCOL, "--heads", "2", "--json"]
    assert main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["run"]["graph"].startswith("given:")
    assert (facts["run"]["items"], facts["run"]["d_model"]) == (16, 8)
    assert main(["measure", "--graph", "graph.csv", "--embedding", "gaussian:8", *PROTOCOL, "--max-runs", "2"]) == 1
    assert "the same command goes on from here" in " ".join(capsys.readouterr().out.split())


def test_what_is_undecided_is_not_called_impossible(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL[:5], "--context-length", "8", "--seeds", "3", "--heads", "2"]
    assert main([*words, "--goal", "0.01", "--steps", "200", "--max-runs", "2"]) == 1  # any score would do
    said = capsys.readouterr().out
    assert said.startswith("undecided: no key budget has been seen to work yet\n")
    assert "    2             ?" in said
    assert main([*words, "--goal", "1", "--steps", "1"]) == 1  # no score will do
    said = capsys.readouterr().out
    assert said.startswith("no key budget tried works\n")
    assert "\n    2       over 1" in said


def test_every_kind_the_rules_exact_recovery_and_the_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--max-runs", "4", "--steps", "200", "--json"]
    for words, field, value in (
        (["--graph", "regular:16:2"], "degree", 2),
        (["--graph", "random:16:20"], "graph", "random:16:20"),
        (["--embedding", "sparse-binary:8"], "embedding", "sparse-binary:8"),
        (["--learning-rate", "0.01"], "learning_rate", 0.01),
        (["--precision", "float64"], "precision", "float64"),
        (["--rule", "softmax"], "rule", "softmax"),
        (["--goal", "exact"], "stop_above", 1.0),
    ):
        assert main([*SMALL, *words, *few]) == 1
        assert json.loads(capsys.readouterr().out)["run"][field] == value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--graph", "permutation:4"], "8 distinct items cannot be drawn from 4"),
        (["--heads", "1,0,x,4"], "these are no head counts: 'x'"),
        (["--heads", "some:4"], "head counts are a list such as"),
        (["--heads", "all:2,3"], "head counts are a list such as"),
        (["--heads", "3", "--key-heads", "2"], "3 heads cannot share 2 key heads evenly"),
        (["--heads", "all:2", "--key-heads", "4"], "2 heads cannot share 4 key heads evenly"),
        (["--key-heads", "half"], "key heads are a number such as 2, or h/2"),
        (["--key-heads", "0"], "key_heads is a whole number from 1"),
        (["--seeds", "0"], "--seeds is a whole number from 1"),
        (["--goal", "most"], "--goal is a target F1"),
        (["--goal", "1.5"], "at most 1"),
        (["--rule", "sum"], "measured with the native engine, which trains max or softmax, not sum"),
        (["--goal", "exact", "--rule", "softmax"], "exact recovery is decided pair by pair"),
        (["--graph", "regular"], "'regular' is not of the form regular:ITEMS:DEGREE"),
        (["--graph", "permutaton:64"], "did you mean permutation:ITEMS?"),
        (["--items", "64"], "measure has no option --items"),
        (["--graph", "nowhere.csv"], "nowhere.csv"),
        (["--embedding", "nowhere.npy"], "nowhere.npy"),
        (["--labels", "names.txt"], "--labels does not apply"),
        (["--tensor", "rows"], "--tensor does not apply"),
        (["--steps", "0"], "--steps is a whole number from 1"),
        (["--max-runs", "0"], "--max-runs is a whole number from 1"),
        (["--time-limit", "0"], "--time-limit is a number above 0 and at most"),
        (["--workers", "0"], "--workers is a whole number from 1"),
        (["--workers", "2", "--dask", "tcp://127.0.0.1:9"], "--workers does not apply"),
        (["--picture", "nowhere/curve"], "no directory"),
        (["--store", "nowhere/s.db"], "cannot be written"),
        (["--store", "."], "not a manyheads store"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, *words]) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said.startswith("manyheads: ")
    assert says in said
    assert said.count("\n") == 1
    assert os.listdir() == []


def test_sizes_that_contradict_each_other_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "measure needs --graph and --embedding" in refused(["measure"], capsys)
    write_embedding("rows.npy", gaussian(16, 8, seed=1))
    words = ["measure", "--embedding", "rows.npy", "--graph", "permutation:17"]
    assert "the graph has 17 items but the embedding has 16 rows" in refused(words, capsys)


def test_a_second_measurement_on_the_same_store_is_told_who_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with Store.write(Path("manyheads.db")):
        assert main(SMALL) == 2
    assert f"is being written by process {os.getpid()}" in capsys.readouterr().err


def has_open(process: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # a descriptor that was closed meanwhile
        return any(link.readlink() == path.resolve() for link in Path(f"/proc/{process}/fd").iterdir())
    return False


def test_ctrl_c_says_what_is_stored_and_how_to_go_on() -> None:
    assert main(SMALL) == 0
    endless = [*SMALL, "--goal", "exact", "--steps", "100000000", "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "manyheads", *endless],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        while not has_open(child.pid, Path("manyheads.db")):
            time.sleep(0.05)
            assert child.poll() is None
        time.sleep(1)
        clock = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=10)
    assert time.monotonic() - clock < 2
    assert child.returncode == 130
    with Store.read(Path("manyheads.db")) as store:
        records = store.records()
    kept = sum(record.status in FINISHED for record in records)
    assert kept < len(records)  # the runs that were cut short are rows, but no results
    sentence = f"interrupted; {kept} results are in manyheads.db, and the same command goes on from there"
    assert said.splitlines()[-1] == f"manyheads: {sentence}"


def test_where_every_run_failed_there_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("no \x1b[31mtongs")

    monkeypatch.setattr(LayerTrainer, "train", fail)
    assert main(SMALL) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said == (
        r"manyheads: no answer: 2 of 2 runs failed (ArithmeticError: no \x1b[31mtongs); "
        "`manyheads results --store manyheads.db --status failed` lists them\n"
    )


def test_a_head_count_whose_runs_failed_makes_the_answer_an_upper_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train = LayerTrainer.train

    def fail(self: LayerTrainer, run: Run, **options: Any) -> Record:
        if run.heads == 2:
            raise ArithmeticError("two")
        return train(self, run, **options)

    monkeypatch.setattr(LayerTrainer, "train", fail)
    assert main(SMALL) == 0
    shown = capsys.readouterr().out
    assert "D_K* ≤ 12" in shown
    assert "runs failed (ArithmeticError: two): nothing is known of the points" in " ".join(shown.split())
    assert main([*SMALL, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "at most"
    assert main([*SMALL, "--heads", "2,4", "--goal", "1", "--json"]) == 2  # no budget works, and some are unknown
    assert "no answer" in capsys.readouterr().err


WATCH = MeasureProgress(
    trained=20,
    left=40,
    brackets={1: Bracket(3, None, 6), 2: Bracket(4, 6, 5), 4: Bracket(2, 3, None)},
    points=(Point(1, 3, ((0, 0.5), (1, 0.6))), Point(2, 6, ((0, 1.0), (1, 1.0))), Point(4, 3, ((0, 0.995),))),
    best=12,
)


def test_who_watches_sees_brackets_curves_and_the_time_left() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(watch_table(WATCH, Goal(), seconds=10.0))
    seen = console.export_text()
    assert "20 runs done, about 40 to go, 0:00:20 left; smallest D_K that works so far 12" in seen
    assert "3 < 6 ≤ …" in seen
    assert "4 < 5 ≤ 6" in seen
    assert "█" in seen
    assert "▁" in seen


def test_where_nobody_watches_there_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("manyheads.cli.render.progress.time.monotonic", lambda: now[0])
    with watching(Goal()) as report:
        for _ in range(6):
            now[0] += 4.0
            report(WATCH)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # every ten seconds, looked at every four
    assert all(line.startswith("measure: 20 runs done") for line in lines)


def test_standing_without_a_rate_promises_no_time() -> None:
    assert "left" not in watch_line(MeasureProgress(0, 40, {}, (), None), 0.0)
