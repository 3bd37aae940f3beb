"""The page as one HTML file: modules, style, template and engine are put together as text; a layer is part of it if the
page is about one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from importlib.metadata import version
from importlib.resources import files

from manyheads.certificate import certify
from manyheads.errors import InputError
from manyheads.files.graph_files import pack_graph
from manyheads.files.layer_files import pack_layer
from manyheads.layer.layer import Layer
from manyheads.problem.embedding import Embedding
from manyheads.problem.graph import Graph
from manyheads.problem.problem import ContextLength, Problem

MOST_ITEMS, MOST_HEADS, MOST_BYTES = 2_000, 1_024, 40_000_000  # of a layer; worker.mjs and tensors.mjs have the same

# A module comes after the modules that it imports.
PAGE_MODULES = (
    "laws.mjs", "hash.mjs", "run.mjs", "pictures.mjs", "sweep.mjs", "view.mjs", "controls.mjs", "prove.mjs", "play.mjs",
    "own.mjs", "paper.mjs", "app.mjs",
)  # fmt: skip
WORKER_MODULES = (
    "hash.mjs", "graphs.mjs", "tensors.mjs", "matrix.mjs", "attention.mjs", "engine.mjs", "fit.mjs", "worker.mjs",
)  # fmt: skip
START_WORKER = """const answer = serve((message, transferred) => postMessage(message, transferred));
onmessage = (event) => answer(event.data);
"""
_IMPORT = re.compile(r'^import [^;]* from "\./[a-z]+\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=class|const|function|async function)", re.MULTILINE)


def explore_page() -> str:
    """The page that trains, fits and proves layers, and shows the paper. It needs no other file and no network.

    Returns:
        The text of an HTML file, at most 1.5 MB.

    >>> page = explore_page()
    >>> page.startswith("<!doctype html>"), len(page) < 1_500_000
    (True, True)
    """
    return _page(rows=base64.b64encode(_bytes("paper.json.gz")).decode(), given=None)


def layer_page(
    layer: Layer,
    embedding: Embedding,
    *,
    graph: Graph | None = None,
    context_length: ContextLength = None,
    name: str = "layer.safetensors",
) -> str:
    """A page about one layer: search a word, see what attends to what and by which head, margins, the certificate.

    Args:
        layer: The layer.
        embedding: The rows of its items. Where they are more than the layer's labels, they have names, and the rows of
            these labels are taken.
        graph: The graph that the layer is to hold; None: the page shows what the layer recognises, without a verdict.
        context_length: For a certificate of the rule softmax, as `certify` takes it; None: that of the layer's record.
        name: The name of the layer, for the title.

    Returns:
        The text of an HTML file. The weights and the rows are most of it.

    Raises:
        InputError: There are more than 2,000 items, 1,024 heads or 40 MB, or the rows do not go with the layer or the
            graph.
    """
    if graph is None and layer.labels is not None and len(layer.labels) != embedding.items and embedding.names:
        embedding = embedding.select(layer.labels)
    if embedding.items > MOST_ITEMS:
        raise InputError(
            f"a page shows up to {MOST_ITEMS:,} items, not {embedding.items:,}: give --graph with fewer names"
        )
    if embedding.d_model != layer.d_model:
        raise InputError(f"the layer reads rows of {layer.d_model} numbers but the embedding has {embedding.d_model}")
    if layer.heads > MOST_HEADS:
        raise InputError(f"a page shows up to {MOST_HEADS:,} heads, not {layer.heads:,}")
    labels = [names for names in (graph and graph.labels, layer.labels, embedding.names) if names]
    labels = [names for names in labels if len(names) == embedding.items]
    named = replace(layer, labels=labels[0] if labels else None)
    file = name if name.endswith(".safetensors") else "layer.safetensors"
    content = {file: pack_layer(named, provenance=None, embedding=embedding.rows)}
    proved = None
    if graph is not None:
        record = layer.record
        length = record.context_lengths if context_length is None and record is not None else context_length
        certificate = certify(layer, Problem(graph, embedding), context_length=length)
        proved = f"{certificate.verdict}: {certificate.reason}"
        content["graph.csv"] = pack_graph("graph.csv", graph)
    if sum(map(len, content.values())) > MOST_BYTES:
        raise InputError(f"a page holds up to {MOST_BYTES // 10**6} MB of weights and rows: give fewer items")
    given = {
        "name": name,
        "certificate": proved,
        "files": [{"name": file, "content": base64.b64encode(part).decode()} for file, part in content.items()],
    }
    return _page(rows="", given=given)


def _page(*, rows: str, given: Mapping[str, object] | None) -> str:
    """The page with the paper's rows and the files of a layer."""
    parts = {
        "style": _text("page.css"),
        "version": escape(version("manyheads")),
        "engine": base64.b64encode(_bytes("engine.wasm")).decode(),
        "rows": rows,
        "given": json.dumps(given).replace("<", "\\u003c"),
        "worker": joined_modules(WORKER_MODULES, end=START_WORKER),
        "script": joined_modules(PAGE_MODULES),
    }
    return re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match[1]], _text("page.html"))


def joined_modules(names: Iterable[str], *, end: str = "") -> str:
    """Modules as one script: a page from a disk may not load modules, so imports and exports are taken out.

    Args:
        names: The files of the modules, each after the modules that it imports.
        end: Code that runs after the modules.

    Returns:
        A function that is called at once, so that no name of a module is global.
    """
    code = "".join(_EXPORT.sub("", _IMPORT.sub("", _text(name))) for name in names)
    return f'(() => {{\n"use strict";\n{code}{end}}})();\n'


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _bytes(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()
