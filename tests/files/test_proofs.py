"""Portable proofs: written by `certify --proof`, checked by a program that has numpy alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from manyheads import Graph, InputError, Layer, certify, gaussian, permutation_graph
from manyheads.cli import main
from manyheads.files import pack_proof, read_layer, write_embedding, write_graph, write_layer
from manyheads.fitting import FitOptions, fit
from manyheads.layer.rules import rule_named
from manyheads.problem.problem import Problem

CHECKER = Path(__file__).parents[2] / "tools" / "check_proof.py"


def check(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-I", CHECKER, *words], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_checker_is_short_and_imports_numpy_alone() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 150
    names = [
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(names) == ["numpy", "sys"]


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.chdir(tmp_path)
    problem = Problem(permutation_graph(24, seed=0), gaussian(24, 24, seed=1))
    write_graph("graph.csv", problem.graph)
    write_embedding("rows.npy", problem.rows)
    return problem


WORDS = ["certify", "layer.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy", "--proof", "proof.npz"]


@pytest.mark.parametrize("rule", ["max", "softmax"])
def test_a_proof_is_written_and_verified(problem: Problem, rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    length = None if rule == "max" else (6, 8)
    options = FitOptions(seed=0, rule=rule_named(rule), context_length=length)
    fitted = fit(problem, heads=2, key_width=20, options=options)
    assert fitted.certificate.holds
    write_layer("layer.safetensors", fitted.layer)
    words = WORDS if length is None else [*WORDS, "--context-length", "6:8"]
    assert main(words) == 0
    assert "wrote proof.npz" in capsys.readouterr().out
    code, text = check("proof.npz", "rows.npy", "graph.csv")
    assert (code, text.split(":")[0]) == (0, "verified"), text
    assert main(words) == 2  # the file exists
    assert main([*words, "--force"]) == 0
    with np.load("proof.npz", allow_pickle=False) as file:
        parts = dict(file)
    assert parts["claims"].tolist()[:2] == ["float64", "float32"]

    def checked(**changes: object) -> int:
        np.savez("changed.npz", **(parts | {name: np.asarray(value) for name, value in changes.items()}))
        return check("changed.npz")[0]

    assert checked() == 0
    assert checked(threshold=parts["threshold"] + 100) == 1
    assert checked(targets=parts["targets"][::-1]) == 1
    assert checked(query=-parts["query"]) == 1
    assert checked(key=parts["key"] * np.nan) == 2
    assert checked(sources=parts["sources"] + 1000) == 2
    assert checked(sources=parts["sources"] - 1) == 2
    assert checked(rule="other") == 2
    assert checked(format="manyheads proof 2") == 2
    assert checked(embedding=parts["embedding"][:, :3]) == 2
    if length:
        assert checked(context_lengths=[2, 100]) == 2
        assert checked(context_lengths=[2, 24]) == 1
    write_graph("other.csv", permutation_graph(24, seed=5))
    np.save("other.npy", gaussian(24, 24, seed=5))
    assert check("proof.npz", "other.npy") == (
        2,
        "nothing to check: the proof is about other rows than those of the file\n",
    )
    assert check("proof.npz", "rows.npy", "other.csv")[0] == 2
    assert check("layer.safetensors")[0] == check("absent.npz")[0] == check()[0] == 2


def test_no_proof_is_written_of_what_does_not_hold(problem: Problem) -> None:
    write_layer("layer.safetensors", Layer(np.ones((1, 24, 1)), np.ones((1, 24, 1)), 0.0))
    assert main(WORDS) == 1
    assert not Path("proof.npz").exists()
    layer = read_layer("layer.safetensors")
    with pytest.raises(InputError, match="a proof needs a certificate that holds: this one is refuted"):
        pack_proof(layer, problem, certify(layer, problem))
    assert main([*WORDS[:-1], "proof.txt"]) == 2


def close_layer() -> tuple[Layer, Problem]:
    """A layer that holds with a margin of 1e-7, in weights that float32 has exactly."""
    eye = np.eye(4, dtype=np.float32)[None]
    return Layer(eye, eye, 1 - 1e-7), Problem(Graph(4, np.arange(4), np.arange(4)), np.eye(4, dtype=np.float32))


def test_an_export_warns_where_the_certificate_is_not_proved_in_its_number_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    layer, problem = close_layer()
    certificate = certify(layer, problem)
    assert certificate.record() == {"proved": "float64"}
    write_layer("close.safetensors", layer, provenance=certificate.record())
    write_layer("unknown.safetensors", layer)
    words = ["export", "close.safetensors", "out", "--to", "torch", "--force"]
    assert main(words) == 0
    assert "note: no certificate proves this layer for the scores that PyTorch computes in float32" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main([*words, "--precision", "float64"]) == 0
    assert "note" not in capsys.readouterr().out
    assert read_layer("out/layer.safetensors").query.dtype == np.float64
    assert main(["export", "unknown.safetensors", "out", "--to", "torch", "--force"]) == 0
    assert "note" not in capsys.readouterr().out
