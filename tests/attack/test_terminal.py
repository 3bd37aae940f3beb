"""What others wrote is shown, not obeyed; streams that fail; files of one command appear together or not at all."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from attack.interrupts import SOURCE
from matplotlib.figure import Figure
from support.commands import refused
from support.sabotage import tiny

from manyheads import Graph, Layer, gaussian
from manyheads.block.block_run import BlockRun
from manyheads.cli import main
from manyheads.cli.render.answer import rendered
from manyheads.drawing.style import pack_picture
from manyheads.files import write_graph, write_layer
from manyheads.files.layer_files import TrainedBlock, write_block
from manyheads.papers.rows import Rows, write_rows
from manyheads.sweep import Store, sweep
from manyheads.text import FORMULA, HOSTILE, cell_text, drawn_text, page_text

STRINGS = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31mred",
    "\x9b31m\x84",
    "a\x7f\x08b",
    "[link=https:]x[/link]",
    "[red]x",
    "[/nothing]",
    ":smile:",
    r"a$\frac{$b",
    "$",
    "=cmd|' !A0",
    "+1;@SUM(A1)",
    "\u202e\u2066abc\u200f",
    "one\ntwo\r\u2028three",
    "<script>|`x`",
    "漢字",
)
ALL = "".join(STRINGS)
NAME = ALL.replace("/", "") + "\udcff"  # the name of a file, with a byte that is not UTF-8
PLAIN = ("[red]x", ":smile:", r"a$\frac{$b", r"\x1b[31mred")  # parts as they are shown
UNSAFE = re.compile(HOSTILE.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))  # all but the newline
ITEMS = len(STRINGS)


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "2000")


def show(words: Sequence[str], capsys: pytest.CaptureFixture[str], *, code: int = 0) -> str:
    """What a command prints; with --json too, then without a picture. Neither has a control character."""
    for json_too in ([], ["--json"]):
        if json_too and "--picture" in words[-2:]:
            words = words[:-2]
        force = ["--force"] if json_too and {"-o", "--output", "--picture", "--to"} & set(words) else []
        assert main([*words, *json_too, *force]) == code
        told, said = capsys.readouterr()
        assert UNSAFE.findall(told + said) == []
        if not json_too:
            text = told + said
    return text


def layer_of(graph: Graph, rows: np.ndarray, name: str = "layer.safetensors") -> None:
    """A layer that recognises no pair, with a hostile provenance."""
    weights = np.zeros((1, rows.shape[1], 2), np.float32)
    write_layer(name, Layer(weights, weights, threshold=1.0), provenance={ALL: ALL})


@pytest.fixture
def problem() -> None:
    """A graph whose items have every hostile label, an embedding, and a layer that misses every relation."""
    np.save("rows.npy", gaussian(ITEMS, 4, seed=0))
    Path("labels.json").write_text(json.dumps(STRINGS))
    numbers = np.arange(ITEMS)
    write_graph("graph.csv", Graph(ITEMS, numbers, np.roll(numbers, 1)).with_labels(STRINGS))
    layer_of(Graph(ITEMS, numbers, np.roll(numbers, 1)), np.load("rows.npy"))


PROBLEM = ["--graph", "graph.csv", "--embedding", "rows.npy"]
SMALL = ["--graph", "permutation:8", "--embedding", "gaussian:8"]
TRAINING = ["--context-length", "4", "--steps", "20"]
MEASURE = ["measure", *SMALL, *TRAINING, "--heads", "1", "--seeds", "1", "--max-runs", "1"]


@pytest.mark.usefixtures("problem")
class TestLabels:
    @pytest.mark.parametrize("place", range(ITEMS))
    def test_certify_names_a_pair(self, place: int, capsys: pytest.CaptureFixture[str]) -> None:
        write_graph("one.csv", Graph(ITEMS, np.array([place]), np.array([place])).with_labels(STRINGS))
        words = ["certify", "layer.safetensors", "--graph", "one.csv", "--embedding", "rows.npy"]
        text = show(words, capsys, code=1)
        assert len(re.findall("^witness", text, re.MULTILINE)) == 1
        for plain in PLAIN:
            assert (plain in text) == (STRINGS[place] == plain or (plain.startswith(r"\x1b") and place == 1))

    def test_attend_shows_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        weights = np.zeros((1, 4, 2), np.float32)
        write_layer("all.safetensors", Layer(weights, weights, threshold=-1.0))
        words = ["--embedding", "rows.npy", "--labels", "labels.json"]
        text = show(["attend", "all.safetensors", *words, "[red]x", ":smile:", STRINGS[1], STRINGS[13]], capsys)
        assert "[red]x" in text
        assert r"\x1b[2J\x1b[31mred" in text
        assert r"one\ntwo\r\u2028three" in text
        show(["attend", "layer.safetensors", *words, STRINGS[1], STRINGS[0]], capsys, code=1)

    def test_a_label_that_does_not_exist(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["attend", "layer.safetensors", "--embedding", "rows.npy", "--labels", "labels.json"]
        assert UNSAFE.search(refused([*words, NAME], capsys)) is None

    def test_compile_writes_the_labels_without_formulas(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--construction", "one-hot", "--save-graph", "a.csv", "-o", "a.safetensors"]
        show(["compile", "--graph", "graph.csv", "--embedding", "one-hot", *words], capsys)
        show(["certify", "a.safetensors", "--graph", "a.csv", "--embedding", "one-hot"], capsys)
        cells = [cell for row in csv.reader(Path("a.csv").read_text().splitlines()) for cell in row]
        assert [cell for cell in cells if FORMULA.match(cell)] == []

    def test_provenance(self, capsys: pytest.CaptureFixture[str]) -> None:
        show(["export", "layer.safetensors", "out", "--to", "torch"], capsys)


@pytest.mark.usefixtures("problem")
class TestNames:
    def test_files_to_write(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["compile", "--graph", "permutation:8", "--embedding", "one-hot", "--construction", "one-hot"]
        text = show([*words, "-o", f"{NAME}.safetensors"], capsys)
        assert all(plain in text for plain in PLAIN)
        show(["export", "layer.safetensors", NAME, "--to", "torch"], capsys)

    def test_files_to_read(self, capsys: pytest.CaptureFixture[str]) -> None:
        (absent, bad), begin = (f"{NAME}{end}.safetensors" for end in "ab"), ["--graph", "graph.csv", "--embedding"]
        Path(bad).write_bytes(b"\xff" * 50)
        for words in (
            ["certify", absent, *PROBLEM],
            ["certify", bad, *PROBLEM],
            ["fit", *begin, bad],
            ["fit", "--graph", NAME, "--embedding", "rows.npy"],
            ["train", "--graph", f"{NAME}:8", "--embedding", "rows.npy", "--heads", "1", "--key-width", "1"],
            ["audit", NAME],
            ["audit", bad],
            ["heads", bad],
            ["block", "--embedding", bad, "--items", "4", "--heads", "1", "--key-width", "1"],
            ["results", "--store", bad],
            ["results", "--status", NAME],
            ["paper", NAME],
            ["paper", "fig3", "--from-rows", bad],
            ["measure", "--graph", "permutation:8", "--embedding", "gaussian:4", "--store", bad],
            ["measure", "--graph", "permutation:8", "--embedding", "gaussian:4", "--goal", NAME],
            ["plan", NAME],
            ["plan", "budget", "--embedding", bad],
            ["retrieve", f"--{NAME}"],
            [NAME],
        ):
            assert UNSAFE.search(refused(words, capsys)) is None

    def test_a_store(self, capsys: pytest.CaptureFixture[str]) -> None:
        show([*MEASURE, "--store", f"{NAME}.db"], capsys, code=1)
        text = show(["results", "--store", f"{NAME}.db"], capsys)
        assert all(plain in text for plain in PLAIN)
        assert text.count("\n") == 4  # the heading, two runs, the store

    def test_a_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        rng = np.random.default_rng(0)
        sides = {f"model.layers.0.self_attn.{part}_proj.weight": (8, 6) for part in "qkv"}
        shapes = {"model.embed_tokens.weight": (40, 6), "model.layers.0.input_layernorm.weight": (6,), **sides}
        tensors = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
        Path("m.safetensors").write_bytes(safetensors.numpy.save(tensors))
        config = {"_name_or_path": ALL, "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 6}
        Path("config.json").write_text(json.dumps(config | {"num_attention_heads": 2, "head_dim": 4, "vocab_size": 40}))
        text = show(["audit", "config.json", "--weights", "m.safetensors", "--picture", "p"], capsys)
        assert all(plain in text for plain in PLAIN)
        assert Path("p.png").stat().st_size > 10_000

    def test_a_block(self, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("torch")
        from manyheads.block.block_network import initial_weights

        run = BlockRun(6, 4, 1, 2, 0, context=2)
        weights = {name: tensor.float().numpy() for name, tensor in initial_weights(run).by_name().items()}
        write_block("b.safetensors", TrainedBlock(run, weights, None, ALL))
        show(["heads", "b.safetensors", "--picture", "p"], capsys)
        np.save(f"{NAME}.npy", np.eye(7, dtype=np.float32))
        words = ["--items", "6", "--heads", "1", "--key-width", "2", "--null", "6", "--context-length", "2"]
        show(["block", "--embedding", f"{NAME}.npy", *words, "--steps", "1", "-o", "c.safetensors"], capsys)

    def test_rows_of_a_paper(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_rows(Path("rows.jsonl.gz"), Rows([], machine={"cpu": ALL}), [])
        words = ["paper", "split_cost", "--from-rows", "rows.jsonl.gz"]
        text = show([*words, "-o", NAME.replace("\udcff", "")], capsys)
        assert "wrote" in text
        page = next(Path().glob("*/paper.md")).read_text()
        assert UNSAFE.search(page) is None
        assert "<script>" not in page.replace("`", "").replace(r"\<", "") or r"\<script" in page


class TestRows:
    def test_results_shows_rows(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """A row for each text: the graph, the rule, the name of a column, the error, the engine, the machine."""
        with Store.write(Path("manyheads.db")) as store:
            sweep(tiny([0]), store)
            (record,) = store.records()
        rows = [
            replace(record, run={**record.run, "graph": t, "rule": t, t: t}, error=t, engine=t, machine=t)
            for t in STRINGS
        ]
        monkeypatch.setattr(Store, "counts", lambda *_: dict.fromkeys(STRINGS, 1))
        for row in rows:
            monkeypatch.setattr(Store, "records", lambda *_, row=row, **__: [row])
            assert UNSAFE.search(refused(["results", "--capacity"], capsys)) is None  # no such kind of graph
        monkeypatch.setattr(Store, "records", lambda *_, **__: rows)
        show(["results"], capsys)
        show(["results", "-o", "a.csv"], capsys)
        with open("a.csv", newline="") as file:
            cells = [cell for line in csv.reader(file) for cell in line]
        number = re.compile("[-+.0-9e]+")  # a number is no formula
        wrong = [cell for cell in cells if FORMULA.match(cell) or UNSAFE.search(cell)]
        assert [cell for cell in wrong if not number.fullmatch(cell)] == []
        assert {cell_text(text) for text in STRINGS} <= set(cells)
        show(["results", "-o", "a.jsonl"], capsys)


def test_pictures_show_every_text() -> None:
    figure = Figure(figsize=(1, 1))
    for text in (*STRINGS, NAME):
        figure.text(0, 0, drawn_text(text))
        figure.text(0, 0, f"$D_K$, {drawn_text(text)}, $d_k$")
    assert all(pack_picture(figure, Path("p")).values())


@pytest.mark.parametrize("text", [*STRINGS, NAME])
def test_the_functions_for_each_border(text: str) -> None:
    assert re.search(r"(?<!\\)[<>|`]", page_text(text)) is None
    assert UNSAFE.search(rendered([text])) is None
    assert cell_text(text)[0] not in "=+-@\t\r\n"


# --- streams

PLAN = ["plan", "budget", "--items", "64", "--relations", "64", "--d-model", "16"]
NO = ["certify", "layer.safetensors", *PROBLEM]
HELP = ["fit", "--help"]
FULL = "manyheads: the answer cannot be printed: No space left on device\n"
STREAMS = [
    (["--version"], "> /dev/full", 2, FULL),
    (HELP, "> /dev/full", 2, FULL),
    (PLAN, "> /dev/full", 2, FULL),
    (["audit", "gpt2", "--json"], "> /dev/full", 2, FULL),
    (["--version"], ">&-", 0, ""),
    (NO, ">&-", 1, ""),
    (["--help"], "| true", 0, ""),
    (NO, "| true", 1, ""),
    (["plan"], "2> /dev/full", 2, ""),
    (["plan"], "<&- >&- 2>&-", 2, ""),
]


def manyheads(words: Sequence[str], ending: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, with this ending of the line."""
    line = f'set -o pipefail; "$0" -m manyheads "$@" {ending}'
    settings = os.environ | {"PYTHONPATH": SOURCE, **environment}
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *words], capture_output=True, text=True, env=settings, timeout=60
    )


@pytest.mark.usefixtures("problem")
@pytest.mark.parametrize(("words", "ending", "code", "sentence"), STREAMS)
def test_a_stream_that_cannot_be_written(words: list[str], ending: str, code: int, sentence: str) -> None:
    done = manyheads(words, ending)
    assert (done.returncode, done.stderr) == (code, sentence)


@pytest.mark.parametrize("words", [HELP, PLAN])
def test_a_stream_of_ascii(words: list[str]) -> None:
    done = manyheads(words, "", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.usefixtures("problem")
def test_attend_reads_words_that_are_no_text() -> None:
    words = ["attend", "layer.safetensors", "--embedding", "rows.npy"]
    done = manyheads(words, r"< <(printf '0 1\n\xff\xfe\n')", PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 2
    assert done.stderr.startswith("manyheads: the words cannot be read: ")
    assert done.stderr.count("\n") == 1


def test_a_closed_stream_gives_its_number_to_no_file() -> None:
    done = manyheads(MEASURE, "<&- >&- 2>&-")
    assert done.returncode == 1
    assert main(["results"]) == 0


# --- all files or none

TRIO = ["-o", "new/layer.safetensors", "--save-graph", "new/graph.csv", "--save-embedding", "new/rows.npy"]
WRITING = {
    "compile": ["compile", "--graph", "permutation:64", "--embedding", "one-hot", "--construction", "one-hot", *TRIO],
    "fit": ["fit", *SMALL, *TRIO],
    "train": ["train", *SMALL, *TRAINING, "--heads", "1", "--key-width", "4", *TRIO],
    "export": ["export", "layer.safetensors", "new/out", "--to", "torch", "--embedding", "rows.npy"],
    "plan": [*PLAN, "--picture", "new/p"],
    "measure": [*MEASURE, "--picture", "new/p"],
    "paper": ["paper", "split_cost", "--from-rows", "rows.jsonl.gz", "-o", "new/page", "--save-rows", "new/r.jsonl.gz"],
}  # fmt: skip


@pytest.fixture
def inputs(problem: None) -> None:
    write_rows(Path("rows.jsonl.gz"), Rows([], machine={"cpu": "none"}), [])
    Path("new").mkdir()


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_leaves_nothing(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file fits, the second does not: its write ends early, as on a full disk."""
    import manyheads.files.atomic_files as files

    order: list[int] = []
    whole = files._write_part

    def limited(part: Path, content: bytes, path: Path) -> None:
        order.append(len(content))
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) - 1 if len(order) > 1 else old[0], old[1]))
        whole(part, content, path)

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(files, "_write_part", limited)
    try:
        code = main(WRITING[command])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    told, said = capsys.readouterr()
    assert (code, told, said.count("\n")) == (2, "", 1), said
    assert "File too large" in said
    assert len(order) > 1
    assert list(Path("new").iterdir()) == []
    monkeypatch.undo()


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("command", ["compile", "fit"])
def test_a_label_that_is_no_text_leaves_nothing(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.json").write_text(json.dumps(["\ud800", *"abcdefg"]))
    words = ["permutation:8" if word == "permutation:64" else word for word in WRITING[command]]
    assert "not valid text" in refused([*words, "--labels", "bad.json"], capsys)
    assert list(Path("new").iterdir()) == []


@pytest.mark.usefixtures("inputs")
def test_permissions_of_a_file_that_is_replaced_stay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WRITING["compile"]) == 0
    for path in Path("new").iterdir():
        path.chmod(0o600)
    assert main([*WRITING["compile"], "--force"]) == 0
    assert {path.stat().st_mode & 0o777 for path in Path("new").iterdir()} == {0o600}
    assert len(list(Path("new").iterdir())) == 3
