"""Search the smallest certified key budget over the paper's grids; each row is stored as soon as it is found.

Parts: base, regular, diagonal. `--share 1/2` and `--share 2/2` in two processes divide the points between them.
`--dask ADDRESS` searches on a cluster, one point after another. A search ends by the clock, so its row depends on the
speed of the workers. With `--trials N` the row is the same on all workers but for its times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from manyheads.fitting import FitOptions, smallest
from manyheads.sweep import Workers, dask, threads
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.rows import Row, append_row, machine_rows, matching, read_rows, write_rows

SEEDS = range(5)
NAME = "capacity_floor"
PARTS = ("base", "regular", "diagonal")


@dataclass(frozen=True)
class Point:
    """A problem whose floor is searched, and the seconds of the search on one core."""

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


def search(point: Point, seed: int, *, workers: Workers | None = None, trials: int | None = None) -> Row:
    """The smallest certified key budget of a graph and embedding that `manyheads measure` would train on.

    Args:
        point: The problem.
        seed: Of the problem and of the search.
        workers: Where the trials run; None: one thread.
        trials: The number of trials; None: until the seconds of the point are over.
    """
    regular = point.family == "regular"
    graph = f"regular:{point.items}:{point.degree}" if regular else f"permutation:{point.items}"
    problem = Task(graph, f"gaussian:{point.d_model}").draw(seed)
    limit = point.seconds if trials is None else None
    options = FitOptions(seed=seed, map="none", time_limit=limit, trials=trials, workers=workers or 1)
    found = smallest(problem, options=options)
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
    """The points and seeds of this share without a row: all points with the first seed, then with the next seed."""
    for seed in SEEDS:
        for number, point in enumerate(POINTS):
            if (number + seed) % parts != part or point.family not in families:
                continue
            key = {"family": point.family, "items": point.items, "d_model": point.d_model, "degree": point.degree}
            if not matching(read_rows(NAME), **key, seed=seed):
                yield point, seed


def measure(settings: Settings) -> None:
    """Search every point and seed of this share that has no row."""
    part, parts = (int(number) for number in settings.share.split("/"))
    families = PARTS if settings.only is None else (settings.only,)
    with threads(1) if settings.dask is None else dask(settings.dask) as workers:
        for point, seed in missing(part - 1, parts, families):
            row = search(point, seed, workers=workers, trials=settings.trials)
            append_row(NAME, row)
            print(row, flush=True)
    write_rows(f"{NAME}-machine", machine_rows())
