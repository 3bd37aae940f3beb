"""A training step of heads that share keys beside a step of heads with own keys, timed in turns.

Run alone: python benchmarks/shared_keys.py

Times are CPU times of one thread, in slices that take turns, so that other work on the machine hits all shapes alike.
The ratio of a round is that of the shortest slices; the table shows the median over the rounds, with its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import thread_time

from rich.console import Console
from rich.table import Table

from manyheads import Run, Task
from manyheads._native import Training
from manyheads.layer.rules import RULES
from manyheads.machine import machine
from manyheads.training.data import training_data
from manyheads.training.engines import native_kernel, step_flops

ROUNDS, SLICES, STEPS, WARM = 7, 12, 400, 2_000


@dataclass(frozen=True)
class Group:
    """Shapes to compare, as (heads, key heads, key width); in the first no head shares its keys."""

    items: int
    d_model: int
    rule: str
    shapes: tuple[tuple[int, int, int], ...]

    def run(self, shape: tuple[int, int, int]) -> Run:
        """The run of a shape."""
        heads, key_heads, key_width = shape
        task = Task(f"permutation:{self.items}", f"gaussian:{self.d_model}")
        return Run(task, heads=heads, key_heads=key_heads, key_width=key_width, seed=0, rule=RULES[self.rule])


GROUPS = (
    Group(64, 16, "max", ((4, 4, 5), (6, 2, 5), (4, 1, 8))),
    Group(128, 16, "max", ((4, 4, 6), (4, 2, 8))),
    Group(256, 32, "max", ((4, 4, 15), (4, 2, 20), (4, 1, 24))),
    Group(512, 64, "max", ((8, 8, 9), (8, 4, 12), (8, 1, 16))),
    Group(1024, 128, "max", ((8, 8, 18), (8, 4, 24), (8, 1, 32))),
    Group(256, 32, "softmax", ((4, 4, 15), (4, 2, 20), (4, 1, 24))),
)
# the narrowest heads that training needs for the same graphs (docs/data/shared-keys-trained.csv)
SAME_GRAPHS = (
    Group(64, 16, "max", ((8, 8, 3), (8, 4, 4), (8, 2, 5), (8, 1, 5))),
    Group(256, 32, "max", ((8, 8, 7), (8, 4, 8), (8, 2, 10), (8, 1, 12))),
)


def slice_time(kernel: Training) -> float:
    """CPU microseconds of a step, over one slice."""
    begun = thread_time()
    kernel.advance(STEPS)
    return (thread_time() - begun) / STEPS * 1e6


def measured(group: Group) -> list[tuple[float, list[float]]]:
    """For each shape the shortest time of a step, and in each round its ratio to the shape without sharing."""
    kernels = []
    for shape in group.shapes:
        run = group.run(shape)
        kernels.append(native_kernel(run, training_data(run)))
        kernels[-1].advance(WARM)
    rounds = []
    for _ in range(ROUNDS):
        slices = [[slice_time(kernel) for kernel in kernels] for _ in range(SLICES)]
        rounds.append([min(times) for times in zip(*slices, strict=True)])
    columns = list(zip(*rounds, strict=True))
    return [(min(times), [one / own for one, own in zip(times, columns[0], strict=True)]) for times in columns]


def main() -> None:
    """Time every group and print a row for each shape."""
    console = Console()
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    for title, groups in (("shapes of the same weights", GROUPS), ("shapes that hold the same graphs", SAME_GRAPHS)):
        console.print(timings(title, groups))


def timings(title: str, groups: Sequence[Group]) -> Table:
    """A row for each shape."""
    names = ("items", "d_model", "rule", "heads", "key heads", "key width", "weights", "flops", "µs", "ratio", "range")
    table = Table(*names, title=title)
    for group in groups:
        for shape, (time, ratios) in zip(group.shapes, measured(group), strict=True):
            run = group.run(shape)
            assert groups is SAME_GRAPHS or run.weights == group.run(group.shapes[0]).weights
            sizes = (group.items, group.d_model, group.rule, *shape, f"{run.weights:,}", f"{step_flops(run):,}")
            spread = f"{min(ratios):.3f} … {max(ratios):.3f}"
            table.add_row(*map(str, sizes), f"{time:.3f}", f"{median(ratios):.3f}", spread)
    return table


if __name__ == "__main__":
    main()
