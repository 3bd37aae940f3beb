"""`manyheads exclude`: its three answers, its files, `certify --exclusion`, and bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

from manyheads import Graph, gaussian, permutation_graph, read_exclusion, read_layer, write_graph
from manyheads.cli import main
from manyheads.files import read_provenance
from manyheads.files.safetensors_files import pack_tensors

IMPOSSIBLE = ["--graph", "permutation:32", "--embedding", "gaussian:8"]
POSSIBLE = ["--graph", "permutation:32", "--embedding", "gaussian:16"]
PROOF = ["certify", "--exclusion", "proof.safetensors"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_an_excluded_graph_has_a_proof_that_certify_checks_again(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--proof", "proof.safetensors", "-o", "layer.safetensors"]
    assert main(["exclude", *IMPOSSIBLE, *files, "--time-limit", "60"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("one head: impossible at every width, proved\n")
    assert "two heads under max can hold more" in told
    assert "layer.safetensors is not written: there is no layer" in told
    assert os.listdir() == ["proof.safetensors"]
    facts = read_exclusion("proof.safetensors").provenance
    assert (facts["graph_seed"], facts["embedding_seed"], facts["time_limit"]) == (0, 1, "60.0")
    assert main([*PROOF, *IMPOSSIBLE]) == 0
    assert capsys.readouterr().out.startswith("proved: one head is impossible at every width")
    for other in (["--graph-seed", "3"], ["--embedding-seed", "3"]):
        assert main([*PROOF, *IMPOSSIBLE, *other, "--json"]) == 1
        check = json.loads(capsys.readouterr().out)
        assert not check["proved"]
        assert "was made for another" in check["reason"]


@pytest.mark.parametrize("factor", [1.5, -1.0])
def test_certify_refuses_a_disturbed_proof(factor: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exclude", *IMPOSSIBLE, "--proof", "proof.safetensors"]) == 0
    file = read_exclusion("proof.safetensors")
    matrix = file.matrix.copy()
    matrix[3, 5] *= factor
    metadata = {"format": "manyheads exclusion", "version": "1", "graph": file.graph, "embedding": file.embedding}
    Path("proof.safetensors").write_bytes(pack_tensors({"matrix": matrix}, metadata))
    capsys.readouterr()
    assert main([*PROOF, *IMPOSSIBLE]) == 1
    assert capsys.readouterr().out.startswith("refused: this proves no exclusion")


def test_a_graph_that_one_head_holds_has_a_layer_that_certify_proves(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--proof", "proof.safetensors", "-o", "layer.safetensors"]
    assert main(["exclude", *POSSIBLE, *files]) == 1
    told = capsys.readouterr().out
    assert told.startswith("one head: possible: a layer of width 16, certified\n")
    assert "proof.safetensors is not written: there is no proof" in told
    assert os.listdir() == ["layer.safetensors"]
    assert read_provenance("layer.safetensors")["construction"] == "exclude"
    assert main(["certify", "layer.safetensors", *POSSIBLE]) == 0
    capsys.readouterr()
    assert main(["exclude", *POSSIBLE, "--rule", "sum", "--heads", "5", "-o", "sum.safetensors"]) == 1
    assert capsys.readouterr().out.startswith("any number of heads under sum: possible")
    assert str(read_layer("sum.safetensors").rule) == "sum"
    assert main(["certify", "sum.safetensors", *POSSIBLE]) == 0


def test_limits_leave_it_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["exclude", "--graph", "permutation:128", "--embedding", "gaussian:27", "--time-limit", "1e-9"]
    assert main(words) == 1
    assert capsys.readouterr().out.startswith("one head: undecided at these limits\n")
    assert main([*words, "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["verdict"], facts["key_width"], facts["items"]) == ("undecided", None, 128)


def test_unusual_problems_have_right_answers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = gaussian(24, 8, seed=0).astype(np.float64)
    twins = rows.copy()
    twins[5] = twins[9]
    ring, none = permutation_graph(24, seed=0), np.array([], dtype=np.int64)
    every = np.divmod(np.arange(24 * 24), 24)
    cases = {
        "empty": (Graph(24, none, none), rows, "held"),
        "complete": (Graph(24, *every), rows, "held"),
        "loops": (Graph(24, np.arange(24), np.arange(24)), rows, "held"),
        "twins": (ring, twins, "excluded"),
        "twins that are alike": (Graph(24, none, none), twins, "held"),
        "low rank": (ring, np.hstack([rows[:, :4], rows[:, :4]]), "excluded"),
        "more columns than items": (ring, gaussian(24, 40, seed=0), "held"),
    }
    for name, (graph, given, verdict) in cases.items():
        write_graph("graph.csv", graph, force=True)
        np.save("rows.npy", given)
        code = main(["exclude", "--graph", "graph.csv", "--embedding", "rows.npy", "--json"])
        told = json.loads(capsys.readouterr().out)
        assert (told["verdict"], code) == (verdict, int(verdict != "excluded")), name


def test_nearly_dependent_columns_are_undecided_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    rows = gaussian(40, 4, seed=0) @ gaussian(4, 12, seed=1)  # rank 4 but for rounding to float32
    np.save("rows.npy", rows.astype(np.float32))
    assert main(["exclude", "--graph", "permutation:40", "--embedding", "rows.npy", "--time-limit", "2"]) == 1
    assert "too nearly dependent" in " ".join(capsys.readouterr().out.split())


OPTION_ERRORS = [
    (["--heads", "2"], "2 heads under the rule max cannot be excluded: the proof is about one form"),
    (["--heads", "2", "--rule", "logsumexp"], "2 heads under the rule logsumexp cannot be excluded"),
    (["--heads", "0"], "--heads is a whole number from 1 to"),
    (["--rule", "softmax"], "--rule softmax cannot be excluded: its scores depend on the context"),
    (["--rule", "sun"], "unknown rule 'sun' (did you mean sum?)"),
    (["--time-limit", "0"], "--time-limit is a number above 0"),
    (["--workers", "0"], "--workers is a whole number from 1 to 1,024, not 0"),
    (["--workers", "2000"], "--workers is a whole number from 1 to 1,024, not 2,000"),
    (["--proof", "proof.npy"], "--proof must end in .safetensors"),
    (["-o", "layer.npy"], "--output must end in .safetensors"),
    (["-o", "a.safetensors", "--proof", "a.safetensors"], "two of the files to write have the same name"),
    (["--proof", "there.safetensors"], "there.safetensors already exists"),
    (["--proof", "no/p.safetensors"], "there is no directory no"),
]


@pytest.mark.parametrize(("words", "says"), OPTION_ERRORS, ids=[" ".join(words) for words, _ in OPTION_ERRORS])
def test_bad_options_are_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there.safetensors").write_text("")
    assert says in refused(["exclude", *IMPOSSIBLE, *words], capsys)


def test_certify_takes_a_layer_or_a_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exclude", *IMPOSSIBLE, "--proof", "proof.safetensors"]) == 0
    capsys.readouterr()
    assert "certify needs LAYER, or --exclusion" in refused(["certify", *IMPOSSIBLE], capsys)
    assert "LAYER or --exclusion, not both" in refused(["certify", "x.safetensors", *PROOF[1:], *IMPOSSIBLE], capsys)
    said = refused([*PROOF, *IMPOSSIBLE, "--context-length", "4"], capsys)
    assert "--context-length does not apply: an exclusion is about every context" in said
    assert "does not exist" in refused(["certify", "--exclusion", "no.safetensors", *IMPOSSIBLE], capsys)
    content = bytearray(Path("proof.safetensors").read_bytes())
    content[-1] ^= 1
    Path("proof.safetensors").write_bytes(content)
    assert "is damaged: its content does not match its checksum" in refused([*PROOF, *IMPOSSIBLE], capsys)
