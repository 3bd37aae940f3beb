"""120 wrong inputs, of the commands and of the Python surface: each is one sentence, and nothing is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

import manyheads as mh

SMALL = ["--graph", "permutation:8", "--embedding", "gaussian:4"]
NAMED = ["--graph", "capitals.csv", "--embedding", "rows.npy"]
LARGER = ["--graph", "permutation:32", "--embedding", "gaussian:4"]
TRAIN = ["train", *SMALL, "--heads", "1", "--key-width", "2", "--context-length", "4"]
PLAN = ["plan", "budget", "--items", "64", "--relations", "64"]

COMMANDS: list[tuple[list[str], str]] = [
    (["fit", "--graph", "no.csv", "--embedding", "gaussian:4"], "no.csv does not exist"),
    (["fit", "--graph", "permutaton:8", "--embedding", "gaussian:4"], "did you mean permutation"),
    (["fit", "--graph", "permutation", "--embedding", "gaussian:4"], "permutation:"),
    (["fit", "--graph", "permutation:0", "--embedding", "gaussian:4"], "permutation"),
    (["fit", "--graph", "permutation:x", "--embedding", "gaussian:4"], "permutation"),
    (["fit", "--graph", "random:4:99", "--embedding", "gaussian:4"], "99"),
    (["fit", "--graph", "permutation:8", "--embedding", "gausian:4"], "did you mean gaussian"),
    (["fit", "--graph", "permutation:8", "--embedding", "gaussian:-1"], "gaussian"),
    (["fit", "--graph", "permutation:8", "--embedding", "no.npy"], "no.npy does not exist"),
    (["fit", "--graph", "permutation:8", "--embedding", "rows.npy"], "8 items but the embedding has 6 rows"),
    (["fit", "--graph", "permutation:8", "--embedding", "capitals.csv"], "must end in .npy"),
    (["fit", *NAMED, "--labels", "no.txt"], "no.txt does not exist"),
    (["fit", *NAMED, "--labels", "few.json"], "2 names do not name the 6 rows"),
    (["fit", *NAMED, "--labels", "names.json", "--no-header"], "2 of 6 names have no row: 'country'"),
    (["fit", *NAMED, "--labels", "names.json", "--header", "--no-header"], "contradict"),
    (["fit", *NAMED, "--labels", "twice.json"], "again as number"),
    (["fit", "--graph", "empty.csv", "--embedding", "rows.npy"], "empty.csv is empty"),
    (["fit", "--graph", "ragged.csv", "--embedding", "rows.npy"], "line 2: 3 fields"),
    (["fit", "--graph", "binary.csv", "--embedding", "rows.npy"], "not UTF-8"),
    (["fit", "--graph", "heading.csv", "--embedding", "rows.npy"], "holds no relation"),
    (["fit", *SMALL, "--heads", "0"], "--heads is a whole number from 1"),
    (["fit", *SMALL, "--heads", "-3"], "--heads is a whole number from 1"),
    (["fit", *SMALL, "--key-width", "1.5"], "--key-width is a whole number"),
    (["fit", *SMALL, "--time-limit", "0"], "--time-limit is a number above 0"),
    (["fit", *SMALL, "--time-limit", "nan"], "--time-limit"),
    (["fit", *SMALL, "--key-budget", "4", "--smallest"], "give one of them"),
    (["fit", *SMALL, "--key-budget", "4", "--heads", "2"], "do not go with it"),
    (["fit", *SMALL, "--max-key-budget", "4"], "goes with --smallest"),
    (["fit", *SMALL, "--map", "whitten"], "did you mean whiten"),
    (["fit", *SMALL, "--rule", "sum"], "not 'sum'"),
    (["fit", *SMALL, "--rule", "softmax"], "give the context length"),
    (["fit", *SMALL, "--rule", "softmax", "--context-length", "99"], "context lengths run from 2"),
    (["fit", *SMALL, "--rule", "softmax", "--context-length", "a:b"], "--context-length is a number"),
    (["fit", *SMALL, "-o", "layer.txt"], "--output must end in .safetensors"),
    (["fit", *SMALL, "-o", "no/layer.safetensors"], "no"),
    (["fit", *SMALL, "--save-graph", "graph.json"], "--save-graph must end in"),
    (["fit", *SMALL, "--save-graph", "capitals.csv"], "capitals.csv"),
    (["fit", *SMALL, "--labels", "few.json"], "2 labels do not name 8 items"),
    (["fit", *SMALL, "--tensor", "wte"], "--tensor does not apply"),
    (["fit", *NAMED, "--graph-seed", "1"], "--graph-seed does not apply"),
    (["fit", *SMALL, "--warm-start", "no.safetensors"], "no.safetensors does not exist"),
    (["fit", *SMALL, "--warm-start", "layer.safetensors"], "reads rows of 2 numbers"),
    (["compile", *SMALL], "needs --key-width"),
    (["compile", *SMALL, "--key-width", "4", "--construction", "genral"], "did you mean general"),
    (["compile", *SMALL, "--key-width", "4", "--threshold", "high"], "--threshold is a number"),
    (["compile", *SMALL, "--key-width", "4", "--packing", "loose"], "--packing is equitable or lemma"),
    (["compile", *SMALL, "--key-width", "4", "--matching-size", "big"], "--matching-size is a whole number"),
    (["compile", *SMALL, "--key-width", "4", "--no-certify", "--smallest"], "does not go with --smallest"),
    (["compile", *SMALL, "--key-width", "4", "--construction", "softmax"], "give --context-length"),
    (["certify", "no.safetensors", *SMALL], "no.safetensors does not exist"),
    (["certify", "rows.npy", *SMALL], "rows.npy"),
    (["certify", "junk.safetensors", *SMALL], "junk.safetensors"),
    (["certify", "layer.safetensors", *SMALL], "reads rows of 2 numbers but the embedding has 4"),
    (["attend", "layer.safetensors", "cat", "--embedding", "rows.npy"], "the embedding has 3"),
    (["attend", "layer.safetensors", "cat", "--embedding", "two.npy"], "there is no item 'cat'"),
    (["attend", "layer.safetensors", "cat", "dog", "--embedding", "two.npy"], "2 of 2 words are no items"),
    (["attend", "layer.safetensors", "9", "--embedding", "two.npy", "--json"], "there is no item '9'"),
    (["attend", "layer.safetensors", "--embedding", "two.npy", "--json"], "--json needs words"),
    (["attend", "layer.safetensors", "a", "--embedding", "two.npy", "--graph", "no.csv"], "no.csv does not exist"),
    ([*TRAIN, "--goal", "high"], "--goal is a target F1"),
    ([*TRAIN, "--goal", "2"], "a target F1 is above 0 and at most 1"),
    ([*TRAIN, "--seed", "-1"], "--seed is a whole number from 0"),
    ([*TRAIN, "--steps", "0"], "--steps is a whole number from 1"),
    ([*TRAIN, "--context-length", "99"], "99 distinct items cannot be drawn"),
    ([*TRAIN, "--objective", "value"], "did you mean values"),
    ([*TRAIN, "--device", "tpu"], "runs on the cpu"),
    (["measure", *LARGER, "--heads", "none"], "head counts"),
    (["measure", *LARGER, "--heads", "powers:0"], "head count"),
    (["measure", *LARGER, "--seeds", "0"], "--seeds is a whole number from 1"),
    (["measure", *LARGER, "--store", "capitals.csv"], "capitals.csv"),
    (["measure", *LARGER, "--picture", "curve.pdf"], "pictures are written as .png and .svg, not as .pdf"),
    (["measure", *LARGER, "--workers", "0"], "--workers is a whole number from 1"),
    (["results", "--store", "no.db"], "no.db"),
    (["results", "--store", "rows.npy"], "rows.npy"),
    (["plan", "budget", "--items", "64", "--relations", "64"], "--d-model"),
    ([*PLAN, "--d-model", "0"], "--d-model is a whole number from 1"),
    ([*PLAN, "--d-model", "16", "--rule", "median"], "unknown rule"),
    ([*PLAN, "--d-model", "16", "--graph", "permutation:8"], "is given as 8 and as 64"),
    ([*PLAN, "--d-model", "16", "--picture", "plan.eps"], "not as .eps"),
    (["audit", "gtp2"], "did you mean gpt2"),
    (["audit", "no.gguf"], "no.gguf"),
    (["audit", "junk.safetensors"], "junk.safetensors"),
    (["audit", "gpt2", "--key-width", "8"], "--key-width does not apply"),
    (["audit", "gpt2", "--picture", "x"], "give --weights"),
    (["export", "layer.safetensors", "out", "--to", "tensorflow"], "--to"),
    (["paper", "fig99"], "fig99"),
]

# the surface in Python, run in one process without the type checker of the tests
PYTHON: list[tuple[str, str]] = [
    ("mh.certify(problem, layer)", "a layer and a problem, in this order: here they are exchanged"),
    ("mh.certify(layer, graph)", "is a Problem, not Graph"),
    ("mh.certify('layer.safetensors', problem)", "is a Layer, not str"),
    ("mh.Problem(rows, graph)", "a graph and an embedding, in this order"),
    ("mh.Problem(graph, [[1.0]])", "not list"),
    ("mh.Problem(graph, rows[:3])", "8 items but the embedding has 3 rows"),
    ("mh.Problem(graph.with_labels('abcdefgh'), mh.Embedding(np.eye(9), tuple('abcdefghi')))", "select(graph.labels)"),
    ("mh.fit(graph)", "the problem to fit is a Problem, not Graph"),
    ("mh.fit(problem, heads=0)", "heads is a whole number from 1"),
    ("mh.fit(problem, heads='2')", "heads is a whole number"),
    ("mh.fit(problem, options={'seed': 1})", "is a FitOptions, not dict"),
    ("mh.fit(problem, options=mh.FitOptions(map='whitten'))", "unknown map 'whitten'"),
    ("mh.FitOptions(rule='sum')", "max or softmax"),
    ("mh.smallest(graph, time_limit=1)", "is a Problem, not Graph"),
    ("mh.smallest(problem, time_limit=0)", "time_limit is a number above 0"),
    ("mh.grow(problem, layer)", "the layer to grow is a Layer, not Problem"),
    ("mh.read_graph('capitals.csv', labels='names.json')", "read_labels reads them from a file"),
    ("mh.read_graph(3)", "text or a Path, not int"),
    ("mh.read_graph(None)", "text or a Path, not NoneType"),
    ("mh.read_graph('no.csv')", "does not exist"),
    ("mh.read_graph('heading.csv', header=True)", "holds no relation"),
    ("mh.read_embedding('rows.npy', names='names.json')", "read_labels reads them from a file"),
    ("mh.read_embedding('rows.npy', names=['a'])", "1 names do not name the 6 rows"),
    ("mh.read_embedding(3.5)", "text or a Path, not float"),
    ("mh.read_embedding('rows.npy').select(['a'])", "does not know the names of its rows"),
    ("mh.Embedding(np.eye(2), ('a', 'b')).select('ab')", "a sequence of texts, not 'ab'"),
    ("mh.Embedding(np.eye(2), ('a', 'b')).select([1])", "a sequence of texts, not [1]"),
    ("mh.Embedding(np.eye(2), 'ab')", "a sequence of texts, not 'ab'"),
    ("mh.Embedding(np.eye(2), ('a', 'b')).select(['x', 'y'])", "2 of 2 names have no row: 'x', 'y'"),
    ("mh.read_layer(layer)", "text or a Path, not Layer"),
    ("mh.write_layer(layer, 'x.safetensors')", "the layer to write is a Layer, not str"),
    ("mh.write_graph('x.csv', problem)", "the graph to write is a Graph, not Problem"),
    ("mh.write_embedding('x.npy', graph)", "is an Embedding or a ndarray, not Graph"),
    ("mh.draw_problem('permutaton:8', 'gaussian:4', seed=0)", "permutation"),
    ("mh.draw_problem('gaussian:4', 'permutation:8', seed=0)", "gaussian"),
    ("mh.draw_problem('permutation:8', 'gaussian:4', seed=-1)", "seed is a whole number from 0"),
    ("mh.measure('permutation:8')", "is measured over an embedding"),
    ("mh.measure(problem)", "first argument of measure is a Task or a Graph or a str, not Problem"),
    ("mh.measure('permutation:32', 'gaussian:4', heads='4')", "heads are whole numbers"),
    ("mh.measure('permutation:32', 'gaussian:4', seeds=0)", "seeds is a whole number from 1"),
    ("mh.measure('permutation:32', 'gaussian:4', heads=[])", "at least one head count"),
    ("mh.measure('permutation:32', 'gaussian:4', heads=1, seeds=1, store=3)", "text or a Path, not int"),
    ("mh.measure(mh.Task('permutation:32', 'gaussian:4'), 'gaussian:4')", "has an embedding already"),
    ("mh.train(problem)", "the run to train is a Run, not Problem"),
    ("mh.Run(problem, heads=1, key_width=1, seed=0)", "the task of a run is a Task, not Problem"),
    ("mh.Task(3, 'gaussian:4')", "words or a Graph, not int"),
    ("mh.plan(items=8, relations='many', d_model=4)", "relations is a whole number"),
    ("mh.plan(items=8, relations=99, d_model=4)", "99"),
    ("mh.audit('gtp2')", "did you mean gpt2"),
    ("mh.audit(3)", "text or a Path, not int"),
    ("mh.Store.read('no.db')", "there is no store at no.db"),
    ("mh.Store.write(3)", "text or a Path, not int"),
    ("mh.draw(graph)", "type Graph has no picture"),
    ("mh.draw(layer)", "draw(layer, problem)"),
    ("mh.measure('permutation:32', 'gaussian:4', heads=1, seeds=1, goal='exact')", "is a Goal, not str"),
    ("mh.measure('permutation:32', 'gaussian:4', heads=1, seeds=1, goal=0)", "is a Goal, not int"),
    ("mh.write_export('made', 'layer.safetensors', to='torch')", "the layer to export is a Layer, not str"),
    ("mh.check_exclusion(np.eye(8), problem)", "the problem of an exclusion is a Problem, not ndarray"),
    ("mh.check_exclusion(problem, 5)", "the matrix of an exclusion is a ndarray, not int"),
    ("mh.register_rule('max')", "the rule to register is a Rule, not str"),
    ("mh.fit(problem).layer.attends(500)", "there is no item '500'"),
    ("mh.measure('permutation:32', 'gaussian:4', rule='softmx')", "did you mean softmax?"),
    ("mh.plan(items=8, relations=8, d_model=4, embedding='rows.npy')", "not the shape ()"),
    ("mh.write_export('made', layer, to='torch', embedding='rows.npy')", "not the shape ()"),
    ("layer.scores('rows.npy')", "not an array of shape ()"),
    ("mh.Graph(4, np.array([0]), np.array([1]), 'abcd')", "labels are a sequence of texts, not 'abcd'"),
    ("mh.Graph(2, np.array([0]), np.array([1]), [1, 2])", "labels are a sequence of texts, not [1, 2]"),
    ("mh.graph_from_networkx(graph)", "is a graph of networkx, not Graph"),
    ("mh.graph_from_rustworkx(graph)", "is a graph of rustworkx, not Graph"),
    ("mh.step_limit(items='64', d_model=16)", "items is a whole number"),
    ("mh.write_exclusion('x.safetensors', problem, layer)", "the exclusion to write is an Exclusion, not Problem"),
    ("mh.train(mh.Run(mh.Task(graph, rows, context=4), heads=1, key_width=1, seed=0), time_limit='5')", "is a number"),
]
SCRIPT = """
import json, sys
import numpy as np
import manyheads as mh
graph, rows = mh.permutation_graph(8, seed=0), mh.gaussian(8, 4, seed=1)
problem, layer = mh.Problem(graph, rows), mh.read_layer("layer.safetensors")
said = []
for line in json.load(sys.stdin):
    try:
        said.append(f"no error: {eval(line)!r}")
    except mh.InputError as error:
        said.append(str(error))
    except BaseException as error:
        said.append(f"no InputError but {type(error).__name__}: {error}")
json.dump(said, sys.stdout)
"""


@pytest.fixture(autouse=True)
def _in_a_directory_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "capitals.csv": "country,capital\nFrance,Paris\nItaly,Rome\n",
        "empty.csv": "",
        "ragged.csv": "0,1\n1,2,3\n",
        "heading.csv": "source,target\n",
        "names.json": json.dumps(["ĠFrance", "ĠParis", "ĠItaly", "ĠRome", "Ġx", "Ġy"]),
        "few.json": json.dumps(["a", "b"]),
        "twice.json": json.dumps(list("abcdea")),
        "config.json": json.dumps({"n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 50}),
        "junk.safetensors": "this is no tensor",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("binary.csv").write_bytes(b"\xff\xfe,\x00\n")
    np.save("rows.npy", np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32))
    np.save("two.npy", np.eye(2, dtype=np.float32))
    mh.write_layer("layer.safetensors", mh.Layer(np.ones((1, 2, 1)), np.ones((1, 2, 1)), 0.5))


@pytest.mark.parametrize(("words", "says"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_a_wrong_command_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(words, capsys)


def test_a_wrong_call_is_one_sentence() -> None:
    before = sorted(os.listdir())
    lines = json.dumps([line for line, _ in PYTHON])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=lines, capture_output=True, text=True, timeout=120, check=True
    )
    said = json.loads(done.stdout)
    assert [f"{line}: {got}" for (line, says), got in zip(PYTHON, said, strict=True) if says not in got] == []
    assert not any("\n" in text for text in said)
    assert sorted(os.listdir()) == before


def test_the_table_has_120_cases() -> None:
    assert len(COMMANDS) + len(PYTHON) >= 120
