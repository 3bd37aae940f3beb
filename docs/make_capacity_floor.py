"""Make docs/capacity-floor.md: the smallest certified key budget over the paper's grids, stored row by row.

python docs/make_capacity_floor.py                   search what has no row yet (resumable), then draw and write
python docs/make_capacity_floor.py --share 1/2       search only every second point, for one of two processes
python docs/make_capacity_floor.py --families base   search only these
python docs/make_capacity_floor.py --stored          search nothing: draw and write from the stored rows
"""

from __future__ import annotations

import csv
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tyro
from capacity_floor_page import draw_and_write
from rows import DATA, Row, machine_rows, read_rows, write_rows

from manyheads.fitting import FitOptions, smallest_fit
from manyheads.problem.problem import Problem
from manyheads.training.data import problem_of
from manyheads.training.run import Run

SEEDS = range(5)
NAME = "capacity_floor"


@dataclass(frozen=True)
class Point:
    """Where the floor is looked for, and for how many seconds on one core."""

    family: str
    items: int
    d_model: int
    degree: int
    seconds: float


BASE = [
    Point("base", m, d, 1, {64: 20, 128: 40, 256: 70, 512: 110}[m]) for m in (64, 128, 256, 512) for d in (16, 32, 64)
]
DIAGONAL = [Point("diagonal", m, m // 8, 1, s) for m, s in ((1024, 110), (2048, 170), (4096, 300))]
REGULAR = [Point("regular", 128, 32, r, s) for r, s in ((1, 30), (2, 40), (4, 60), (8, 90), (16, 110))]
POINTS = [*BASE, *REGULAR, *DIAGONAL]


def search(point: Point, seed: int) -> Row:
    """The smallest certified key budget of one seed's graph and embedding, the ones `measure` trains on."""
    graph = "regular" if point.family == "regular" else "permutation"
    run = Run(
        items=point.items, d_model=point.d_model, heads=1, key_width=1, seed=seed, graph=graph, degree=point.degree
    )  # fmt: skip
    problem = problem_of(run)
    found = smallest_fit(
        Problem(problem.graph, problem.embedding), options=FitOptions(seed=seed, time_limit=point.seconds, workers=1)
    )
    best = found.best
    return {
        "family": point.family,
        "items": point.items,
        "d_model": point.d_model,
        "degree": point.degree,
        "seed": seed,
        "key_budget": best and best.key_budget,
        "heads": best and best.heads,
        "key_width": best and best.key_width,
        "start_seed": best and best.seed,
        "normalised_margin": best and best.normalised_margin,
        "found_after": best and best.seconds,
        "tries": len(found.trials),
        "seconds": found.seconds,
    }


def missing(part: int, parts: int, families: tuple[str, ...]) -> Iterator[tuple[Point, int]]:
    """What has no row yet, of this process's share: first every point once, then the next seed."""
    for seed in SEEDS:
        for number, point in enumerate(POINTS):
            if (number + seed) % parts != part or point.family not in families:
                continue
            key = {"family": point.family, "items": point.items, "d_model": point.d_model, "degree": point.degree}
            if not any(
                all(row[name] == value for name, value in (key | {"seed": seed}).items()) for row in read_rows(NAME)
            ):
                yield point, seed


def append(row: Row) -> None:
    """Store one row; two processes may write at once."""
    path = DATA / f"{NAME}.csv"
    with path.open("a", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
        file.flush()


def main(share: str = "1/1", stored: bool = False, families: tuple[str, ...] = ("base", "regular", "diagonal")) -> None:
    """Search what is missing, draw, write."""
    part, parts = (int(number) for number in share.split("/"))
    if not stored:
        for point, seed in missing(part - 1, parts, families):
            row = search(point, seed)
            append(row)
            print(row, flush=True)
    if parts == 1:
        if not stored:
            write_rows(f"{NAME}-machine", machine_rows())
        draw_and_write(read_rows(NAME), read_rows(f"{NAME}-machine"), Path(__file__).parent)


if __name__ == "__main__":
    tyro.cli(main)
