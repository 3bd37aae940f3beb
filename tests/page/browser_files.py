"""The reader's own files in a real browser, and pages about one layer. Only `make test-page` runs these tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser_tab import Tab

from manyheads import Graph, Problem, certify, fit, gaussian, permutation_graph, read_layer, regular_graph, write_layer
from manyheads.cli import main
from manyheads.files import pack_embedding, pack_graph, pack_layer, read_embedding
from manyheads.layer.layer import Layer
from manyheads.layer.layer_vocabulary import Vocabulary
from manyheads.training import Protocol, Run, Task, train
from manyheads.training.protocol import step_limit

HARM = '<img src=x onerror="window.harmed = 1">'
CAPITALS = [
    ("France", "Paris"), ("Italy", "Rome"), ("Japan", "Tokyo"), ("Spain", "Madrid"), ("Egypt", "Cairo"),
    ("Peru", "Lima"), ("Norway", "Oslo"), ("Cuba", "Havana"), ("Kenya", "Nairobi"),
    ("<script>window.harmed = 1</script>", HARM),
]  # fmt: skip


def capitals() -> Graph:
    names = [name for pair in CAPITALS for name in pair]
    return Graph(len(names), np.arange(0, len(names), 2), np.arange(1, len(names), 2), tuple(names))


def test_an_edge_list_is_trained_fitted_and_downloaded(tab: Tab, tmp_path: Path) -> None:
    graph = capitals()
    assert "20 items, 10 relations" in tab.give(("capitals.csv", pack_graph("capitals.csv", graph)))
    assert tab.page.locator("#items").is_disabled()
    tab.choose(d_model=12, heads=2, key_width=3, context=10)
    run = Run(
        Task(graph, "gaussian:12", context=10),
        heads=2,
        key_width=3,
        seed=0,
        protocol=Protocol(steps=step_limit(items=20, d_model=12)),
    )
    assert tab.facts("advice")["run"] == run.id
    outcome = train(run)
    found = re.match(r"Test F1 ([0-9.]+): (\w+) after (\d+) steps", tab.train())
    assert found is not None
    assert (found[2], int(found[3])) == (outcome.stopped, outcome.steps)
    assert float(found[1]) == pytest.approx(outcome.micro_f1, abs=2e-3)
    tab.page.click("#fit")
    tab.wait("status", "Certified after")
    assert "holds" in tab.text("verdict")
    tab.page.fill("#words", "Paris")
    tab.page.click("#ask")
    tab.wait("attention", "Paris")
    assert [row[:2] for row in tab.rows("attention")] == [["France", "Paris"]]
    tab.page.fill("#words", HARM)
    tab.page.click("#ask")
    tab.wait("attention", "<script>")
    tab.page.fill("#source", "Japan")
    tab.page.fill("#target", "Tokyo")
    tab.page.click("#look")
    assert "Japan → Tokyo is a relation" in tab.wait("pair-answer", "Margin")
    assert tab.page.evaluate("window.harmed") is None
    with tab.page.expect_download() as download:
        tab.page.click("#download")
    path = tmp_path / "layer.safetensors"
    download.value.save_as(path)
    layer = read_layer(path)
    rows = read_embedding(path, tensor="embedding")
    np.testing.assert_array_equal(rows.rows, run.task.draw(0).rows)
    certificate = certify(layer, Problem(graph, rows))
    assert certificate.holds
    assert layer.labels == graph.labels
    assert layer.record is not None
    assert layer.record.certificate["margin"] == pytest.approx(certificate.margin, rel=1e-9)
    assert "See it below." in tab.give(("again.safetensors", path.read_bytes()), ("g.csv", pack_graph("g.csv", graph)))
    tab.wait("verdict", "holds")
    tab.page.click("#forget")
    assert tab.page.locator("#items").is_enabled()


def test_rows_of_a_file_are_trained_on(tab: Tab) -> None:
    graph, rows = regular_graph(24, 2, seed=0), gaussian(24, 10, seed=3)
    tab.give(("r.npy", pack_embedding("r.npy", rows)), ("g.csv", pack_graph("g.csv", graph)))
    assert tab.page.locator("#d_model").is_disabled()
    protocol = Protocol(steps=step_limit(items=24, d_model=10))
    run = Run(Task(graph, rows, context=16), heads=4, key_width=5, seed=0, protocol=protocol)
    tab.wait("advice", run.id)
    outcome = train(run)
    assert f"{outcome.stopped} after {outcome.steps} steps" in tab.train()
    tab.page.click("#sweep")
    tab.page.locator("#sweep-status", has_text=re.compile(r"[1-9]\d* of")).wait_for()


def some_layers() -> list[tuple[Layer, Problem]]:
    """20 layers: fitted, random and exact up to rounding, with shared keys, with names."""
    cases = []
    for seed in range(20):
        graph = permutation_graph(16, seed=seed) if seed % 3 else regular_graph(16, 2, seed=seed)
        if seed % 4 == 1:
            graph = graph.with_labels([f"name {n}" for n in range(16)])
        problem = Problem(graph, gaussian(16, 16 if seed % 5 == 0 else 8, seed=seed))
        rng = np.random.default_rng(seed)
        if seed % 5 == 0:
            inverse = np.linalg.pinv(problem.rows.astype(float))
            layer = Layer((inverse @ graph.adjacency().astype(float))[None], inverse[None], 0.5 if seed % 2 else 1.0)
        elif seed % 2:
            layer = fit(problem, heads=4, key_width=3, key_heads=2 if seed % 4 == 1 else None).layer
        else:
            query, key = rng.standard_normal((2, 3, 8, 4))
            layer = Layer(query, key, threshold=0.7)
        cases.append((layer, problem))
    return cases


def test_20_layers_are_certified_as_by_the_package(tab: Tab) -> None:
    verdicts = set()
    for number, (layer, problem) in enumerate(some_layers()):
        name = f"layer{number}.safetensors"
        tab.give(
            (name, pack_layer(layer, provenance={})),
            ("rows.npy", pack_embedding("rows.npy", problem.rows)),
            ("graph.csv", pack_graph("graph.csv", problem.graph)),
        )
        tab.wait("origin", name)
        certificate = certify(layer, problem)
        facts = tab.facts("certificate")
        assert ("that share" in facts["layer"]) == (layer.key_heads < layer.heads)
        verdicts.add(certificate.verdict)
        assert tab.text("verdict").startswith(certificate.verdict)
        counts = f"{certificate.missed} missed, {certificate.false_pairs} false, {certificate.open_pairs} open of 256"
        assert facts["pairs"] == counts
        assert float(facts["margin"]) == pytest.approx(certificate.margin, rel=6e-3, abs=1e-14)
    assert verdicts == {"holds", "refuted", "not proved"}


def test_a_layer_of_the_package_needs_no_other_file_where_it_is_drawn(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "fit.safetensors"
    options = ["--graph", "permutation:32", "--embedding", "gaussian:12", "--embedding-seed", "7"]
    assert main(["fit", *options, "--heads", "4", "--key-width", "4", "-o", str(path)]) == 0
    assert "See it below." in tab.give((path.name, path.read_bytes()))
    tab.wait("verdict", "holds")
    tab.wait("origin", "gaussian:12, seed 7")


def test_softmax_layers_are_looked_into(tab: Tab) -> None:
    graph = capitals()
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 2, 6, 3)) * 2
    layer = Layer(query, key, threshold=0.4, rule="softmax", labels=graph.labels)
    rows = gaussian(20, 6, seed=0)
    tab.give(("s.safetensors", pack_layer(layer, provenance={}, embedding=rows)))
    tab.wait("verdict", "manyheads certify --context-length")
    words = ["France", "Paris", "Rome", "Lima", "Oslo"]
    tab.page.fill("#words", " ".join(words))
    tab.page.click("#ask")
    vocabulary = Vocabulary(layer, rows, graph.labels)
    expected = vocabulary.within(vocabulary.items(words))
    tab.wait("attention", "France")
    shown = [[row[0], row[1], row[4]] for row in tab.rows("attention")]
    assert shown == [[vocabulary.name(one.source), vocabulary.name(one.target), str(one.head)] for one in expected]
    tab.page.fill("#words", "France")
    tab.page.click("#ask")
    tab.wait("attention", "give all its items")


def wrong_files() -> dict[str, tuple[tuple[str, bytes], ...]]:
    graph = capitals()
    layer = Layer(np.ones((1, 4, 2)), np.ones((1, 4, 2)), 0.5)
    good = pack_layer(layer, provenance={})
    return {
        "is no file that the page reads": (("picture.png", b"\x89PNG"),),
        "holds no relation": (("empty.csv", b""),),
        "3 fields, not source and target": (("three.csv", b"a,b,c\n"),),
        "is not UTF-8 text": (("latin.csv", b"Espa\xf1a,Madrid\n"),),
        "is given a second time": (("twice.csv", b"a,b\na,b\n"),),
        "has 501 items": (("many.csv", b"# items: 501\n0,1\n"),),
        "the checksum does not match": (("sum.csv", pack_graph("sum.csv", graph).replace(b"Paris", b"Pariz")),),
        "does not match its checksum": (("bit.safetensors", good[:-1] + bytes([good[-1] ^ 1])),),
        "truncated or damaged": (("short.safetensors", good[:-1]),),
        "has no rows": (("layer.safetensors", good),),
        "reads rows of 4 numbers": (
            ("l.safetensors", good),
            ("r.npy", pack_embedding("r.npy", gaussian(3, 5, seed=0))),
        ),
        "is not an .npy file": (("rows.npy", b"no rows"),),
        "has 50 MB": (("large.csv", b"a,b\n" * 12_500_000),),
        "has 50 MB: the page reads up to 40 MB": (("large.safetensors", bytes(50_000_000)),),
    }


def test_wrong_files_have_one_sentence_each(tab: Tab) -> None:
    """And the page goes on: a run afterwards ends as ever."""
    for sentence, files in wrong_files().items():
        told = tab.give(*files)
        assert sentence in told
        assert told.endswith(".")
        assert told.count(". ") == 0
    assert tab.train().startswith("Test F1 ")


def test_files_are_dropped(tab: Tab) -> None:
    tab.page.evaluate(
        """() => {
        const data = new DataTransfer();
        data.items.add(new File(["a,b\\nb,c\\nc,a\\n"], "dropped.csv"));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    )
    tab.wait("own-status", "dropped.csv: 3 items, 3 relations")


def test_a_page_about_one_layer(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = permutation_graph(40, seed=77).with_labels([f"<b>{n}</b></script>" for n in range(40)])
    problem = Problem(graph, gaussian(40, 10, seed=0))
    layer = fit(problem, heads=4, key_width=4).layer
    write_layer("layer.safetensors", layer)
    Path("rows.npy").write_bytes(pack_embedding("rows.npy", problem.rows))
    Path("graph.csv").write_bytes(pack_graph("graph.csv", graph))
    command = ["explore", "layer.safetensors", "--embedding", "rows.npy"]
    assert main([*command, "--graph", "graph.csv", "-o", "with.html"]) == 0
    assert main([*command, "-o", "without.html"]) == 0
    context = browser.new_context(viewport={"width": 390, "height": 800})
    tab = Tab(context.new_page())
    tab.open(tmp_path / "with.html")
    tab.wait("verdict", "holds")
    assert tab.page.locator("h1").text_content() == "layer.safetensors"
    assert not tab.page.locator("#play").is_visible()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    certificate = certify(layer, problem)
    assert float(tab.facts("certificate")["margin"]) == pytest.approx(certificate.margin, rel=6e-3)
    scores = layer.head_scores(problem.rows)
    margins = np.where(graph.adjacency(), 1, -1) * (scores.max(axis=0) - layer.threshold)
    hardest = np.argsort(margins, axis=None, kind="stable")[:10]
    expected = [f"{graph.name(int(at) // 40)} → {graph.name(int(at) % 40)}" for at in hardest]
    rows = tab.rows("hardest")
    assert sorted(row[0] for row in rows) == sorted(expected)
    heads = scores.argmax(axis=0).ravel()
    assert {row[0]: row[4] for row in rows} == {
        name: str(heads[at]) for name, at in zip(expected, hardest, strict=True)
    }
    word = graph.name(3)
    tab.page.fill("#words", word)
    tab.page.click("#ask")
    tab.wait("attention", word)
    vocabulary = Vocabulary(layer, problem.rows, graph.labels)
    found = [*vocabulary.all_from([3]), *vocabulary.all_to([3])]
    assert [row[:2] for row in tab.rows("attention")] == [
        [vocabulary.name(one.source), vocabulary.name(one.target)] for one in found
    ]
    tab.open(tmp_path / "without.html")
    tab.wait("verdict", "The file says: holds, 40 relations of 40 items")
    tab.check_quiet()
    context.close()


def test_a_page_about_2000_items(browser: Any, tmp_path: Path) -> None:
    from manyheads.page import layer_page

    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((2, 2, 32, 8))
    layer = Layer(query, key, threshold=9.0)
    names = tuple(f"word{n}" for n in range(2000))
    graph = permutation_graph(2000, seed=0).with_labels(names)
    problem = Problem(graph, gaussian(2000, 32, seed=0))
    path = tmp_path / "large.html"
    path.write_text(layer_page(layer, problem.embedding, graph=graph), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab = Tab(context.new_page())
    tab.open(path)
    tab.wait("verdict", "refuted")
    certificate = certify(layer, problem)
    assert tab.facts("certificate")["pairs"].startswith(f"{certificate.missed} missed, {certificate.false_pairs} false")
    assert certificate.witness is not None
    assert tab.facts("certificate")["wrong pair"] == " → ".join(certificate.witness.labels)
    tab.page.fill("#words", "word5 word77 word1999")
    tab.page.click("#ask")
    tab.wait("attention", "word")
    tab.check_quiet()
    context.close()
