"""`manyheads plan`: its four questions, pictures, and bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.commands import refused

from manyheads import gaussian, random_graph, write_embedding, write_graph
from manyheads.bounds import (
    Shape,
    graph_bit_key_budget,
    ln_graphs,
    ln_permutations,
    unconditional,
    unconditional_key_budget,
)
from manyheads.bounds.inverse import relations_by_freedom
from manyheads.cli import main

BUDGET = ["plan", "budget", "--items", "64", "--relations", "64", "--d-model", "16"]
RELATIONS = ["plan", "relations", "--items", "64", "--d-model", "16"]
WIDTH = ["plan", "width", "--items", "64", "--relations", "64"]
RETRIEVAL = ["plan", "retrieval", "--retrieve", "4", "--context-length", "128"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_budget_relations_and_width(capsys: pytest.CaptureFixture[str]) -> None:
    facts = told([*BUDGET, "--multiple", "8", "--key-heads", "1"], capsys)
    assert facts["bit_bound"] == pytest.approx(float(graph_bit_key_budget(items=64, relations=64, d_model=16)))
    assert facts["friendly"]["key_width"] % 8 == 0
    assert facts["held"] is None
    fit = told([*RELATIONS, "--heads", "2", "--key-width", "8"], capsys)
    assert fit["likely"] == relations_by_freedom(Shape(d_model=16, heads=2, key_width=8), items=64)
    assert fit["guaranteed"] <= fit["likely"] <= fit["impossible_beyond"]
    needed = told([*WIDTH, "--key-budget", "20"], capsys)
    assert needed["impossible_below"] <= needed["likely_from"] <= 16
    assert main([*WIDTH, "--key-budget", "20"]) == 0
    assert "64 relations among 64 items in a key budget of D_K 20" in capsys.readouterr().out


def test_a_graph_and_an_embedding_say_whether_one_head_is_possible(capsys: pytest.CaptureFixture[str]) -> None:
    graph = ["plan", "budget", "--graph", "permutation:32"]
    for width, verdict, words in ((8, "excluded", "impossible at every width, proved"), (16, "held", "possible: a l")):
        facts = told([*graph, "--embedding", f"gaussian:{width}"], capsys)
        assert facts["one_head"]["verdict"] == verdict
        assert main([*graph, "--embedding", f"gaussian:{width}"]) == 0
        assert f"one head: {words}" in capsys.readouterr().out
    assert told([*graph, "--d-model", "8"], capsys)["one_head"] is None
    softmax = [*graph, "--embedding", "gaussian:8", "--rule", "softmax", "--context-length", "8"]
    assert told(softmax, capsys)["one_head"] is None


def test_a_large_problem_is_named_with_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manyheads.cli.render.exclusion_table.CHEAP_ITEMS", 16)
    assert main(["plan", "budget", "--graph", "permutation:32", "--embedding", "gaussian:8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "one head: `manyheads exclude --graph permutation:32 --embedding gaussian:8` says whether" in said


def test_what_is_impossible_without_an_assumption(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "budget", "--items", "512", "--relations", "512", "--d-model", "16"]
    facts = told(words, capsys)
    family = float(ln_graphs(items=512, relations=512))
    assert facts["unconditional_bound"] == unconditional_key_budget(family, items=512, d_model=16) == 10
    below = unconditional(items=512, relations=512, d_model=16, heads=9, key_width=1)
    assert facts["log2_share_below"] == pytest.approx(float(below))
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "D_K < 10 (any real weights, no assumption); D_K 9 holds at most 2^-443 of all such graphs" in said
    assert main(["plan", "relations", *words[2:4], *words[6:], "--heads", "4", "--key-width", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "more than 365 relations among 512 items: any real weights, no assumption" in said
    assert main(["plan", "width", *words[2:6], "--key-budget", "3"]) == 0
    assert "d_model 58: any real weights, no assumption" in capsys.readouterr().out
    assert main([*RELATIONS, "--heads", "16", "--key-width", "16"]) == 0
    assert "nothing: any real weights, no assumption" in capsys.readouterr().out
    soft = told([*words, "--rule", "softmax", "--context-length", "16"], capsys)
    assert (soft["unconditional_bound"], soft["log2_share_below"]) == (None, None)


def test_a_plan_in_bits_per_weight(capsys: pytest.CaptureFixture[str]) -> None:
    facts = told(BUDGET, capsys)
    bits = facts["bits_per_weight"]
    assert bits["weights"] == facts["cost"]["parameters"]
    assert bits["family"] == "permutations of 64 items"
    assert bits["value"] == pytest.approx(float(ln_permutations(64)) / math.log(2) / bits["weights"])
    other = told([*BUDGET[:4], "--relations", "65", *BUDGET[6:]], capsys)
    assert other["bits_per_weight"]["family"] == "graphs of 64 items and 65 relations"
    fits = told([*RELATIONS, "--heads", "4", "--key-width", "8"], capsys)
    assert fits["bits_per_weight"]["weights"] == 2 * fits["shape"]["d_model"] * 32
    assert fits["bits_per_weight"]["family"] == f"graphs of {fits['items']} items and {fits['likely']} relations"
    width = ["plan", "width", "--items", "64", "--relations", "64", "--key-budget"]
    needed = told([*width, "20"], capsys)
    assert needed["bits_per_weight"]["weights"] == 2 * 20 * needed["likely_from"]
    assert needed["bits_per_weight"]["family"] == "permutations of 64 items"


def test_a_plan_with_shared_keys_has_its_own_cost_and_bits(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*BUDGET, "--heads", "4", "--key-heads", "2"]
    facts = told(words, capsys)
    shape, bits = Shape(**facts["grouped"]), facts["bits_per_weight"]["log2_graphs"]
    assert (shape.heads, shape.key_heads) == (4, 2)
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        f"4 heads of width {shape.key_width} that share 2 key heads, D_Q {shape.query_budget}, D_K {shape.key_budget};",
        "measured layers needed 0.76 to 1.06 times these weights",
        f"{shape.parameters} weights, {shape.all_freedom} degrees of freedom, {shape.key_budget} numbers to cache",
        f"{bits / (6 * shape.key_width * 16):.3g} bits per weight, {bits / (64 * 2 * shape.key_width):.3g} bits per c",
    ):
        assert part in shown
    # without --heads, the plan takes the next number of heads that the key heads divide
    assert told([*BUDGET, "--key-heads", "3"], capsys)["grouped"]["heads"] % 3 == 0


def test_words_of_a_kind_say_the_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "budget", "--graph", "regular:64:3", "--embedding", "gaussian:24"]
    facts = told(words, capsys)
    assert (facts["items"], facts["relations"], facts["d_model"]) == (64, 192, 24)
    facts = told(
        ["plan", "relations", "--items", "64", "--embedding", "gaussian:24", *["--heads", "2", "--key-width", "8"]],
        capsys,
    )
    assert facts["shape"]["d_model"] == 24
    facts = told(["plan", "width", "--graph", "star-out:64", "--key-budget", "20"], capsys)
    assert facts["relations"] == 63


def test_softmax_promises_nothing_of_what_is_proved_for_max(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*RELATIONS, "--heads", "4", "--key-width", "64", "--rule", "softmax"]
    assert told(words, capsys)["guaranteed"] is None
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "no proof with a stated constant" in out
    assert "softmax takes more" in " ".join(out.split())
    assert main([*BUDGET, "--rule", "softmax", "--context-length", "16"]) == 0
    assert "margin" not in capsys.readouterr().out


def test_heads_that_share_keys_promise_no_more_than_there_are_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    for width, promised in (("1", 2), ("3", 6), ("4", 8), ("9", 8)):
        facts = told([*RELATIONS, "--heads", "8", "--key-heads", "2", "--key-width", width], capsys)
        assert facts["guaranteed"] == promised


def test_the_width_of_given_heads(capsys: pytest.CaptureFixture[str]) -> None:
    facts = told([*BUDGET, "--heads", "8"], capsys)
    assert facts["recommended"] == {"heads": 8, "key_width": 4}
    assert facts["alternatives"][0]["price"] < 0
    assert main([*BUDGET, "--heads", "8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "recommended 8 heads of width 4, D_K 32: the width that training needs in 8 heads" in said
    assert "less" in said


def test_the_papers_law_names_the_budget_that_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """Heads that share keys have two budgets; the law counts the weights of both."""
    for words, side in (([], "D_K·d_model"), (["--key-heads", "2"], "half the weights")):
        assert main([*RELATIONS, "--heads", "8", "--key-width", "4", *words]) == 0
        assert f"{side}/(0.46·log2 m)" in capsys.readouterr().out


def test_the_relations_of_keys_from_a_latent(capsys: pytest.CaptureFixture[str]) -> None:
    facts = told([*RELATIONS, "--heads", "8", "--key-width", "4", "--latent", "8"], capsys)
    assert facts["shape"]["latent"] == 8
    assert facts["cost"]["key_budget"] == 8
    assert facts["cost"]["weights"] == 8 * 4 * 16 + 16 * 8 + 8 * 8 * 4
    assert facts["guaranteed"] == 8
    loss = facts["cost"]["loss"]
    assert loss["low"] <= loss["likely"] <= loss["high"]
    assert main([*RELATIONS, "--heads", "8", "--key-width", "4", "--latent", "8", "--key-heads", "2"]) == 2
    assert "key heads do not go with a latent" in capsys.readouterr().err


def test_a_plan_reads_graph_and_embedding_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    write_graph("graph.csv", random_graph(40, 90, seed=0))
    write_embedding("rows.npy", gaussian(40, 24, seed=0))
    words = ["plan", "budget", "--graph", "graph.csv", "--embedding", "rows.npy"]
    facts = told(words, capsys)
    assert (facts["items"], facts["relations"], facts["d_model"]) == (40, 90, 24)
    assert facts["promise"]["worst"]["rho"] > 0
    assert main([*words, "--picture", "plan"]) == 0
    out = capsys.readouterr().out
    assert "constructions promise" in out
    files = [f"plan-{what}.{suffix}" for what in ("heads", "map") for suffix in ("png", "svg")]
    assert all(Path(file).stat().st_size > 1000 for file in files)
    assert [line.removeprefix("wrote ") for line in out.splitlines()[-4:]] == files
    assert "plan-heads.png already exists" in refused([*BUDGET, "--picture", "plan"], capsys)


def test_measure_says_whether_the_advice_held(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["plan", "budget", "--items", "32", "--measure"]
    assert main([*words, "--relations", "32", "--d-model", "24", "--seeds", "2"]) == 0
    assert "the advice held" in capsys.readouterr().out
    # advice far too thrifty must be seen to fail
    monkeypatch.setattr("manyheads.planning.prediction.RESERVES", [-12.0])
    assert main([*words, "--relations", "96", "--d-model", "12", "--seeds", "1"]) == 1
    assert "the advice did not hold" in capsys.readouterr().out


def test_retrieval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RETRIEVAL) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "4 heads of width 2: M > C/ε^γ, whatever the length" in shown
    assert "1 head of width 2 M = Ω(ε^−6), the exponent growing with T; 4 layers may be enough" in shown
    assert "1 head of width T·d = 128·d: M > C/ε^(1+γ)" in shown
    facts = told([*RETRIEVAL, "--key-width", "8", "--input-width", "4"], capsys)
    assert [round(one["exponent"], 3) for one in facts["fewer"]] == [1.8, 0.421, 0.0]
    assert facts["memorising_width"] == 512


SENTENCES = [
    ("budget --items 4 --relations 13 --d-model 8", "13 relations do not fit 4 items, which have 12 ordered"),
    ("budget --items 64 --relations 64 --d-model 0", "--d-model is a whole number from 1"),
    ("budget --items 64 --relations 0 --d-model 8", "0 relations do not fit 64 items"),
    ("budget --items 1 --relations 1 --d-model 8", "relations are between at least 2 items, not 1"),
    ("budget --relations 64 --d-model 8", "the number of items is missing: give --items, a graph or an embedding"),
    ("budget --items 64 --d-model 8", "plan budget needs --relations"),
    ("budget --items 64 --relations 64", "plan budget needs --d-model"),
    ("budget --items 64 --graph permutation:32 --d-model 8", "items is given as 32 and as 64"),
    ("budget --embedding gaussian:8 --relations 8", "gaussian:8 needs a number of items: give --graph or --items"),
    ("budget --graph permuttion:8 --d-model 8", "did you mean permutation:ITEMS?"),
    ("budget --items 9999999999 --relations 64 --d-model 8", "--items is a whole number from 1 to 1,073,741,824"),
    ("budget --items 512 --relations 200000 --d-model 2", "d_model 2 is too narrow"),
    ("budget 64 --rule softmax", "give the context length"),
    ("budget 64 --rule softmax --context-length 65", "a context has from 2 to 64 of the items, not 65"),
    ("budget 64 --multiple 0", "--multiple is a whole number from 1"),
    ("budget 64 --bits 0", "--bits is a number from 0.01 to 1,024"),
    ("budget 64 --bits 1e-300", "--bits is a number from 0.01 to 1,024"),
    ("budget 64 --bits nan", "--bits is a number from 0.01 to 1,024"),
    ("budget 64 --seeds 0", "--seeds is a whole number from 1"),
    ("budget 64 --tensor x", "give --embedding"),
    ("budget 64 --heads 8 --key-heads 3", "8 heads cannot share 3 key heads evenly: the number of key heads divides"),
    ("budget 64 --heads 0", "--heads is a whole number from 1"),
    ("budget 64 --heads 1", "1 head is too few for these relations in d_model 16: give 2 heads or more"),
    ("budget 64 --key-budget 4", "plan budget has no option --key-budget"),
    ("budget 64 --picture /proc/h", "/proc/h-heads.png cannot be written: the directory /proc is not writable"),
    ("relations --items 64 --d-model 8", "plan relations needs --heads and --key-width"),
    ("relations --items 64 --heads 4 --key-width 4", "plan relations needs --d-model"),
    ("relations --items 64 --d-model 8 --heads 0 --key-width 4", "--heads is a whole number from 1"),
    ("relations --items 64 --d-model 8 --heads 4 --key-width 8 --multiple 8", "has no option --multiple"),
    ("relations --items 64 --d-model 8 --heads 4 --key-width 8 --picture m", "has no option --picture"),
    ("relations --items 64 --d-model 8 --heads 4 --key-width 8 --context-length 8", "has no option --context-length"),
    ("relations --items 64 --d-model 8 --heads 4 --key-width 8 --measure", "has no option --measure"),
    ("width --items 64 --relations 64", "plan width needs --key-budget"),
    ("width --items 64 --key-budget 8", "plan width needs --relations"),
    ("width --items 64 --relations 64 --key-budget 0", "--key-budget is a whole number from 1"),
    ("width --items 64 --relations 9999 --key-budget 4", "9999 relations do not fit 64 items"),
    ("width --items 64 --relations 64 --key-budget 1000000000", "--key-budget is a whole number from 1 to 268,435,456"),
    ("width --items 64 --relations 64 --key-budget 20 --picture h", "plan width has no option --picture"),
    ("width --items 64 --relations 64 --key-budget 20 --key-heads 2", "plan width has no option --key-heads"),
    ("width --items 64 --relations 64 --key-budget 20 --d-model 8", "plan width has no option --d-model"),
    ("retrieval --retrieve 0 --context-length 8", "--retrieve is a whole number from 1"),
    ("retrieval --retrieve 2 --context-length 0", "--context-length is a whole number from 1"),
    ("retrieval --retrieve 2 --context-length 8 --key-width 0", "--key-width is a whole number from 1"),
    ("retrieval --retrieve 2 --context-length 8 --input-width -1", "--input-width is a whole number from 1"),
    ("retrieval --retrieve 2", "plan retrieval needs --context-length"),
    ("retrieval --context-length 8", "plan retrieval needs --retrieve"),
    ("retrieval --retrieve 2 --context-length 8 --items 64", "plan retrieval has no option --items"),
    ("retrieval --retrieve 2 --context-length 8 --measure", "plan retrieval has no option --measure"),
]


@pytest.mark.parametrize(("words", "says"), SENTENCES, ids=[words for words, _ in SENTENCES])
def test_bad_input_is_one_sentence(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    full = words.replace("budget 64 ", "budget --items 64 --relations 64 --d-model 16 ")
    assert says in refused(["plan", *full.split()], capsys)
