"""The public surface as a person types it: words and paths, short tables in notebooks, data frames, pictures."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manyheads as mh
from manyheads.tables import MOST_LINES, Shown, Summary

PROBLEM = mh.draw_problem("permutation:32", "gaussian:16", seed=0)
RUN = mh.Run(mh.Task("permutation:32", "gaussian:16"), heads=2, key_width=6, seed=0, protocol=mh.Protocol(steps=500))
HOSTILE = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture(scope="module")
def shown() -> dict[str, Shown]:
    fitted = mh.fit(PROBLEM)
    return {
        "graph": PROBLEM.graph,
        "embedding": PROBLEM.embedding,
        "problem": PROBLEM,
        "layer": fitted.layer,
        "certificate": fitted.certificate,
        "fit": fitted,
        "search": mh.smallest(PROBLEM, time_limit=0.3),
        "capacity": mh.measure("permutation:32", "gaussian:16", heads=[1, 2], seeds=2),
        "plan": mh.plan(items=64, relations=128, d_model=16),
        "audit": mh.audit("gpt2"),
        "outcome": mh.train(RUN),
    }


NAMES = [
    "graph",
    "embedding",
    "problem",
    "layer",
    "certificate",
    "fit",
    "search",
    "capacity",
    "plan",
    "audit",
    "outcome",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_shows_itself_as_a_short_table(name: str, shown: dict[str, Shown]) -> None:
    value = shown[name]
    text, html = repr(value), value._repr_html_()
    assert str(value) == text
    assert 2 <= len(text.splitlines()) <= MOST_LINES
    assert html.count("<tr>") == len(text.splitlines()) - 1
    assert re.sub(r"</?(table|caption|tr|th|td)>", "", html).count("<") == 0
    assert text.splitlines()[0] in html.replace("&#x27;", "'")


def test_foreign_text_is_escaped_in_tables() -> None:
    graph = mh.Graph(2, np.array([0]), np.array([1]), (HOSTILE, "b"))
    for value in (graph, mh.Problem(graph, mh.Embedding(np.eye(2), (HOSTILE, "b")))):
        assert "<script>" not in value._repr_html_()
        assert "&lt;script&gt;" in value._repr_html_()
        assert "\x1b" not in value._repr_html_() + repr(value)


def test_a_long_table_is_cut() -> None:
    table = Summary("title", tuple((f"row {i}", "x" * 1000) for i in range(50)))
    assert len(table.text().splitlines()) == MOST_LINES
    assert "37 more lines" in table.text()
    assert max(map(len, table.text().splitlines())) < 220


def test_data_frames(shown: dict[str, Any]) -> None:
    frame = shown["capacity"].to_frame()
    assert list(frame.columns) == ["heads", "key_width", "key_budget", "seed", "score"]
    assert len(frame) == sum(len(point.scores) for point in shown["capacity"].curve)
    assert list(shown["outcome"].to_frame().columns) == ["step", "score", "loss"]
    assert len(shown["fit"].to_frame()) == len(shown["fit"].trace)
    assert len(shown["search"].to_frame()) == len(shown["search"].trials)
    assert len(PROBLEM.graph.to_frame()) == 32


def test_a_data_frame_without_pandas_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(mh.InputError, match="a data frame needs pandas"):
        PROBLEM.graph.to_frame()


def test_every_value_with_a_picture_is_drawn(shown: dict[str, Any]) -> None:
    for value in (shown["capacity"], shown["plan"]):
        assert mh.draw(value)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    for value in (shown["fit"], shown["layer"]):
        assert len(mh.draw(value, PROBLEM).axes) == 1
    for value, says in ((shown["layer"], r"draw\(layer, problem\)"), (3, "type int has no picture")):
        with pytest.raises(mh.InputError, match=says):
            mh.draw(value)


def test_a_problem_by_words_is_that_of_the_commands() -> None:
    assert PROBLEM.graph == mh.permutation_graph(32, seed=0)
    np.testing.assert_array_equal(PROBLEM.rows, mh.gaussian(32, 16, seed=1))
    assert mh.draw_problem(PROBLEM.graph, PROBLEM.embedding).embedding is PROBLEM.embedding
    assert not np.array_equal(mh.draw_problem("permutation:32", "gaussian:16", seed=1).rows, PROBLEM.rows)


def test_the_defaults_are_those_of_the_commands() -> None:
    assert mh.FitOptions() == mh.FitOptions(seed=2, map="auto")
    rows = PROBLEM.rows + 3 * np.ones((1, 16))  # one direction dominates
    fitted = mh.fit(mh.Problem(PROBLEM.graph, rows), heads=2, key_width=8, options=mh.FitOptions(restarts=1))
    assert fitted.map == "whiten"


def test_an_embedding_is_taken_wherever_an_array_is(tmp_path: Path) -> None:
    rows, embedding, layer = PROBLEM.rows, PROBLEM.embedding, mh.fit(PROBLEM, heads=2, key_width=6).layer
    np.testing.assert_array_equal(layer.scores(embedding), layer.scores(rows))
    np.testing.assert_array_equal(layer.recognise(embedding), PROBLEM.graph.adjacency())
    plans = [mh.plan(items=32, relations=32, d_model=16, embedding=given) for given in (embedding, rows)]
    assert plans[0] == plans[1]
    for given in (embedding, rows):
        written = mh.write_export(tmp_path / "made", layer, to="torch", embedding=given, force=True)
        assert mh.read_embedding(written[1], tensor="embedding").rows.tobytes() == rows.tobytes()


def test_a_rule_is_a_word_wherever_it_is_an_option() -> None:
    capacity = mh.measure("permutation:32", "gaussian:16", heads=2, seeds=1, rule="softmax", budget=mh.Budget(runs=1))
    assert str(capacity.rule) == "softmax"


def test_paths_are_text_or_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for store in (None, "r.db", Path("r.db")):
        capacity = mh.measure("permutation:32", "gaussian:16", heads=2, seeds=1, store=store)
    with mh.Store.read("r.db") as opened:
        assert sum(opened.counts().values()) == capacity.runs
        assert capacity == mh.measure(mh.Task("permutation:32", "gaussian:16"), heads=[2], seeds=[0], store=None)
    with mh.Store.write("r.db"):
        pass
    for path in ("layer.safetensors", Path("other.safetensors")):
        mh.write_layer(path, mh.Layer(np.ones((1, 2, 1)), np.ones((1, 2, 1)), 0.5))
        assert mh.read_layer(path).heads == 1
    mh.write_graph("g.csv", PROBLEM.graph)
    mh.write_embedding("rows.npy", PROBLEM.embedding)
    assert mh.read_graph(Path("g.csv")) == PROBLEM.graph
    np.testing.assert_array_equal(mh.read_embedding("rows.npy").rows, PROBLEM.rows)
    Path("config.json").write_text('{"n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 50}')
    assert mh.audit("config.json", items=20).items == 20
    assert mh.audit(Path("config.json")).items == 50


def test_junk_beside_a_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 50}')
    (tmp_path / "junk.safetensors").write_bytes(b"junk of no kind")
    with pytest.raises(mh.InputError, match=r"junk\.safetensors"):
        mh.audit(tmp_path / "junk.safetensors")
