"""`manyheads certify`: every bad file is refused in one sentence (what it proves is tested with compile)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

from manyheads import Layer, gaussian, permutation_graph
from manyheads.files import write_embedding, write_graph, write_layer
from manyheads.files.safetensors_files import pack_tensors

GOOD = {"layer": "layer.safetensors", "graph": "graph.csv", "embedding": "rows.npy"}


@pytest.fixture(autouse=True)
def _with_good_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    query, key = np.random.default_rng(0).standard_normal((2, 2, 4, 3))
    write_graph("graph.csv", permutation_graph(6, seed=0))
    write_embedding("rows.npy", gaussian(6, 4, seed=0))
    write_layer("layer.safetensors", Layer(query, key, threshold=0.0))


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def cut(original: str, length: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(Path(original).read_bytes()[:length])


def rows(array: np.ndarray) -> Callable[[Path], object]:
    return lambda path: np.save(path, array)


def weights(query: np.ndarray) -> Callable[[Path], object]:
    metadata = {"format": "manyheads layer", "version": "1", "rule": "max", "threshold": "0x0p+0"}
    return lambda path: path.write_bytes(pack_tensors({"query": query, "key": query}, metadata))


def absent(path: Path) -> None:
    pass


# which input is bad, its file's name, how it is made, what the sentence says
FILES = [
    ("graph", "bad.csv", absent, "bad.csv does not exist"),
    ("embedding", "bad.npy", absent, "bad.npy does not exist"),
    ("layer", "bad.safetensors", absent, "bad.safetensors does not exist"),
    ("graph", "bad.csv", text(""), "bad.csv is empty"),
    ("embedding", "bad.npy", text(""), "bad.npy is empty"),
    ("layer", "bad.safetensors", text(""), "bad.safetensors is empty"),
    ("graph", "bad.csv", cut("graph.csv", 100), "bad.csv, line 1: the checksum"),
    ("embedding", "bad.npy", cut("rows.npy", 150), "bad.npy is truncated"),
    (
        "layer",
        "bad.safetensors",
        cut("layer.safetensors", 300),
        "bad.safetensors is not a safetensors file, or is trunc",
    ),
    ("embedding", "bad.npy", lambda path: path.write_bytes(pickle.dumps([1.0])), "is a pickle, which is never loaded"),
    ("embedding", "bad.npy", lambda path: np.save(path, np.array([[None]])), "pickled Python objects"),
    ("embedding", "bad.npy", rows(np.full((6, 4), np.nan)), "bad.npy holds NaN or infinite values"),
    ("embedding", "bad.npy", rows(np.full((6, 4), np.inf)), "bad.npy holds NaN or infinite values"),
    ("layer", "bad.safetensors", weights(np.full((1, 4, 2), np.nan)), "the query weights hold NaN or infinite values"),
    ("layer", "bad.safetensors", weights(np.ones((0, 4, 2))), "heads, d_model and key_width of at least 1"),
    ("layer", "bad.safetensors", weights(np.ones((1, 4, 0))), "heads, d_model and key_width of at least 1"),
    ("graph", "bad.csv", text("0,1\n1,0\n0,1\n"), "bad.csv, line 3: the relation '0' → '1' is given a second time"),
    ("graph", "bad.csv", text("0,1\n1,6\n"), "bad.csv, line 2: item 6 is out of range 0 … 5"),
    ("graph", "bad.csv", text("# item: a\na,a\na,b\n"), "bad.csv, line 3: unknown label 'b'"),
    ("graph", "bad.csv", text("# items: 7\n0,1\n"), "the graph has 7 items but the embedding has 6 rows"),
    ("embedding", "bad.npy", rows(np.ones((5, 4))), "the graph has 6 items but the embedding has 5 rows"),
    ("embedding", "bad.npy", rows(np.ones((6, 3))), "the layer reads rows of 4 numbers"),
]


@pytest.mark.parametrize(("which", "name", "make", "says"), FILES, ids=[f"{w}: {says}" for w, _, _, says in FILES])
def test_certify_refuses_a_bad_file(
    which: str, name: str, make: Callable[[Path], None], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(Path(name))
    given = GOOD | {which: name}
    words = ["certify", given["layer"], "--graph", given["graph"], "--embedding", given["embedding"]]
    assert says in refused(words, capsys)
    assert says in refused([*words, "--json"], capsys)
