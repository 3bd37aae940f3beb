"""Files cut short or with bits flipped: refused with a sentence, never a crash, never loaded as something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manyheads import Graph, InputError, Layer, gaussian, permutation_graph
from manyheads.certificate.exclusion import exclude
from manyheads.files import (
    ExclusionFile,
    read_embedding,
    read_exclusion,
    read_graph,
    read_labels,
    read_layer,
    write_embedding,
    write_exclusion,
    write_graph,
    write_layer,
)
from manyheads.problem.problem import Problem

ROWS = gaussian(3, 2, seed=0)
GRAPH = permutation_graph(6, seed=0)
PROBLEM = Problem(permutation_graph(4, seed=0), np.ones((4, 1)))  # all rows are the same: no layer holds it
QUERY, KEY = np.random.default_rng(0).standard_normal((2, 1, 2, 2)).astype(np.float32)
LAYER = Layer(QUERY, KEY, threshold=0.1, rule="softmax")


@dataclass(frozen=True)
class Kind:
    """A kind of file: how an example is written and read, and whether its content is guarded by a checksum."""

    name: str
    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    guarded: bool

    def content(self, directory: Path) -> tuple[Path, bytes]:
        """The file and its undamaged content, which is written once for all examples of a test."""
        path, whole = directory / self.name, directory / f"whole-{self.name}"
        if not whole.exists():
            self.write(whole)
        path.write_bytes(whole.read_bytes())
        return path, path.read_bytes()


def labels_file(path: Path) -> None:
    path.write_text('["alpha", "beta", "gamma"]')


KINDS = [
    Kind("layer.safetensors", lambda path: write_layer(path, LAYER, provenance={"seed": 1}), read_layer, True),
    Kind("proof.safetensors", lambda path: write_exclusion(path, exclude(PROBLEM), PROBLEM), read_exclusion, True),
    Kind("rows.safetensors", lambda path: write_embedding(path, ROWS), read_embedding, True),
    Kind("graph.csv", lambda path: write_graph(path, GRAPH), read_graph, True),
    Kind("named.tsv", lambda path: write_graph(path, GRAPH.with_labels("äbc def"[:6])), read_graph, True),
    Kind("rows.npy", lambda path: write_embedding(path, ROWS), read_embedding, False),
    Kind("labels.json", labels_file, read_labels, False),
]
KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def same(a: Any, b: Any) -> bool:
    match a:
        case Layer():
            weights = np.array_equal(a.query, b.query) and np.array_equal(a.key, b.key)
            return weights and (a.threshold, a.rule) == (b.threshold, b.rule)
        case ExclusionFile():
            return np.array_equal(a.matrix, b.matrix) and (a.graph, a.embedding) == (b.graph, b.embedding)
        case Graph() | tuple():
            return bool(a == b)
        case _:
            return np.array_equal(a, b)


def read_or_refuse(kind: Kind, path: Path) -> Any:
    """What the reader gives, or None where it refuses with one sentence; any other error fails the test."""
    try:
        return kind.read(path)
    except InputError as error:
        return pytest.fail("more than one sentence") if "\n" in str(error) else None


@KIND
def test_a_file_cut_anywhere_is_refused(kind: Kind, tmp_path: Path) -> None:
    path, content = kind.content(tmp_path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert read_or_refuse(kind, path) is None, f"cut to {length} of {len(content)} bytes it still loads"


@KIND
def test_a_file_with_bytes_added_is_refused(kind: Kind, tmp_path: Path) -> None:
    path, content = kind.content(tmp_path)
    path.write_bytes(content + b"\0")
    assert read_or_refuse(kind, path) is None


@KIND
def test_no_bit_flips_unseen(kind: Kind, tmp_path: Path) -> None:
    path, content = kind.content(tmp_path)
    before = kind.read(path)
    for bit in range(0, 8 * len(content), 7):  # at least one bit of every byte, and every place in a byte in turn
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        after = read_or_refuse(kind, path)
        # A flip in a word of prose changes nothing that is loaded.
        assert after is None or not kind.guarded or same(before, after), f"bit {bit} changed the content unseen"


@KIND
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_crashes(kind: Kind, tmp_path: Path, data: st.DataObject) -> None:
    path, content = kind.content(tmp_path)
    before = kind.read(path)
    damaged = bytearray(content)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        damaged[place] = data.draw(st.integers(0, 255))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(content)), st.integers(0, len(content)))))
    damaged[start:stop] = data.draw(st.just(bytes(damaged[start:stop])) | st.binary(max_size=40))
    path.write_bytes(damaged)
    after = read_or_refuse(kind, path)
    # An edge list that has lost its checksum line is an ordinary edge list; a layer without one is none.
    assert after is None or kind.read is not read_layer or same(before, after)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.binary(max_size=64), length=st.integers(0, 2**64 - 1))
def test_no_claim_of_a_header_is_believed(tmp_path: Path, header: bytes, length: int) -> None:
    path = tmp_path / "layer.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + header)
    with pytest.raises(InputError):
        read_layer(path)
