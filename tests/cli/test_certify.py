"""Bad input: one clear sentence, exit code 2, nothing written."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyheads import Layer, gaussian, permutation_graph
from manyheads.cli import main
from manyheads.files import write_embedding, write_graph, write_layer
from manyheads.files.safetensors_files import pack

GOOD = {"layer": "layer.safetensors", "graph": "graph.csv", "embedding": "rows.npy"}


@pytest.fixture(autouse=True)
def _with_good_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    write_graph("graph.csv", permutation_graph(6, seed=0))
    write_embedding("rows.npy", gaussian(6, 4, seed=0))
    write_layer("layer.safetensors", Layer(*rng.standard_normal((2, 2, 4, 3)), threshold=0.0))


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


def cut(original: str, length: int) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(Path(original).read_bytes()[:length]) and None


def rows(array: np.ndarray) -> Callable[[Path], None]:
    return lambda path: np.save(path, array)


def weights(query: np.ndarray) -> Callable[[Path], None]:
    metadata = {"format": "manyheads layer", "version": "1", "rule": "max", "threshold": "0x0p+0"}
    return lambda path: path.write_bytes(pack({"query": query, "key": query}, metadata)) and None


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
    assert refused(words, capsys).startswith("manyheads: ")
    assert says in refused([*words, "--json"], capsys)


COMPILE = ["compile", "--graph", "graph.csv", "--embedding", "rows.npy"]
DRAWN = ["compile", "--graph", "permutation:8", "--embedding", "gaussian:8", "--key-width", "4"]
WORDS = [
    ([*COMPILE, "--key-width", "0"], "the key width must be at least 1, not 0"),
    ([*COMPILE, "--key-width", "-3"], "the key width must be at least 1, not -3"),
    ([*COMPILE, "--key-width", "4", "--block-size", "0"], "the block size must be at least 1, not 0"),
    ([*COMPILE, "--key-width", "4", "--block-size", "few"], "--block-size is a whole number, not 'few'"),
    ([*COMPILE, "--key-width", "4", "--block-size", "profile"], "--block-size is a whole number, not 'profile'"),
    (COMPILE, "the general construction needs --key-width"),
    ([*COMPILE, "--key-width", "4", "--graph-seed", "1"], "--graph-seed does not apply: graph.csv is a file"),
    ([*COMPILE, "--key-width", "4", "--embedding-seed", "1"], "--embedding-seed does not apply: rows.npy is a file"),
    ([*COMPILE, "--key-width", "4", "--tensor", "wte"], "holds one array and no tensor 'wte'"),
    ([*COMPILE, "--key-width", "4", "--labels", "no.txt"], "no.txt does not exist"),
    ([*COMPILE, "--key-width", "4", "--seed", "-1"], "--seed is a whole number from 0 on, not -1"),
    ([*COMPILE, "--key-width", "4", "--threshold", "high"], "--threshold is a number, not 'high'"),
    ([*COMPILE, "--key-width", "4", "--threshold", "inf"], "--threshold is a finite number, not inf"),
    ([*COMPILE, "--key-width", "4", "--threshold", "best", "--no-certify"], "cannot go with --no-certify"),
    ([*COMPILE, "--key-width", "4", "--scale", "2"], "--scale does not apply to the general construction"),
    ([*COMPILE, "--key-width", "4", "--signatures", "rademacher"], "--signatures does not apply to the general"),
    ([*COMPILE, "--key-width", "4", "--max-budget", "9"], "--max-budget goes with --smallest"),
    ([*COMPILE, "--key-width", "4", "--smallest"], "--key-width does not go with --smallest"),
    ([*COMPILE, "--smallest", "--max-budget", "0"], "--max-budget is at least 1, not 0"),
    ([*COMPILE, "--smallest", "--threshold", "3"], "--smallest takes --threshold paper or best"),
    ([*COMPILE, "--smallest", "--construction", "softmax"], "a softmax layer is certified for contexts of a length"),
    ([*COMPILE, "--smallest", "--construction", "one-hot"], "not the one-hot construction"),
    ([*COMPILE, "--smallest", "--no-certify"], "--no-certify does not go with --smallest"),
    ([*COMPILE, "--construction", "one-hot"], "construction I reads one-hot items"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "signs"], "--signatures is rademacher or bernoulli:P"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "bernoulli:2"], "between 0 and 1, not at 2"),
    ([*COMPILE, "--construction", "one-hot", "--signatures", "bernoulli"], "is a number, not ''"),
    ([*DRAWN, "--construction", "softmax"], "a softmax layer is certified for contexts of a length"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "9"], "run from 2 to the number of items, 8"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "4:2"], "not from 4 to 2"),
    ([*DRAWN, "--construction", "softmax", "--context-length", "all"], "--context-length is a number such as 64"),
    (
        [*DRAWN, "--construction", "softmax", "--context-length", "2:4", "--scale", "search"],
        "--scale search is for contexts of one length",
    ),
    ([*DRAWN, "--construction", "softmax", "--context-length", "4", "--scale", "0"], "scale of the logits"),
    ([*DRAWN, "--tensor", "wte"], "--tensor does not apply: gaussian:8 is drawn"),
    ([*DRAWN, "--embedding-seed", "-1"], "--embedding-seed is a whole number from 0 on"),
    ([*DRAWN, "--graph", "permutation"], "'permutation' is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "permutation:0"], "a graph needs at least one item, not 0"),
    ([*DRAWN, "--graph", "permutation:8:8"], "is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "permutation:-8"], "is not of the form permutation:ITEMS"),
    ([*DRAWN, "--graph", "power-law:8:9:1"], "the exponent of a power-law graph must exceed 2"),
    ([*DRAWN, "--graph", "permuted:8"], "'permuted:8' is neither a file nor one of permutation:ITEMS, "),
    ([*DRAWN, "--graph", "regular:8:8"], "has degree 1 to 7, not 8"),
    ([*DRAWN, "--embedding", "gaussian:0"], "items and d_model of at least 1"),
    ([*DRAWN, "--embedding", "gauss:8"], "'gauss:8' is neither a file nor one of one-hot, gaussian:D_MODEL"),
    ([*DRAWN, "--graph", "random:8:20", "--construction", "compressive"], "needs a permutation graph"),
    ([*DRAWN, "--graph", "permutation:99999999999"], "larger than the memory of this machine"),
]


@pytest.mark.parametrize(("words", "says"), WORDS, ids=[" ".join(words[5:]) for words, _ in WORDS])
def test_compile_refuses_what_makes_no_sense(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["-o", "new.safetensors", "--save-graph", "new.csv", "--save-embedding", "new.npy"]
    assert says in refused([*words, *outputs], capsys)


OUTPUTS = [
    (["-o", "new.pt"], "--output must end in .safetensors"),
    (["--save-graph", "new.json"], "--save-graph must end in .csv or .tsv"),
    (["--save-embedding", "new.bin"], "--save-embedding must end in .npy or .safetensors"),
    (["-o", "missing/new.safetensors"], "there is no directory missing"),
    (["-o", "a" * 235 + ".safetensors"], "cannot be written: File name too long"),
    (["-o", "layer.safetensors"], "layer.safetensors already exists"),
    (["-o", "new.safetensors", "--save-graph", "graph.csv"], "graph.csv already exists"),
    (["-o", "new.safetensors", "--save-embedding", "new.safetensors"], "two of the files to write have the same name"),
    (["-o", "directory.safetensors", "--force"], "it exists and is not a regular file"),
]


@pytest.mark.parametrize(("outputs", "says"), OUTPUTS, ids=[says for _, says in OUTPUTS])
def test_compile_refuses_before_the_work_what_it_cannot_write_after(
    outputs: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("directory.safetensors").mkdir()
    monkeypatch.setattr("manyheads.construct.general_graphs", lambda *_, **__: pytest.fail("the work was begun"))
    assert says in refused([*DRAWN, *outputs], capsys)


def test_one_picture_does_not_replace_another(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "32", "--relations", "32", "--d-model", "24"]
    assert main([*words, "--save-heads", "h.pdf", "--save-map", "h.png"]) == 2
    assert capsys.readouterr().err == (
        "manyheads: --save-heads and --save-map would both write h.png: give them different names\n"
    )
    assert not Path("h.png").exists()


def test_plan_refuses_pictures_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--items", "32", "--relations", "32", "--d-model", "24", "--save-heads", "/proc/h"]
    assert "/proc/h.png cannot be written: the directory /proc is not writable" in refused(words, capsys)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says when it refuses: one line on stderr, and no file that was not there before."""
    before = {name: Path(name).stat().st_mtime_ns for name in sorted(os.listdir())}
    assert main(words) == 2
    told, said = capsys.readouterr()
    assert told == ""
    assert said.count("\n") == 1
    assert {name: Path(name).stat().st_mtime_ns for name in sorted(os.listdir())} == before
    return said
