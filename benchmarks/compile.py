"""Time of compiling construction II: the promised size, and how it grows with m·d_model·ln m.

Run alone: python benchmarks/compile.py
"""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from manyheads import construct, gaussian, permutation_graph
from manyheads.problem.problem import Problem

LIMIT = 10  # seconds for the largest size
RUNS = 5
SIZES = [(3072, 192), (6144, 288), (12288, 384), (49152, 576)]
WIDTH_PER_LOG = 64 / math.log(49152)  # d_k = C·ln m, with 64 at the largest size


@dataclass(frozen=True)
class Timing:
    """One size, and the shortest time it took."""

    items: int
    d_model: int
    key_width: int
    heads: int
    seconds: float

    @property
    def law(self) -> float:
        """m·d_model·ln m."""
        return self.items * self.d_model * math.log(self.items)


def time_compile(items: int, d_model: int) -> Timing:
    """The best of several compilations, the embedding and the graph being there already."""
    graph, embedding = permutation_graph(items, seed=0), gaussian(items, d_model, seed=0)
    key_width = round(WIDTH_PER_LOG * math.log(items))
    seconds = []
    for seed in range(RUNS):
        start = perf_counter()
        layer = construct.compressive(Problem(graph, embedding), key_width=key_width, seed=seed)
        seconds.append(perf_counter() - start)
    return Timing(items, d_model, layer.key_width, layer.heads, min(seconds))


def machine() -> str:
    info = Path("/proc/cpuinfo")  # Linux only
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor()
    return (
        f"{platform.system()} {platform.machine()}, {processor}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {version('numpy')}"
    )


def main() -> None:
    console = Console()
    console.print(machine())
    timings = [time_compile(items, d_model) for items, d_model in SIZES]
    table = Table("m", "d_model", "d_k", "heads", "seconds", "nanoseconds per m·d_model·ln m")
    for timing in timings:
        counts = (timing.items, timing.d_model, timing.key_width, timing.heads)
        table.add_row(*(f"{n:,}" for n in counts), f"{timing.seconds:.3f}", f"{timing.seconds / timing.law * 1e9:.2f}")
    console.print(table)

    law, seconds = (np.array(values) for values in zip(*((t.law, t.seconds) for t in timings), strict=True))
    slope = np.polyfit(np.log(law), np.log(seconds), 1)[0]
    factor = (law @ seconds) / (law @ law)
    r_squared = 1 - ((seconds - factor * law) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum()
    console.print(f"log–log slope against m·d_model·ln m: {slope:.2f} (1 = proportional)")
    console.print(f"proportional fit: {factor * 1e9:.2f} ns each, R² = {r_squared:.4f}")
    console.print(f"m = {SIZES[-1][0]:,}: {timings[-1].seconds:.2f} s (limit {LIMIT} s)")


if __name__ == "__main__":
    main()
