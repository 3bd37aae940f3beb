"""Layers in files: they come back to the last bit, and what is not a layer is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from manyheads import Graph, InputError, Layer, Problem, certify, fit
from manyheads.files import read_layer, read_provenance, write_layer
from manyheads.files.safetensors_files import CHECKSUM, pack_tensors, read_tensors
from manyheads.layer.layer_record import LayerRecord
from manyheads.layer.rules import RULES


def layer(rule: str = "max", dtype: type = np.float32) -> Layer:
    query, key = np.random.default_rng(0).standard_normal((2, 2, 3, 2))
    return Layer(query.astype(dtype), key.astype(dtype), threshold=1 / 3, rule=rule)


def same(a: Layer, b: Layer) -> bool:
    weights = all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in ((a.query, b.query), (a.key, b.key)))
    return weights and (a.threshold, a.rule) == (b.threshold, b.rule)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_layer_comes_back_to_the_last_bit(tmp_path: Path, rule: str, dtype: type) -> None:
    write_layer(tmp_path / "a.safetensors", layer(rule, dtype), provenance={"construction": "compressive", "seed": 2})
    assert same(read_layer(tmp_path / "a.safetensors"), layer(rule, dtype))
    assert read_provenance(tmp_path / "a.safetensors") == {"construction": "compressive", "seed": 2}


def test_a_layer_file_opens_in_other_tools(tmp_path: Path) -> None:
    write_layer(tmp_path / "a.safetensors", layer())
    with safetensors.safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("query"), torch.tensor(layer().query))
        assert file.metadata()["rule"] == "max"
        assert float.fromhex(file.metadata()["threshold"]) == 1 / 3


METADATA = {"format": "manyheads layer", "version": "1", "rule": "max", "threshold": "0x1p-1", "provenance": "{}"}
WEIGHTS = {"query": np.ones((1, 3, 2)), "key": np.ones((1, 3, 2))}


@pytest.mark.parametrize(
    ("weights", "metadata", "says"),
    [
        (WEIGHTS, {"format": "pt"}, "not a layer file that manyheads wrote"),
        (WEIGHTS, {"version": "2"}, "layer format '2' but this manyheads reads 1"),
        (WEIGHTS, {"rule": "mean"}, "with the unknown rule 'mean'"),
        (WEIGHTS, {"threshold": "half"}, "no sound layer"),
        (WEIGHTS, {"threshold": "nan"}, "threshold is a finite number"),
        (WEIGHTS, {"threshold": "0x1p99999"}, "no sound layer"),
        ({"query": np.ones((1, 3, 2))}, {}, "no tensor 'key'"),
        (WEIGHTS | {"key": np.ones((1, 3, 1))}, {}, "key_heads, d_model, key_width"),
        (WEIGHTS | {"query": np.ones((3, 3, 2)), "key": np.ones((2, 3, 2))}, {}, "cannot share 2 key heads evenly"),
        (WEIGHTS | {"key": np.full((1, 3, 2), np.inf)}, {}, "key weights hold NaN or infinite"),
        (dict.fromkeys(WEIGHTS, np.ones((0, 3, 2))), {}, "at least 1"),
        (dict.fromkeys(WEIGHTS, np.ones((1, 3, 0))), {}, "at least 1"),
        (dict.fromkeys(WEIGHTS, np.ones((3, 2))), {}, "heads, d_model, key_width"),
    ],
)
def test_a_layer_file_is_checked(
    tmp_path: Path, weights: dict[str, np.ndarray], metadata: dict[str, str], says: str
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(pack_tensors(weights, METADATA | metadata))
    with pytest.raises(InputError, match=says):
        read_layer(path)


def test_a_layer_without_its_checksum_is_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file(WEIGHTS, tmp_path / "a.safetensors", METADATA)
    with pytest.raises(InputError, match="does not match its checksum"):
        read_layer(tmp_path / "a.safetensors")
    path = tmp_path / "b.safetensors"
    path.write_bytes(pack_tensors(WEIGHTS, METADATA | {"provenance": "{"}))
    with pytest.raises(InputError, match="provenance of its layer that cannot be read"):
        read_provenance(path)
    read_layer(path)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"shape":[2,3,2]', b'"shape":[3,2,2]'), (b'"F32"', b'"I32"'), (b'"max"', b'"sum"')]
)
def test_the_same_bytes_under_another_heading_are_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "a.safetensors"
    write_layer(path, layer())
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(InputError, match="does not match its checksum"):
        read_layer(path)


def test_a_layer_that_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        write_layer(tmp_path / "a.npz", layer())
    if np.longdouble is not np.float64 and np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(InputError, match="convert them"):
            write_layer(tmp_path / "a.safetensors", layer(dtype=np.longdouble))
    assert not list(tmp_path.iterdir())


SOFTMAX_EIGHT: dict[str, object] = {
    "verdict": "holds",
    "items": 9,
    "relations": 3,
    "context_lengths": [8, 8],
    "precisions": {},
}


def recorded(changed: dict[str, object] | None = None) -> Layer:
    """A layer with labels and the record of a certificate."""
    one = layer("softmax")
    said = SOFTMAX_EIGHT | (changed or {})
    record = LayerRecord(weights=one.fingerprint, graph="g", embedding="e", certificate=said, provenance={"seed": 2})
    return replace(one, labels=("Paris", "France \x1b[2J"), record=record)


def test_labels_certificate_and_provenance_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_layer(path, recorded())
    again = read_layer(path)
    assert same(again, recorded())
    assert again.labels == ("Paris", "France \x1b[2J")
    assert again.record is not None
    assert (again.record.certificate, again.record.provenance) == (SOFTMAX_EIGHT, {"seed": 2})
    assert [length for length in range(1, 12) if again.record.covers(length)] == [8]
    assert str(again.record) == "holds 3 relations of 9 items in every context of length 8"
    assert "its record says  holds 3 relations" in repr(again)
    assert "\x1b" not in repr(again)


def test_changed_weights_drop_the_record(tmp_path: Path) -> None:
    one = recorded()
    for changed in ({"threshold": 0.5}, {"rule": "max"}, {"key": one.key * 2}):
        assert replace(one, **changed).record is None
    wider = replace(one, query=one.query.astype(np.float64), key=one.key.astype(np.float64))
    assert wider.record is one.record  # the same numbers
    # a file whose weights were exchanged, with a right checksum: the weights load, the claim does not
    write_layer(tmp_path / "a.safetensors", one)
    file = read_tensors(tmp_path / "a.safetensors")
    text = {name: value for name, value in file.metadata.items() if name != CHECKSUM}
    (tmp_path / "b.safetensors").write_bytes(pack_tensors({"query": one.query, "key": one.key + 1}, text))
    assert read_layer(tmp_path / "b.safetensors").record is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels", '"Paris"'),
        ("labels", "[1, 2]"),
        ("labels", "[" * 200),
        ("certificate", "[]"),
        ("certificate", '{"weights": "w"}'),
        *(
            ("certificate", json.dumps(dict.fromkeys(("weights", "graph", "embedding"), "x") | {"certificate": said}))
            for said in (
                {},
                SOFTMAX_EIGHT | {"verdict": "proved by me"},
                SOFTMAX_EIGHT | {"items": "many"},
                SOFTMAX_EIGHT | {"relations": True},
                SOFTMAX_EIGHT | {"context_lengths": [8]},
                SOFTMAX_EIGHT | {"context_lengths": [9, 8]},
                SOFTMAX_EIGHT | {"precisions": [1]},
            )
        ),
    ],
)
def test_labels_and_certificates_are_checked(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(pack_tensors(WEIGHTS, METADATA | {name: text}))
    with pytest.raises(InputError, match="holds no sound layer") as refused:
        read_layer(path)
    assert len(str(refused.value)) < 300


def test_a_fitted_layer_takes_its_certificate_to_its_file(tmp_path: Path) -> None:
    capitals = Graph(4, np.array([0, 2]), np.array([1, 3]), ("Paris", "France", "Rome", "Italy"))
    problem = Problem(capitals, np.eye(4))
    fitted = fit(problem, heads=1, key_width=2)
    assert fitted.layer.attends("Rome") == ("Italy",)
    assert fitted.layer.attends("Rome", context=["Paris", "France"]) == ()
    write_layer(tmp_path / "a.safetensors", fitted.layer)
    again = read_layer(tmp_path / "a.safetensors")
    assert again.record is not None
    assert again.record.certificate == json.loads(json.dumps(certify(fitted.layer, problem).to_json()))
    assert (again.record.graph, again.record.embedding) == (capitals.fingerprint, problem.embedding.fingerprint)
    assert again.record.provenance["construction"] == "fit"
    assert again.attends("Rome", rows=np.eye(4)) == ("Italy",)
    with pytest.raises(InputError, match="give them as rows="):
        again.attends("Rome")


def test_a_threshold_is_kept_exactly(tmp_path: Path) -> None:
    threshold = float(np.nextafter(0.1, 1))
    write_layer(tmp_path / "a.safetensors", Layer(layer().query, layer().key, threshold))
    assert read_layer(tmp_path / "a.safetensors").threshold == threshold
    header = (tmp_path / "a.safetensors").read_bytes()
    assert threshold.hex().encode() in header[: 8 + int.from_bytes(header[:8], "little")]
    assert json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["query"]["dtype"] == "F32"
