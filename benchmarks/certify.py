"""Time and peak memory of certify at the sizes it promises, each case in a process of its own.

Run alone: python benchmarks/certify.py          all cases but the large ones
           python benchmarks/certify.py large    the two large ones
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter, process_time

import numpy as np
from rich.console import Console
from rich.table import Table

from manyheads import Graph, Layer, gaussian, permutation_graph
from manyheads.certificate import certify
from manyheads.layer.rules import LOGSUMEXP, MAX, SOFTMAX, SUM, Rule
from manyheads.problem.problem import Problem


@dataclass(frozen=True)
class Case:
    """A layer to certify, random or compiled to hold a permutation, and what is promised of it."""

    rule: Rule
    items: int
    d_model: int
    heads: int
    key_width: int
    threshold: float = 0.5
    compiled: bool = False
    context_length: int | None = None
    seconds: float | None = None
    gibibytes: float | None = None


CASES = (
    Case(MAX, 4096, 512, 8, 12, seconds=2),
    Case(MAX, 8192, 512, 8, 32),
    Case(MAX, 4096, 512, 16, 256, threshold=0.69, compiled=True),
    Case(SUM, 4096, 512, 8, 12),
    Case(LOGSUMEXP, 4096, 512, 8, 12),
    Case(SOFTMAX, 1024, 256, 8, 128, context_length=64, seconds=30),
    # the sound bounds prove the first of these, the second needs tighter ones, the third none can prove
    Case(SOFTMAX, 1024, 768, 8, 256, threshold=0.4, compiled=True, context_length=64, seconds=30),
    Case(SOFTMAX, 1024, 512, 8, 192, threshold=0.31, compiled=True, context_length=64, seconds=30),
    Case(SOFTMAX, 1024, 256, 8, 128, threshold=0.31, compiled=True, context_length=64, seconds=30),
)
LARGE = (
    Case(MAX, 16384, 512, 8, 32, seconds=2.5, gibibytes=1.5),
    Case(MAX, 49152, 576, 8, 64, seconds=60, gibibytes=2),
)
GROUPS = {"all": CASES, "large": LARGE}


def build(case: Case) -> tuple[Layer, np.ndarray, Graph]:
    graph, embedding = permutation_graph(case.items, seed=0), gaussian(case.items, case.d_model, seed=1)
    rng = np.random.default_rng(2)
    if not case.compiled:
        query, key = rng.standard_normal((2, case.heads, case.d_model, case.key_width))
        return Layer(query, key, case.threshold, case.rule), embedding, graph
    # the sources in equal blocks, a head for each: q_i and k_π(i) both lean towards the signature of i
    signatures = rng.choice([-1.0, 1.0], (case.items, case.key_width))
    blocks = np.arange(case.items).reshape(case.heads, -1)
    query = np.stack([embedding[block].T @ signatures[block] for block in blocks])
    key = np.stack([embedding[graph.targets[block]].T @ signatures[block] for block in blocks])
    scale = 0.3 if case.rule is SOFTMAX else 1 / case.key_width
    return Layer(scale * query, key, case.threshold, case.rule), embedding, graph


def run(case: Case) -> dict[str, float | str]:
    layer, embedding, graph = build(case)
    start, cpu = perf_counter(), process_time()
    certificate = certify(layer, Problem(graph, embedding), context_length=case.context_length)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes there, KiB here
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
        "verdict": certificate.verdict,
        "open": certificate.open_pairs,
    }


def promise(measured: float, limit: float | None, digits: int) -> str:
    if limit is None:
        return f"{measured:.{digits}f}"
    return f"{measured:.{digits}f} ({'kept' if measured < limit else 'BROKEN'}: under {limit:g})"


def main(group: str) -> None:
    table = Table("rule", "m", "d_model", "h", "d_k", "ℓ", "layer", "verdict", "open", "seconds", "CPU", "peak GiB")
    for index, case in enumerate(GROUPS[group]):
        child = subprocess.run(
            [sys.executable, __file__, group, str(index)], check=True, capture_output=True, text=True
        )
        result = json.loads(child.stdout)
        table.add_row(
            str(case.rule),
            *(f"{n:,}" for n in (case.items, case.d_model, case.heads, case.key_width)),
            str(case.context_length or "every"),
            "compiled" if case.compiled else "random",
            result["verdict"],
            f"{result['open']:,}",
            promise(result["seconds"], case.seconds, 2),
            f"{result['cpu']:.2f}",
            promise(result["peak"], case.gibibytes, 2),
        )
    console = Console(width=None if sys.stdout.isatty() else 140)  # a file has no width: no column is cut there
    console.print(table)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {version('numpy')}, "
        f"OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'unset')}"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(run(GROUPS[sys.argv[1]][int(sys.argv[2])])))
    else:
        main(*(sys.argv[1:] or ["all"]))
