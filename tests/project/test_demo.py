"""The demonstration, with fewer head counts and seeds: what it says, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.image import imread
from support.pictures import legend_labels

from manyheads.certificate import certify
from manyheads.drawing.layer_pictures import Scores, draw_scores
from manyheads.files import read_embedding, read_graph, read_layer
from manyheads.problem.problem import Problem


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", Path(__file__).parents[2] / "examples" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # a lower bar, so that a layer that passes in spite of an error is sure to be there
    for name, value in {"HEADS": (2,), "SEEDS": range(2), "PASSING": 0.9}.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.mark.long
def test_the_demonstration(demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(tmp_path / "new")
    told = capsys.readouterr().out
    verdicts = [line.split(":")[0].strip() for line in told.splitlines() if line.startswith(("  holds", "  refuted"))]
    assert verdicts == ["refuted", "holds"]
    assert "  witness" in told
    assert "D_K* = " in told
    (command,) = [line.split()[0] for line in told.splitlines() if " certify layer.safetensors" in line]
    assert shutil.which(command) is not None  # it can be pasted, also where .venv is not on the PATH
    files = [tmp_path / "new" / name for name in ("layer.safetensors", "embedding.npy", "graph.csv")]
    layer, embedding, graph = read_layer(files[0]), read_embedding(files[1]), read_graph(files[2])
    assert certify(layer, Problem(graph, embedding)).holds
    for picture in ("capacity.png", "certificate.png"):
        assert imread(tmp_path / "new" / picture).std() > 0.05  # something is drawn
    assert (tmp_path / "new" / "explore.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    demo.main(tmp_path / "new")  # again, over its own files
    assert capsys.readouterr().out == told


def test_the_window_is_drawn_where_there_is_one() -> None:
    other, related = np.linspace(0, 5, 50), np.linspace(7, 9, 5)
    apart = Scores("apart", related, other, threshold=6.0)
    mixed = Scores("mixed", related, other + 3, threshold=6.0, witness=("a → b", 8.0))
    above, below = draw_scores([apart, mixed]).axes
    labels = [legend_labels(axis) for axis in (above, below)]
    assert "every threshold here works" in labels[0]
    assert "every threshold here works" not in labels[1]
    assert {"5 relations", "50 other pairs"} <= set(labels[0])
    assert [text.get_text() for text in below.texts] == ["a → b"]
