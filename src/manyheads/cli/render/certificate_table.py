"""What people see: certificates and layers as small tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.certificate import Certificate
from manyheads.layer.layer import Layer
from manyheads.problem.graph import Graph

COLOURS = {"holds": "bold green", "refuted": "bold red", "not proved": "bold yellow"}


def in_heads(heads: int, key_width: int) -> str:
    """So many heads of such a width, in words."""
    return f"{heads} head{'s' if heads > 1 else ''} of width {key_width}"


def impossible(relations: int, items: int, bits: str) -> str:
    """What so many bits rule out: nothing where they leave room for every pair."""
    if relations == items * (items - 1):
        return f"nothing: {bits} tell all graphs on {items:,} items apart"
    return f"more than {relations:,} relations among {items:,} items: {bits}"


def pairs_table(rows: Iterable[tuple[str, str]]) -> Table:
    """A name and what there is to say about it on each row; long text wraps within its column."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(Text(name, style="dim"), Text(text))
    return table


def shown_certificate(certificate: Certificate) -> list[RenderableType]:
    """The verdict, and below it what it rests on."""
    verdict, *lines = certificate.lines()
    headline = Text(verdict)
    headline.stylize(COLOURS[certificate.verdict], 0, len(certificate.verdict))
    rows = [line.split(maxsplit=1) for line in lines]
    return [headline, pairs_table((name, text) for name, text in rows)]


def shown_layer(layer: Layer, graph: Graph) -> list[RenderableType]:
    """A layer of which nothing is proved."""
    shape = f"rule {layer.rule}, {layer.heads} heads of width {layer.key_width}, d_model {layer.d_model}"
    rows = [
        ("layer", shape),
        ("graph", f"{graph.items} items, {graph.relations} relations"),
        ("threshold", f"{layer.threshold:.6g}"),
    ]
    return [pairs_table(rows)]


def shown_notes(notes: Iterable[str]) -> list[RenderableType]:
    """What was worth saying on the way."""
    return [Text(f"note: {note}", style="yellow") for note in notes]


def shown_files(paths: Iterable[Path]) -> list[RenderableType]:
    """The files that now exist."""
    return [Text(f"wrote {path}") for path in paths]


def layer_facts(layer: Layer, provenance: Mapping[str, str | int]) -> dict[str, object]:
    """A layer's shape, rule and origin, for machines."""
    return {
        "heads": layer.heads,
        "d_model": layer.d_model,
        "key_width": layer.key_width,
        "key_budget": layer.key_budget,
        "rule": str(layer.rule),
        "threshold": layer.threshold,
        "provenance": dict(provenance),
    }
