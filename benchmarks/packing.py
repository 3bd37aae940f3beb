"""Packing 10^6 relations over 10^5 items into matchings, one core: time and heads, and rustworkx at a size it can do.

Run alone: python benchmarks/packing.py
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
import rustworkx
from rich.console import Console
from rich.table import Table

from manyheads import Graph, power_law_graph, random_graph
from manyheads.construct.matchings import equitable_matchings, lemma_matchings

T = TypeVar("T")
LIMIT = 10  # seconds for each packing of the large graphs
MATCHING_SIZES = (64, 512, 4096)


def best_of(runs: int, work: Callable[[], T]) -> tuple[float, T]:
    """The shortest of several wall-clock times, and the last result."""
    seconds = []
    for _ in range(runs):
        start = perf_counter()
        result = work()
        seconds.append(perf_counter() - start)
    return min(seconds), result


def are_matchings(graph: Graph, heads: np.ndarray) -> bool:
    return all(len(np.unique(heads * graph.items + ends)) == len(heads) for ends in (graph.sources, graph.targets))


def packing(graphs: dict[str, Graph]) -> Table:
    table = Table(
        "graph", "m'", "Δ", "B", "heads", "sizes", f"seconds (limit {LIMIT:g})", "Lemma B.8 heads", "at most ⌈m'/B⌉ + Δ"
    )
    for name, graph in graphs.items():
        for matching_size in MATCHING_SIZES:
            seconds, heads = best_of(3, partial(equitable_matchings, graph, matching_size=matching_size))
            sizes = np.bincount(heads)
            lemma = lemma_matchings(graph, matching_size=matching_size).max() + 1
            most = -(-graph.relations // matching_size) + graph.max_degree
            assert are_matchings(graph, heads)
            assert sizes.max() - sizes.min() <= 1
            assert len(sizes) == max(graph.max_degree, -(-graph.relations // matching_size))
            row = (graph.relations, graph.max_degree, matching_size, len(sizes))
            spread = f"{sizes.min()}–{sizes.max()}"
            table.add_row(name, *(f"{n:,}" for n in row), spread, f"{seconds:.3f}", f"{lemma:,}", f"{most:,}")
    return table


def against_rustworkx(graphs: dict[str, Graph]) -> Table:
    """The same job for both: Δ matchings of any size."""
    table = Table("graph", "m'", "Δ", "manyheads, s", "rustworkx, s", "ratio")
    for name, graph in graphs.items():
        bipartite = rustworkx.PyGraph()
        bipartite.add_nodes_from(range(2 * graph.items))
        edges = zip(graph.sources.tolist(), (graph.targets + graph.items).tolist(), strict=True)
        bipartite.add_edges_from_no_data(list(edges))
        ours, heads = best_of(3, partial(equitable_matchings, graph, matching_size=graph.relations))
        theirs, colours = best_of(1, partial(rustworkx.graph_bipartite_edge_color, bipartite))
        assert len(np.unique(heads)) == len(set(colours.values())) == graph.max_degree
        counts = (f"{graph.relations:,}", f"{graph.max_degree:,}")
        table.add_row(name, *counts, f"{ours:.4f}", f"{theirs:.2f}", f"{theirs / ours:,.0f}")
    return table


def machine() -> str:
    info = Path("/proc/cpuinfo")  # Linux only
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor()
    return (
        f"{platform.system()} {platform.machine()}, {processor}, {os.cpu_count()} cores of which one is used, "
        f"Python {platform.python_version()}, numpy {version('numpy')}, rustworkx {version('rustworkx')}"
    )


def main() -> None:
    console = Console()
    console.print(machine())
    large = {
        "uniform": random_graph(100_000, 1_000_000, seed=0),
        "power law": power_law_graph(100_000, 1_000_000, exponent=2.6, seed=0),
    }
    small = {
        "uniform": random_graph(10_000, 100_000, seed=0),
        "power law": power_law_graph(10_000, 100_000, exponent=2.6, seed=0),
    }
    console.print(packing(large))
    console.print(against_rustworkx(small))


if __name__ == "__main__":
    main()
