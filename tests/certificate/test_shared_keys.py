"""Certificates of layers whose heads share keys, against every context, exact fractions, and copies of the keys."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from support.oracles import exact_head_scores, try_every_context

from manyheads import Graph, Layer, Problem, certify
from manyheads.certificate.projection import project
from manyheads.files import pack_proof, read_layer, write_layer

CHECKER = Path(__file__).parents[2] / "tools" / "check_proof.py"
SHAPES = [(4, 2), (3, 1), (6, 3)]
SIZES_MAY_DIFFER = {"key_heads", "normalised_margin", "bits_per_weight"}  # these depend on the number of weights


def shared_layer(rule: str, heads: int, key_heads: int, seed: int, dtype: str = "float32") -> tuple[Layer, np.ndarray]:
    """A layer, and rows for which its threshold lies in the widest gap between scores."""
    rng = np.random.default_rng(seed)
    query, key = (rng.standard_normal((number, 4, 3)).astype(dtype) for number in (heads, key_heads))
    rows = rng.standard_normal((6, 4)).astype(np.float32)
    ordered = np.sort(Layer(query, key, 0.0, rule).scores(rows).ravel())
    gap = int(np.argmax(np.diff(ordered)))
    return Layer(query, key, float(ordered[gap : gap + 2].mean()), rule), rows


def copied(layer: Layer) -> Layer:
    keys = [layer.key[head * len(layer.key) // len(layer.query)] for head in range(len(layer.query))]
    return Layer(layer.query, np.array(keys), layer.threshold, layer.rule)


def check(path: Path) -> int:
    return subprocess.run([sys.executable, "-I", CHECKER, path], capture_output=True).returncode


def graph_of(related: np.ndarray) -> Graph:
    sources, targets = np.nonzero(related)
    return Graph(len(related), sources, targets)


@pytest.mark.parametrize("rule", ["max", "sum", "logsumexp", "softmax"])
@pytest.mark.parametrize(("heads", "key_heads"), SHAPES)
def test_sharing_changes_no_verdict(rule: str, heads: int, key_heads: int) -> None:
    verdicts = set()
    for seed in range(4):
        layer, rows = shared_layer(rule, heads, key_heads, seed)
        whole = graph_of(layer.recognise(rows))
        none = graph_of(np.zeros((6, 6), dtype=bool))
        length = None if layer.rule.context_blind else 6
        for graph in (whole, none):
            problem = Problem(graph, rows)
            found, expected = (certify(one, problem, context_length=length) for one in (layer, copied(layer)))
            tried = try_every_context(layer, rows, graph, (6, 6))
            assert found.verdict == ("refuted" if tried.wrong.any() else "holds")
            assert found.key_heads == key_heads
            one, other = asdict(found), asdict(expected)
            assert {name: one[name] for name in one if name not in SIZES_MAY_DIFFER} == {
                name: other[name] for name in other if name not in SIZES_MAY_DIFFER
            }
            assert found.bits_per_weight.weights == (heads + key_heads) * 4 * 3
            verdicts.add(found.verdict)
    assert verdicts == {"holds", "refuted"}


@pytest.mark.parametrize(("heads", "key_heads"), SHAPES)
def test_the_rounding_bounds_cover_the_exact_scores(heads: int, key_heads: int) -> None:
    layer, rows = shared_layer("max", heads, key_heads, 1, "float64")
    exact, projection = exact_head_scores(layer, rows), project(layer, rows)
    errors = np.array([projection.score_errors(source) for source in range(6)])
    for head, source, target in np.ndindex(heads, 6, 6):
        computed = projection.queries[head, source] @ projection.head_keys(head)[:, target]
        assert abs(float(exact[head][source][target]) - computed) <= errors[source, head, target]


@pytest.mark.parametrize("rule", ["max", "sum", "softmax"])
def test_a_portable_proof_is_checked_by_itself(rule: str, tmp_path: Path) -> None:
    layer, rows = shared_layer(rule, 4, 2, 0)
    problem = Problem(graph_of(layer.recognise(rows)), rows)
    certificate = certify(layer, problem, context_length=6 if rule == "softmax" else None)
    assert certificate.holds
    proof = pack_proof(layer, problem, certificate)
    (tmp_path / "proof.npz").write_bytes(proof)
    assert check(tmp_path / "proof.npz") == 0
    swapped = Layer(layer.query, layer.key[::-1], layer.threshold, layer.rule)  # each head reads the wrong keys
    (tmp_path / "wrong.npz").write_bytes(pack_proof(swapped, problem, certificate))
    assert check(tmp_path / "wrong.npz") == 1
    uneven = Layer(layer.query[:3], layer.key[:1], layer.threshold, layer.rule)
    object.__setattr__(uneven, "key", layer.key)  # three heads, two key heads
    (tmp_path / "uneven.npz").write_bytes(pack_proof(uneven, problem, certificate))
    assert check(tmp_path / "uneven.npz") == 2


def test_a_file_keeps_the_shared_keys(tmp_path: Path) -> None:
    layer, rows = shared_layer("softmax", 6, 3, 0)
    write_layer(tmp_path / "layer.safetensors", layer)
    again = read_layer(tmp_path / "layer.safetensors")
    assert (again.heads, again.key_heads, again.weights) == (6, 3, 9 * 4 * 3)
    np.testing.assert_array_equal(again.key, layer.key)
    np.testing.assert_array_equal(again.scores(rows), layer.scores(rows))
