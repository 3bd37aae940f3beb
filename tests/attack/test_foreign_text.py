"""Foreign text in layer files, proofs, notebooks and the page is shown, not obeyed; wrong records are refused."""

from __future__ import annotations

import io
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from attack.test_terminal import ALL, ITEMS, NAME, STRINGS, UNSAFE, show
from support.commands import refused

import manyheads as mh
from manyheads.certificate import described
from manyheads.cli import main
from manyheads.files.safetensors_files import CHECKSUM, pack_tensors, read_tensors
from manyheads.tables import Shown

RELATIONS = (np.arange(ITEMS), np.roll(np.arange(ITEMS), 1))
ROWS = mh.gaussian(ITEMS, 4, seed=0)


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "2000")


@pytest.fixture
def layer() -> mh.Layer:
    """A layer in a file with every hostile label, a certificate and a hostile provenance; a graph and its rows."""
    problem = mh.Problem(mh.Graph(ITEMS, *RELATIONS).with_labels(STRINGS), ROWS)
    weights = np.zeros((2, 4, 2), np.float32)
    layer = mh.Layer(weights, weights[:1], threshold=-1.0)
    layer = described(layer, problem, mh.certify(layer, problem), {ALL: ALL})
    mh.write_layer("layer.safetensors", layer)
    mh.write_graph("graph.csv", problem.graph)
    np.save("rows.npy", ROWS)
    return layer


def forge(**changes: str) -> None:
    """Change texts of the layer's file, and give it a correct checksum."""
    file = read_tensors("layer.safetensors")
    arrays = {name: file.floats(name) for name in ("query", "key")}
    metadata = {name: text for name, text in file.metadata.items() if name != CHECKSUM} | changes
    Path("forged.safetensors").write_bytes(pack_tensors(arrays, metadata))


@pytest.mark.usefixtures("layer")
class TestLayerFiles:
    def test_attend_takes_the_labels_of_the_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["attend", "layer.safetensors", "--embedding", "rows.npy"]
        text = show([*words, STRINGS[0], STRINGS[13]], capsys)
        assert r"\x1b]0;owned\x07" in text
        assert r"one\ntwo\r\u2028three" in text
        assert "nothing is proved here" in text  # the note: the certificate refutes the layer
        assert UNSAFE.search(refused([*words, NAME], capsys)) is None

    def test_attend_line_by_line(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("[red]x :smile:\n\x1b[2J\n'\x1b]0;owned\x07' $\n"))
        assert main(["attend", "layer.safetensors", "--embedding", "rows.npy"]) == 0
        told, said = capsys.readouterr()
        assert UNSAFE.findall(told + said) == []
        assert "[red]x" in told

    def test_commands_that_read_the_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        problem = ["--graph", "graph.csv", "--embedding", "rows.npy"]
        show(["certify", "layer.safetensors", *problem], capsys, code=1)
        show(["certify", "layer.safetensors", "--graph", "permutation:16", "--embedding", "rows.npy"], capsys, code=1)
        show(["export", "layer.safetensors", "out", "--to", "torch"], capsys)

    @pytest.mark.parametrize(
        "record",
        [
            {},
            {"certificate": {}},
            {"certificate": {"verdict": ALL, "items": 1, "relations": 1}},
            {"certificate": {"verdict": "holds", "items": "1", "relations": True}},
            {"certificate": {"verdict": "holds", "items": 1, "relations": 1, "context_lengths": [2, 1]}},
            {"certificate": {"verdict": "holds", "items": 1, "relations": 1, "context_lengths": [1e300, 1e301]}},
            {"certificate": {"verdict": "holds", "items": 1, "relations": 1, "precisions": {ALL: ALL}}},
            {"certificate": {"verdict": "holds", "items": 1, "relations": 1, "context_lengths": {"0": 1}}},
        ],
    )
    def test_a_record_that_makes_no_sense_is_refused(
        self, record: dict[str, object], layer: mh.Layer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert layer.record is not None
        whole = {name: getattr(layer.record, name) for name in ("weights", "graph", "embedding", "certificate")}
        forge(certificate=json.dumps((whole | record) if record else {}))
        words = ["--embedding", "rows.npy"]
        assert "certificate" in refused(["attend", "forged.safetensors", *words, "$"], capsys)
        assert "certificate" in refused(["certify", "forged.safetensors", *words, "--graph", "graph.csv"], capsys)

    @pytest.mark.parametrize("labels", ["7", '{"a": 1}', "[1, 2]", '["a"]', "[" * 5000, '["\\ud800"]', "nan"])
    def test_labels_that_make_no_sense_are_refused(self, labels: str, capsys: pytest.CaptureFixture[str]) -> None:
        forge(labels=labels)
        refused(["attend", "forged.safetensors", "--embedding", "rows.npy", "a"], capsys)

    def test_a_forged_record_is_not_believed(self, layer: mh.Layer, capsys: pytest.CaptureFixture[str]) -> None:
        assert layer.record is not None
        whole = {name: getattr(layer.record, name) for name in ("weights", "graph", "embedding")}
        certificate = dict(layer.record.certificate) | {"verdict": "holds"}
        forge(certificate=json.dumps(whole | {"certificate": certificate}))
        words = ["certify", "forged.safetensors", "--graph", "graph.csv", "--embedding", "rows.npy"]
        assert "is not proved here" in show(words, capsys, code=1)


def test_exclude_and_its_proof(layer: mh.Layer, capsys: pytest.CaptureFixture[str]) -> None:
    proof, words = f"{NAME}.safetensors", ["--graph", "graph.csv", "--embedding", "rows.npy"]
    assert main(["exclude", *words, "--proof", proof]) == 0
    told, said = capsys.readouterr()
    assert UNSAFE.findall(told + said) == []
    show(["certify", "--exclusion", proof, *words], capsys)
    Path("bad.safetensors").write_bytes(b"\xff" * 50)
    for path in (NAME, "bad.safetensors", "layer.safetensors"):
        assert UNSAFE.search(refused(["certify", "--exclusion", path, *words], capsys)) is None
    assert UNSAFE.search(refused(["exclude", *words, "--rule", NAME], capsys)) is None
    np.save("wide.npy", mh.gaussian(ITEMS, 2 * ITEMS, seed=0))
    output = ["exclude", "--graph", "graph.csv", "--embedding", "wide.npy", "-o", f"{NAME}-layer.safetensors"]
    assert "wrote" in show([*output, "--proof", "none.safetensors"], capsys, code=1)


def test_explore_writes_a_page_of_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    show(["explore", "-o", f"{NAME}.html"], capsys)
    assert UNSAFE.search(refused(["explore", "-o", NAME], capsys)) is None


def test_the_page_reads_text_as_text() -> None:
    """No part of the page turns text into elements or code; it asks nothing of the network."""
    for file in files("manyheads.page").iterdir():
        if file.name.endswith((".mjs", ".html")):
            text = file.read_text(encoding="utf-8")
            wrong = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|\bfetch\("
            assert re.findall(wrong, text) == [], file.name


def test_values_in_notebooks(layer: mh.Layer) -> None:
    """Every value that quotes a label, a name or a path is escaped, as text and as HTML."""
    tagged = tuple(f"{label}<b>{number}" for number, label in enumerate(STRINGS))
    graph = mh.Graph(ITEMS, *RELATIONS).with_labels(tagged)
    problem = mh.Problem(graph, mh.Embedding(ROWS, tagged))
    named = described(layer, problem, mh.certify(layer, problem), {ALL: ALL})
    Path("config.json").write_text(
        json.dumps(
            {"_name_or_path": f"{ALL}<b>", "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 6}
            | {"num_attention_heads": 2, "head_dim": 4, "vocab_size": 40}
        )
    )
    wrong = mh.certify(mh.Layer(layer.query, layer.key, threshold=1.0), problem)
    softmax = mh.Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), threshold=0.5, rule="softmax")
    assert wrong.witness is not None
    values: list[Shown] = [
        graph, problem, problem.embedding, named, wrong, mh.certify(softmax, problem, context_length=3),
        mh.exclude(problem), mh.fit(problem, heads=1, key_width=1), mh.audit("config.json"),
    ]  # fmt: skip
    for value in values:
        for text in (str(value), repr(value), value._repr_html_()):
            assert UNSAFE.findall(text) == []
        assert "<b>" not in value._repr_html_()
        assert "<script" not in value._repr_html_()
    assert UNSAFE.findall(repr(wrong.witness) + str(wrong.to_json())) == []
