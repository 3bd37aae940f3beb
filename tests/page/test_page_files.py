"""Files in the page, run in node: edge lists, layers and rows are read and written as the package does it."""

from __future__ import annotations

import base64
import gzip
import json
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.page_program import ask, page_run

from manyheads import Graph, Problem, gaussian, permutation_graph, regular_graph
from manyheads.bounds import bits_per_weight
from manyheads.certificate import certify, described
from manyheads.errors import InputError
from manyheads.files import pack_embedding, pack_graph, pack_layer, read_graph, read_layer
from manyheads.files.safetensors_files import CHECKSUM, pack_tensors
from manyheads.fitting import FitOptions, fit
from manyheads.layer.layer import Layer
from manyheads.text import HOSTILE, shown_text
from tools.page_rows import TARGET, source


def packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


GOOD = {
    "numbers": b"0,1\n1,2\n2,0\n",
    "heading of numbers": b"from,to\n0,1\n1,0\n",
    "words before numbers": b"alpha,beta\n0,1\n",
    "names": "France,Paris\nItalien,Rom\nÖsterreich,Wien\n".encode(),
    "heading": b"country,capital\nFrance,Paris\nItaly,Rome\n",
    "no heading": b"cat,chat\ndog,chien\ncow,vache\n",
    "small heading": b"animal,tier\nDog,Hund\nCow,Kuh\n",
    "quotes": b'"a,b","c""d"\n"e\nf",g\n',
    "mark and line ends": b"\xef\xbb\xbfa,b\r\nc,d\r\n\r\n",
    "items": b"# items: 9\n0,1\n8,8\n",
    "html": b"<script>alert(1)</script>,<img src=x onerror=alert(2)>\na,b\n",
    "signs": b"+1,2\n 2 ,0\n",
}
BAD = {
    "one field": b"a\nb,c\n",
    "three fields": b"a,b,c\n",
    "twice": b"a,b\na,b\n",
    "not UTF-8": b"a,\xff\xfe\n",
    "open quote": b'"a,b\nc,d\n',
    "after a quote": b'"a"x,b\n',
    "mixed": b"0,1\n1,two\n",
    "negative": b"0,1\n-1,2\n",
    "out of range": b"# items: 2\n0,5\n",
    "wrong checksum": b"# sha256: 00\n0,1\n",
    "two checksums": b"# sha256: 00\n# sha256: 00\n0,1\n",
    "no count": b"# items: many\n0,1\n",
    "blanks": b"a , b\nc,d\n",
    "unknown label": b'# item: "a"\n# item: "b"\na,c\n',
    "a name twice": b'# item: "a"\n# item: "a"\na,a\n',
    "empty": b"",
    "only a heading": b"source,target\n",
    "other count": b"# items: 7\na,b\n",
}


def plain_graph(graph: Graph) -> dict[str, Any]:
    return {
        "items": graph.items,
        "relations": graph.relations,
        "labels": None if graph.labels is None else list(graph.labels),
        "fingerprint": graph.fingerprint,
        "permutation": graph.is_permutation,
        "loops": graph.has_loops,
        "starts": graph.row_starts.tolist(),
        "targets": graph.targets.tolist(),
    }


def test_edge_lists_are_read_as_by_the_package(tmp_path: Path) -> None:
    answers = ask(
        *(("graph", {"name": "g.csv", "content": packed(content), "most": 500}) for content in (GOOD | BAD).values())
    )
    for (name, content), answer in zip((GOOD | BAD).items(), answers, strict=True):
        path = tmp_path / "g.csv"
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in BAD:
                with pytest.raises(InputError):
                    read_graph(path)
                assert answer["refused"].endswith("."), name
            else:
                expected = plain_graph(read_graph(path))
                assert {key: answer[key] for key in expected} == expected, name


def test_graphs_that_the_package_wrote_are_read() -> None:
    graphs = [
        permutation_graph(12, seed=0).with_labels([f"=f({n})" for n in range(11)] + ['quote "x", comma']),
        regular_graph(20, 3, seed=1),
        Graph(4, np.array([0, 0, 2]), np.array([0, 3, 1])),
    ]
    questions = [("graph", {"name": "g.csv", "content": packed(pack_graph("g.csv", g)), "most": 500}) for g in graphs]
    for graph, answer in zip(graphs, ask(*questions), strict=True):
        expected = plain_graph(graph)
        assert {key: answer[key] for key in expected} == expected


def test_a_large_graph_is_refused() -> None:
    content = "".join(f"{n},{n + 1}\n" for n in range(500)).encode()
    (answer,) = ask(("graph", {"name": "g.csv", "content": packed(content), "most": 500}))
    assert answer == {"refused": "g.csv has 501 items: the page takes up to 500, the package takes more."}


def shared_layer() -> tuple[Layer, Problem]:
    rng = np.random.default_rng(0)
    graph = permutation_graph(9, seed=0).with_labels([f"Wörd {n} \u007f🙂" for n in range(9)])
    problem = Problem(graph, gaussian(9, 5, seed=1))
    layer = Layer(rng.standard_normal((4, 5, 3)), rng.standard_normal((2, 5, 3)), -0.1)
    return described(layer, problem, certify(layer, problem)), problem


def test_layers_and_rows_are_read_as_by_the_package() -> None:
    layer, problem = shared_layer()
    small = Layer(layer.query.astype(np.float16), layer.key.astype(np.float32), 2.0**-1060, "softmax")
    rows = problem.rows
    with_rows = pack_layer(layer, provenance=None, embedding=rows)
    answers = ask(
        ("file", {"name": "a.safetensors", "content": packed(with_rows)}),
        ("file", {"name": "b.safetensors", "content": packed(pack_layer(small, provenance={}))}),
        ("file", {"name": "c.npy", "content": packed(pack_embedding("c.npy", rows))}),
        ("file", {"name": "d.safetensors", "content": packed(pack_embedding("d.safetensors", rows))}),
    )
    for answer, one in zip(answers, (layer, small), strict=False):
        assert (answer["heads"], answer["key_heads"], answer["d_model"], answer["key_width"]) == (4, 2, 5, 3)
        assert (answer["rule"], answer["threshold"]) == (str(one.rule), one.threshold)
        np.testing.assert_array_equal(answer["query"], one.query.astype(float).ravel())
        np.testing.assert_array_equal(answer["key"], one.key.astype(float).ravel())
    assert answers[0]["labels"] == list(problem.graph.labels or ())
    assert answers[0]["record"]["certificate"]["verdict"] == "refuted"
    for answer in (answers[0], *answers[2:]):
        np.testing.assert_array_equal(np.float32(answer["rows"]), rows.ravel())


def damaged_files() -> dict[str, tuple[str, bytes]]:
    layer, problem = shared_layer()
    good = pack_layer(layer, provenance=None)
    length = int.from_bytes(good[:8], "little")
    flipped = bytearray(good)
    flipped[-3] ^= 1
    header = json.loads(good[8 : 8 + length])
    npy = pack_embedding("r.npy", problem.rows)

    def with_header(changed: dict[str, Any]) -> bytes:
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + good[8 + length :]

    other_rule = json.loads(json.dumps(header))
    other_rule["__metadata__"]["rule"] = "mean"
    newer = json.loads(json.dumps(header))
    newer["__metadata__"]["version"] = "2"
    wide = json.loads(json.dumps(header))
    wide["query"]["shape"] = [2**40, 2**40, 3]
    deep = b"[" * 200_000
    return {
        "a bit": ("x.safetensors", bytes(flipped)),
        "the end is missing": ("x.safetensors", good[:-8]),
        "short": ("x.safetensors", good[:5]),
        "a long header": ("x.safetensors", (2**60).to_bytes(8, "little") + good[8:]),
        "no JSON": ("x.safetensors", (100).to_bytes(8, "little") + b"\xff" * 200),
        "deep JSON": ("x.safetensors", len(deep).to_bytes(8, "little") + deep),
        "a list": ("x.safetensors", (2).to_bytes(8, "little") + b"[]"),
        "another rule": ("x.safetensors", with_header(other_rule)),
        "a newer format": ("x.safetensors", with_header(newer)),
        "a shape beyond the file": ("x.safetensors", with_header(wide)),
        "no npy": ("x.npy", b"PK\x03\x04" + b"0" * 100),
        "a short npy": ("x.npy", npy[:-4]),
        "a pickle": ("x.npy", npy.replace(b"'<f4'", b"'|O' ")),
        "columns first": ("x.npy", npy.replace(b"False", b"True ")),
        "NaN": ("x.npy", pack_embedding("x.npy", np.full((2, 2), np.nan, dtype=np.float32))),
    }


def test_damaged_files_are_refused_with_one_sentence() -> None:
    files = damaged_files()
    questions = [("file", {"name": name, "content": packed(content)}) for name, content in files.values()]
    for what, answer in zip(files, ask(*questions), strict=True):
        assert answer["refused"].startswith("x."), what
        assert answer["refused"].endswith("."), what


def forged_layer(arrays: dict[str, np.ndarray], **metadata: str) -> bytes:
    """A layer with other weights or texts, and a right checksum."""
    layer, _ = shared_layer()
    good = pack_layer(layer, provenance=None)
    texts = json.loads(good[8 : 8 + int.from_bytes(good[:8], "little")])["__metadata__"]
    own = {"query": layer.query, "key": layer.key} | arrays
    return pack_tensors(own, {name: text for name, text in texts.items() if name != CHECKSUM} | metadata)


SIGNS = "\u202ea\x1b]0;owned\x07\x9b\u2028"


def test_foreign_text_in_the_page_is_shown_and_not_obeyed() -> None:
    texts = [*map(chr, range(0x110)), SIGNS, "\u061c\u200e\u2066\ufeff", "\U0001f642 ü"]
    assert ask(*(("shown", text) for text in texts)) == [shown_text(text) for text in texts]
    assert ask(("names", texts)) == [[shown_text(text) for text in texts]]
    files = {
        f"{SIGNS}.npy": b"x",
        f"{SIGNS}.csv": b"0,1\n1,0\n",
        f"{SIGNS}.exe": b"x",
        "blanks.csv": f"{SIGNS} ,b\n".encode(),
        "unknown.csv": f"# item: a\na,{SIGNS}\n".encode(),
        "count.csv": f"# items: {SIGNS}\n0,1\n".encode(),
        "rule.safetensors": forged_layer({}, rule=SIGNS),
        "type.safetensors": pack_tensors({"a": np.zeros((2, 2))}, {}).replace(b'"F64"', '"\u202e"'.encode()),
    }
    answers = ask(*(("dropped", {"name": name, "content": packed(content)}) for name, content in files.items()))
    for name, answer in zip(files, answers, strict=True):
        assert HOSTILE.findall(answer["message"] + answer["name"]) == [], name
        assert (answer["what"] == "wrong") == (name != f"{SIGNS}.csv"), answer


@pytest.mark.parametrize(
    "record",
    [{}, [], 7, {"certificate": {"verdict": SIGNS, "items": 9, "relations": 9}},
     {"certificate": {"verdict": "holds", "items": "9", "relations": 9}},
     {"certificate": {"verdict": "holds", "items": 9, "relations": 9, "context_lengths": ["<b>", 2]}}],
)  # fmt: skip
def test_a_certificate_that_makes_no_sense_is_refused_by_the_page(record: object) -> None:
    content = forged_layer({}, certificate=json.dumps(record))
    (answer,) = ask(("dropped", {"name": "x.safetensors", "content": packed(content)}))
    assert answer["message"] == "x.safetensors has a certificate that makes no sense."


def test_a_small_file_does_not_keep_the_page_busy() -> None:
    """A layer of many heads, or one whose file names draws of many numbers: the worker drew rows for minutes."""
    heads = np.ones((1_025, 1, 1), np.float32)
    wide = np.ones((1, 2**14, 1), np.float32)
    record = {"certificate": {"verdict": "holds", "items": 2000, "relations": 2000}}
    files = (
        forged_layer({"query": heads, "key": heads}),
        forged_layer({"query": wide, "key": wide}, certificate=json.dumps(record)),
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    many, drawn = ask(*(("dropped", {"name": "x.safetensors", "content": packed(content)}) for content in files))
    assert many["message"] == "x.safetensors has 1025 heads: the page takes up to 1024."
    assert drawn["what"] == "layer"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 20


def test_layers_of_the_page_are_read_by_the_package(tmp_path: Path) -> None:
    layer, problem = shared_layer()
    content = pack_layer(layer, provenance=None, embedding=problem.rows)
    labels = list(problem.graph.labels or ())
    (answer,) = ask(("pack", {"content": packed(content), "labels": labels, "graph": plain_graph(problem.graph)}))
    path = tmp_path / "page.safetensors"
    path.write_bytes(base64.b64decode(answer))
    found = read_layer(path)
    np.testing.assert_array_equal(found.query, layer.query)
    np.testing.assert_array_equal(found.key, layer.key)
    assert (found.threshold, found.labels) == (layer.threshold, problem.graph.labels)
    assert found.query.dtype == np.float64
    assert found.record is not None
    assert (found.record.graph, found.record.embedding) == (problem.graph.fingerprint, problem.embedding.fingerprint)
    assert found.record.certificate["verdict"] == "refuted"
    assert found.record.provenance == {"seed": 3}


def test_a_fit_is_the_fit_of_the_package() -> None:
    shapes = [{"heads": 2, "key_width": 6}, {"heads": 4, "key_width": 4}, {"heads": 1, "key_width": 2}]
    runs: list[dict[str, Any]] = [
        {"items": 48, "d_model": 12, "context": 16, "seed": 5, "rule": "max", "steps": 1_000} | shape
        for shape in shapes
    ]
    answers = ask(*(("fit", {"run": run, "seed": 2}) for run in runs))
    for run, answer in zip(runs, answers, strict=True):
        problem = page_run(run).task.draw(run["seed"])
        fitted = fit(problem, heads=run["heads"], key_width=run["key_width"], options=FitOptions(seed=2, map="none"))
        assert answer["verdict"] == fitted.certificate.verdict
        assert answer["attempts"] == fitted.attempts
        if fitted.certificate.holds and answer["steps"] == fitted.steps:
            np.testing.assert_allclose(answer["margin"], fitted.certificate.margin, rtol=0.05)
    assert {answer["verdict"] for answer in answers} == {"holds", "refuted"}


def test_bits_of_a_graph_are_those_of_the_package() -> None:
    graphs = [
        permutation_graph(40, seed=0),
        regular_graph(300, 3, seed=0),
        Graph(5, np.array([0, 0, 2]), np.array([0, 3, 1])),
        Graph(500, np.arange(400), np.arange(400) + 7),
    ]
    questions = []
    for graph in graphs:
        degrees = {*graph.out_degrees.tolist(), *np.bincount(graph.targets, minlength=graph.items).tolist()}
        questions.append(
            ("bits", {"items": graph.items, "relations": graph.relations, "permutation": graph.is_permutation,
                      "regular": len(degrees) == 1, "degree": max(degrees), "loops": graph.has_loops})
        )  # fmt: skip
    for graph, bits in zip(graphs, ask(*questions), strict=True):
        assert bits == pytest.approx(bits_per_weight(graph, weights=1).log2_graphs, rel=1e-10)


def test_the_rows_of_the_page_belong_to_the_published_rows() -> None:
    data = json.loads(gzip.decompress(TARGET.read_bytes()))
    assert data["source"] == source(), "docs/data changed: shorten the rows of the page again with: make page"
