"""Wall time, CPU time and peak memory of `exclude` and of its check, at the sizes of its promises.

Each size is decided in a process of its own. A wall time far above the CPU time over the threads says that other
programs used the cores: then only the CPU times count.

Run alone: python -m benchmarks.exclusion [--seeds 3] [--sizes 512,56 1024,84]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from manyheads.certificate.exclusion import exclude
from manyheads.certificate.exclusion_proof import check_exclusion
from manyheads.machine import cores, machine
from manyheads.training import Task

CHECK_SHARE = 0.1  # promise: the check takes at most this part of the search
REPEATS = 3  # checks, of which the fastest counts; a search runs once


@dataclass(frozen=True)
class Size:
    """A permutation over Gaussian rows, and the promises of its exclusion."""

    items: int
    d_model: int
    seconds: float
    gibibytes: float | None = None


SIZES = (
    Size(64, 16, 0.1),
    Size(256, 32, 0.5),
    Size(512, 56, 2),
    Size(1024, 84, 5),
    Size(1024, 88, 30),
    Size(2048, 128, 60),
    Size(4096, 192, 600, gibibytes=2),
)


@dataclass(frozen=True)
class Times:
    """The times of one decision, in seconds, and the peak memory of its process in GiB."""

    verdict: str
    steps: int
    search_wall: float
    search_cpu: float
    check_wall: float
    check_cpu: float
    peak: float


def run(items: int, d_model: int, seed: int, workers: int) -> Times:
    """Decide one problem, then check its proof."""
    # the first decision of a process loads libraries, which is no part of the search
    exclude(Task("permutation:16", "gaussian:4").draw(0))
    problem = Task(f"permutation:{items}", f"gaussian:{d_model}").draw(seed)
    wall, cpu = time.perf_counter(), time.process_time()
    found = exclude(problem, workers=workers)
    search = time.perf_counter() - wall, time.process_time() - cpu
    checks = []
    for _ in range(REPEATS if found.matrix is not None else 0):
        wall, cpu = time.perf_counter(), time.process_time()
        assert found.matrix is not None
        proved = check_exclusion(problem, found.matrix).proved
        checks.append((time.perf_counter() - wall, time.process_time() - cpu))
        assert proved, "the search gave a matrix that its check refuses"
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes there, KiB here
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    check = min(checks, default=(0.0, 0.0))
    return Times(found.verdict, found.steps, *search, *check, peak)


def told(value: float, limit: float | None, digits: int) -> str:
    """A measured number, and whether it keeps its promise."""
    kept = "" if limit is None else f" ({'kept' if value < limit else 'BROKEN'}: under {limit:g})"
    return f"{value:.{digits}f}{kept}"


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="problems of each size")
    parser.add_argument("--workers", type=int, default=cores(), help="threads of the search")
    parser.add_argument("--sizes", nargs="*", help="only these sizes, each as items,d_model")
    parser.add_argument("--one", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        items, d_model, seed = options.one
        print(json.dumps(asdict(run(items, d_model, seed, options.workers))))
        return
    chosen = [size for size in SIZES if not options.sizes or f"{size.items},{size.d_model}" in options.sizes]
    table = Table("m", "d_model", "seed", "verdict", "steps", "search: wall s", "CPU s", "check: wall s", "CPU s")
    table.add_column("check / search")
    table.add_column("peak GiB")
    for size in chosen:
        for seed in range(options.seeds):
            one = ["--one", str(size.items), str(size.d_model), str(seed), "--workers", str(options.workers)]
            child = subprocess.run(
                [sys.executable, "-m", "benchmarks.exclusion", *one], check=True, capture_output=True, text=True
            )
            times = Times(**json.loads(child.stdout))
            table.add_row(
                str(size.items), str(size.d_model), str(seed), times.verdict, str(times.steps),
                told(times.search_wall, size.seconds, 2), f"{times.search_cpu:.2f}",
                f"{times.check_wall:.4f}", f"{times.check_cpu:.4f}",
                told(times.check_cpu / times.search_cpu, CHECK_SHARE, 3), told(times.peak, size.gibibytes, 2),
            )  # fmt: skip
    console = Console(width=180)
    console.print(table)
    console.print(f"{options.workers} threads; {', '.join(f'{name} {value}' for name, value in machine().items())}")


if __name__ == "__main__":
    main()
