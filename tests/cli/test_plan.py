"""`manyheads plan`: the three questions, the files, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads import gaussian, random_graph
from manyheads.bounds import Shape, graph_bit_key_budget
from manyheads.bounds.inverse import relations_by_freedom
from manyheads.cli import main
from manyheads.files import write_embedding, write_graph

FIT = ["--items", "64", "--d-model", "16", "--heads", "4", "--key-width", "8"]  # how many relations?
WIDTH = ["--items", "64", "--relations", "64", "--key-budget", "20"]  # what d_model?
PLAN = ["plan", "--items", "64", "--relations", "64", "--d-model", "16"]


def test_the_three_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--multiple", "8", "--key-heads", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bit_bound"] == pytest.approx(float(graph_bit_key_budget(items=64, relations=64, d_model=16)))
    assert facts["friendly"]["key_width"] % 8 == 0
    assert facts["held"] is None
    assert main(["plan", "--items", "64", "--d-model", "16", "--heads", "2", "--key-width", "8", "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)["relations"]
    assert fit["likely"] == relations_by_freedom(Shape(d_model=16, heads=2, key_width=8), items=64)
    assert fit["guaranteed"] <= fit["likely"] <= fit["impossible beyond"]
    assert main(["plan", "--items", "64", "--relations", "64", "--key-budget", "20", "--json"]) == 0
    needed = json.loads(capsys.readouterr().out)["d_model"]
    assert needed["impossible below"] <= needed["likely from"] <= 16


def test_softmax_promises_nothing_of_what_is_proved_for_max(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "64", "--d-model", "16", "--heads", "4", "--key-width", "64", "--rule", "softmax"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"]["guaranteed"] is None
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "no proof with a stated constant" in out
    assert "softmax takes more" in " ".join(out.split())
    assert main([*PLAN, "--rule", "softmax", "--context-length", "16"]) == 0
    assert "margin" not in capsys.readouterr().out


def test_heads_that_share_keys_promise_no_more_than_there_are_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "64", "--d-model", "16", "--heads", "8", "--key-heads", "2", "--json", "--key-width"]
    for width, promised in (("1", 2), ("3", 6), ("4", 8), ("9", 8)):
        assert main([*words, width]) == 0
        assert json.loads(capsys.readouterr().out)["relations"]["guaranteed"] == promised


def test_a_plan_reads_graph_and_embedding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph("graph.csv", random_graph(40, 90, seed=0))
    write_embedding("rows.npy", gaussian(40, 24, seed=0))
    assert main(["plan", "--graph", "graph.csv", "--embedding", "rows.npy", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["items"], facts["relations"], facts["d_model"]) == (40, 90, 24)
    assert facts["promise"]["worst"]["rho"] > 0
    assert (
        main(["plan", "--graph", "graph.csv", "--embedding", "rows.npy", "--save-heads", "h", "--save-map", "m"]) == 0
    )
    out = capsys.readouterr().out
    assert "constructions promise" in out
    assert all(Path(f"{stem}.{suffix}").stat().st_size > 1000 for stem in "hm" for suffix in ("png", "svg"))
    assert main([*PLAN, "--save-heads", "h.png"]) == 2
    assert "h.png already exists" in capsys.readouterr().err


def test_measure_says_whether_the_advice_held(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plan", "--items", "32", "--relations", "32", "--d-model", "24", "--measure", "--seeds", "2"]) == 0
    assert "the advice held" in capsys.readouterr().out
    # advice far too thrifty must be seen to fail
    monkeypatch.setattr("manyheads.planning.prediction.SAFE", (-12.0, -12.0))
    assert main(["plan", "--items", "32", "--relations", "96", "--d-model", "12", "--measure", "--seeds", "1"]) == 1
    assert "the advice did not hold" in capsys.readouterr().out


SENTENCES = [
    (["--items", "4", "--relations", "13", "--d-model", "8"], "13 relations do not fit 4 items, which have 12 ordered"),
    (["--items", "64", "--relations", "64", "--d-model", "0"], "d_model must be at least 1, not 0"),
    (["--items", "64", "--relations", "0", "--d-model", "8"], "0 relations do not fit 64 items"),
    (["--items", "1", "--relations", "1", "--d-model", "8"], "relations are between at least 2 items, not 1"),
    (["--relations", "64", "--d-model", "8"], "how many items are there?"),
    (["--items", "64"], "a plan needs --relations and --d-model"),
    (["--items", "64", "--d-model", "8"], "give --heads and --key-width"),
    (["--items", "64", "--d-model", "8", "--heads", "0", "--key-width", "4"], "heads must be at least 1, not 0"),
    (["--items", "64", "--relations", "64"], "give --key-budget"),
    (["--items", "64", "--relations", "64", "--key-budget", "0"], "--key-budget is at least 1, not 0"),
    (["--items", "64", "--relations", "9999", "--key-budget", "4"], "9999 relations do not fit 64 items"),
    ([*PLAN[1:], "--heads", "4"], "--heads and --key-width ask how many relations fit"),
    ([*PLAN[1:], "--key-budget", "4"], "--key-budget asks what d_model is needed"),
    ([*PLAN[1:], "--rule", "softmax"], "give the context length"),
    ([*PLAN[1:], "--rule", "softmax", "--context-length", "65"], "a context has from 2 to 64 of the items, not 65"),
    ([*PLAN[1:], "--multiple", "0"], "multiple must be at least 1, not 0"),
    ([*PLAN[1:], "--bits", "0"], "--bits is from 0.01 to 1024, not 0"),
    ([*PLAN[1:], "--bits", "1e-300"], "--bits is from 0.01 to 1024, not 1e-300"),
    ([*PLAN[1:], "--bits", "nan"], "--bits is from 0.01 to 1024, not nan"),
    ([*FIT, "--multiple", "8"], "--multiple goes with a plan"),
    ([*FIT, "--save-map", "m"], "--save-map goes with a plan"),
    ([*FIT, "--context-length", "8"], "--context-length goes with a plan"),
    ([*WIDTH, "--save-heads", "h"], "--save-heads goes with a plan"),
    ([*WIDTH, "--key-heads", "2"], "--key-heads goes with a plan"),
    (["--items", "64", "--relations", "64", "--key-budget", "1000000000"], "--key-budget is at most 100,000,000"),
    (["--items", "9999999999", "--relations", "64", "--d-model", "8"], "counted for up to 2,147,483,647 items"),
    ([*PLAN[1:], "--seeds", "0"], "--seeds is at least 1, not 0"),
    ([*PLAN[1:], "--tensor", "x"], "give --embedding"),
    (["--items", "512", "--relations", "200000", "--d-model", "2"], "d_model 2 is too narrow"),
]


@pytest.mark.parametrize(("words", "says"), SENTENCES, ids=[says for _, says in SENTENCES])
def test_bad_input_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
