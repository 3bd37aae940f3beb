"""`manyheads fit`: one shape, a key budget, the smallest, growth; tables, JSON, files and bad input."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

from manyheads import Graph, certify, gaussian, read_layer
from manyheads.bounds import Shape, bits_per_weight
from manyheads.cli import main
from manyheads.cli.render.answer import rendered
from manyheads.cli.render.layer_table import shown_trials
from manyheads.files import read_embedding, read_graph, read_provenance, write_embedding, write_graph
from manyheads.fitting import FitSearchResult, ShapeTrial
from manyheads.problem.problem import Problem

PROBLEM = ["--graph", "permutation:48", "--embedding", "gaussian:16"]
FIT = ["fit", *PROBLEM]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_one_shape_is_fitted_certified_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["-o", "layer.safetensors", "--save-graph", "graph.csv", "--save-embedding", "rows.npy"]
    assert main([*FIT, "--heads", "3", "--key-width", "4", *files, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["certificate"]["verdict"] == "holds"
    assert (told["layer"]["heads"], told["layer"]["key_width"], told["map"]) == (3, 4, "none")
    assert {"wrong", "margin", "seconds", "step"} <= set(told["trace"][0])
    layer, graph, rows = read_layer("layer.safetensors"), read_graph("graph.csv"), read_embedding("rows.npy")
    assert certify(layer, Problem(graph, rows)).holds
    assert read_provenance("layer.safetensors")["construction"] == "fit"
    again = ["certify", "layer.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy"]
    assert main(again) == 0
    capsys.readouterr()
    # warm start on a graph that has changed
    changed = graph.targets.copy()
    changed[[1, 2]] = changed[[2, 1]]
    write_graph("changed.csv", Graph(48, graph.sources, changed))
    grown = ["fit", "--graph", "changed.csv", "--embedding", "rows.npy"]
    assert main([*grown, "--warm-start", "layer.safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layer"]["key_budget"] == 12


def test_a_shape_left_open_comes_from_the_laws(capsys: pytest.CaptureFixture[str]) -> None:
    for given, budget in (([], 12), (["--heads", "2"], 12), (["--key-width", "4"], 12)):
        assert main([*FIT, *given, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["layer"]["key_budget"] == pytest.approx(budget, abs=4)


def test_a_shape_of_the_laws_that_fails_names_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    """The laws ask for 1 × 1 here. The command that is named can be run as it stands."""
    Path("graph.csv").write_text("a,b\nc,d\ne,f\ng,h\n")
    Path("names.json").write_text(json.dumps(list("abcdefgh")))
    write_embedding("rows.npy", gaussian(8, 8, seed=1))
    words = ["--graph", "graph.csv", "--embedding", "rows.npy", "--labels", "names.json", "--no-header"]
    assert main(["fit", *words]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "note: the laws predicted this shape: --smallest searches for one that can be certified" in said
    assert f"`manyheads exclude {' '.join(words)} -o FILE` writes it" in said
    assert main(["fit", *words, "--smallest", "--time-limit", "2"]) == 0


def test_a_shape_too_small_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--heads", "1", "--key-width", "2", "--restarts", "1", "--steps", "100"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("refuted: it misses")
    assert "fitted     1 attempt" in said or "fitted  1 attempt" in said


def test_one_head_that_fails_is_impossible_or_possible(capsys: pytest.CaptureFixture[str]) -> None:
    little = ["--heads", "1", "--key-width", "2", "--restarts", "1", "--steps", "100"]
    rows = ["--graph", "permutation:32", "--embedding"]
    for width, words in (
        ("8", "impossible at every width, proved"),
        ("16", "possible: a layer of width 16, certified"),
    ):
        assert main(["fit", *rows, f"gaussian:{width}", "--graph-seed", "0", *little]) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert f"one head: {words}; `manyheads exclude --graph permutation:32 --embedding gaussian:{width} --g" in said
        (command,) = re.findall(r"`manyheads (.*) (?:--proof|-o) FILE`", said)
        assert main([*shlex.split(command), "--json"]) == int(width == "16")
        capsys.readouterr()
    assert main(["fit", *rows, "gaussian:8", "--heads", "1", "--smallest", "--time-limit", "1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["one_head"]["verdict"] == "excluded"
    several = ["--heads", "2", "--key-width", "2", "--restarts", "1", "--steps", "50", "--json"]
    assert main(["fit", *rows, "gaussian:8", *several]) == 1
    assert json.loads(capsys.readouterr().out)["one_head"] is None
    assert main(["fit", *rows, "gaussian:8", "--rule", "sum"]) == 2
    assert "`manyheads exclude --rule sum` decides" in capsys.readouterr().err


def test_keys_from_a_latent_are_told_with_their_own_weights(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*FIT, "--heads", "4", "--key-width", "4", "--latent", "8"]
    assert main([*words, "-o", "latent.safetensors"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    shape = Shape(d_model=16, heads=4, key_width=4, latent=8)
    bits = bits_per_weight("permutation:48", weights=shape.parameters).value
    assert shape.parameters == 16 * 16 + 4 * 8 * 4 + 16 * 8
    told = f"{shape.parameters} weights in W_Q, W_U and W_D, {bits:.3g} bits per weight, 8 numbers to cache"
    assert f"latent 4 heads of width 4, keys from a latent of width 8: {told}" in said
    layer = read_layer("latent.safetensors")  # the absorbed form
    assert (layer.heads, layer.key_heads, layer.key_width) == (4, 1, 8)
    assert np.linalg.matrix_rank(layer.query.astype(np.float64), tol=1e-4).max() <= 4
    for wrong, says in (
        ([*words, "--key-heads", "2"], "--key-heads does not go with --latent"),
        ([*FIT, "--latent", "8", "--smallest"], "--latent fits one shape: give --heads and --key-width with it"),
        ([*words[:-1], "17"], "a latent of width 17 is wider than d_model 16"),
    ):
        assert says in refused(wrong, capsys)


@pytest.mark.parametrize(("wrong", "told"), [(0, True), (3, False)])
def test_a_trial_without_wrong_pairs_and_without_a_proof_is_explained(wrong: int, told: bool) -> None:
    trial = ShapeTrial(
        2, 5, 2, 0, "random", certified=False, wrong=wrong, normalised_margin=math.nan, steps=9, seconds=1.0
    )
    certified = replace(trial, heads=3, key_heads=3, certified=True, wrong=0)
    text = rendered(shown_trials(FitSearchResult(None, None, None, (trial, certified), 2.0), by_margin=False))
    assert ("one is too close to it for a proof" in " ".join(text.split())) is told
    assert text.count("0, not proved") == (2 if told else 0)  # in the row, and where it is explained


def test_the_smallest_and_the_best_split_show_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    search = ["--time-limit", "1.5", "--workers", "1", "-o", "small.safetensors", "--force"]
    assert main([*FIT, "--smallest", *search, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    smallest = min(tried["key_budget"] for tried in told["trials"] if tried["certified"])
    assert read_layer("small.safetensors").key_budget == told["layer"]["key_budget"] == smallest
    assert told["seconds"] < 5
    assert main([*FIT, "--key-budget", "12", *search]) == 0
    shown = capsys.readouterr().out
    assert "widest margin: D_K" in shown
    assert " 1 tries" not in shown
    assert "holds: it recognises every relation" in shown
    assert read_layer("small.safetensors").key_budget in (11, 12)


def test_softmax_is_certified_for_its_contexts(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--graph", "permutation:32", "--embedding", "gaussian:24", "--rule", "softmax"]
    assert main(["fit", *problem, "--heads", "1", "--key-width", "20", "--context-length", "8"]) == 0
    assert "every context of length 8" in capsys.readouterr().out


def test_a_dominant_direction_is_whitened_away_and_both_profiles_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = gaussian(48, 16, seed=0) + np.float32(2)
    write_embedding("rows.npy", rows)
    problem = ["--graph", "permutation:48", "--embedding", "rows.npy"]
    assert main(["fit", *problem, "--heads", "3", "--key-width", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["map"] == "whiten"
    assert told["incoherence"]["after"]["rho"] < told["incoherence"]["before"]["rho"] / 4


BAD = [
    (["--heads", "0", "--key-width", "2"], "--heads is a whole number from 1"),
    (["--heads", "2", "--key-width", "0"], "--key-width is a whole number from 1"),
    (["--key-width", "0"], "--key-width is a whole number from 1"),
    (["--workers", "100000"], "--workers is a whole number from 1 to 1,024, not 100,000"),
    (["--key-budget", "12", "--smallest"], "give one of them"),
    (["--key-budget", "12", "--heads", "3"], "--key-budget finds the split"),
    (["--smallest", "--key-width", "3"], "--smallest finds the key width"),
    (["--max-key-budget", "9"], "--max-key-budget goes with --smallest"),
    (["--smallest", "--warm-start", "x.safetensors"], "keeps the shape"),
    (["--smallest", "--restarts", "3"], "try until their time is up"),
    (["--warm-start", "x.safetensors", "--heads", "2"], "keeps the shape"),
    (["--warm-start", "x.safetensors"], "x.safetensors does not exist"),
    (["--time-limit", "0"], "--time-limit is a number above 0"),
    (["--matching-size", "4"], "fit has no option --matching-size"),
    (["--threshold", "best"], "fit has no option --threshold"),
    (["--no-certify"], "fit has no option --no-certify"),
    (["--rule", "softmax"], "give the context length"),
    (["--context-length", "8"], "every length"),
    (["--smallest", "--max-key-budget", "0"], "--max-key-budget is a whole number from 1"),
    (["--trials", "5"], "--trials does not apply: it goes with --smallest or --key-budget"),
    (["--dask", "tcp://127.0.0.1:9"], "--dask does not apply: it goes with --smallest or --key-budget"),
    (["--smallest", "--trials", "0"], "trials is a whole number from 1"),
    (["--smallest", "--workers", "2", "--dask", "tcp://127.0.0.1:9"], "the Dask cluster has its own workers"),
    (["--smallest", "--dask", "nonsense"], "no Dask scheduler answers at nonsense"),
    (["--device", "cuda"], "the native engine runs on the cpu, not on 'cuda': choose the engine torch"),
    (["--seed", "-1"], "--seed is a whole number from 0 to"),
]


@pytest.mark.parametrize(
    ("options", "sentence"), BAD, ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_bad_input_is_one_sentence(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, *options, "-o", "never.safetensors"]) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said.startswith("manyheads: ")
    assert said.count("\n") == 1
    assert sentence in said
    assert not Path("never.safetensors").exists()


def test_growth_keeps_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--heads", "3", "--key-width", "5", "-o", "layer.safetensors"]) == 0
    words = ["--warm-start", "layer.safetensors", "--rule", "softmax", "--context-length", "8"]
    capsys.readouterr()
    assert main([*FIT, *words]) == 2
    assert "keeps the rule of its layer, max" in capsys.readouterr().err


def test_a_graph_below_the_bit_budget_is_refused_with_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--graph", "random:200:9000", "--embedding", "gaussian:4"]
    assert main(["fit", *problem, "--heads", "2", "--key-width", "4"]) == 2
    assert "is below the bit budget" in capsys.readouterr().err


def test_identical_rows_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = gaussian(6, 4, seed=0)
    rows[4] = rows[1]
    write_embedding("rows.npy", rows)
    Path("graph.csv").write_text(
        '# item: "Paris"\n# item: "Rome"\n# item: "Oslo"\n# item: "a"\n# item: "b"\n# item: "c"\nRome,Oslo\n'
    )
    problem = ["--graph", "graph.csv", "--embedding", "rows.npy"]
    assert main(["fit", *problem, "--heads", "1", "--key-width", "4"]) == 2
    assert "rows 1 and 4 of the embedding (Rome and b) are identical" in capsys.readouterr().err
