"""The tables of a bench: times, ratios to the peers, and the kernel beside the machine's matmul peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.bench.contenders import Shape
from manyheads.cli.render.answer import pairs_table

LOSSES_AGREE = 0.01  # relative; in float32 two engines drift apart, but by much less in so few steps

EXPLAINED = (
    "Training only, the best of many short slices, but for native, evaluated: the mean of 20,000 steps with their 40 "
    "validation checks and the test. "
    "PyTorch: the eager loop as one would write it; tuned: with the quickest calls that were found. Drawing: "
    "contexts drawn in the loop, as native does; the other peers find them prepared. "
    "± is half the range over the rounds."
)


@dataclass(frozen=True)
class Spread:
    """A quantity that was measured in several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of the values."""
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        middle = f"{self.median:,.0f}" if self.median >= 100 else f"{self.median:.3g}"
        return middle if self.low == self.high else f"{middle} ±{(self.high - self.low) / 2 / self.median:.0%}"


@dataclass(frozen=True)
class Versus:
    """A peer on one shape; the ratio is to the native engine's training without evaluation, as the peer's is."""

    microseconds: Spread
    ratio: Spread
    loss: float
    native_loss: float | None  # None where the peer draws contexts of its own

    @property
    def agrees(self) -> bool:
        """Whether the peer arrived where the native engine does, as far as that can be told."""
        return self.native_loss is None or abs(self.loss - self.native_loss) <= LOSSES_AGREE * self.native_loss


@dataclass(frozen=True)
class Row:
    """One shape; times are microseconds per step and run."""

    shape: Shape
    training: Spread
    whole_protocol: Spread
    one_thread: Spread
    speed_up: Spread  # of all cores over one, best slices
    flops: int
    of_peak: Spread
    peers: dict[str, Versus]


@dataclass(frozen=True)
class Growth:
    """One thread's time as d_model·D_K grows, and how far from a straight line it is at most."""

    shapes: tuple[Shape, ...]
    microseconds: tuple[Spread, ...]
    off_the_line: float


def tables(
    rows: Sequence[Row], growth: Growth, left_out: Mapping[str, str], machine: Mapping[str, str]
) -> list[RenderableType]:
    """Three tables with a column for each shape, the growth, what was left out, and the machine."""
    peers = list(rows[0].peers)
    times = {
        "native": [row.training for row in rows],
        "native, evaluated": [row.whole_protocol for row in rows],
        **{peer: [row.peers[peer].microseconds for row in rows] for peer in peers},
    }
    ratios = {peer: [row.peers[peer].ratio for row in rows] for peer in peers}
    kernel: dict[str, list[object]] = {
        "one thread, µs": [row.one_thread for row in rows],
        "all cores by one": [row.speed_up for row in rows],
        "MFLOP a step": [f"{row.flops / 1e6:.3g}" for row in rows],
        "of matmul peak": [row.of_peak for row in rows],
    }
    compared: list[RenderableType] = [_table("times the native engine's, training only", rows, ratios), Text()]
    return [
        _table("µs per step and run, all cores busy", rows, times),
        Text(f"{EXPLAINED}\n", style="dim"),
        *(compared if peers else []),
        _table("native, training only", rows, kernel),
        Text(),
        *_growth(growth),
        *_losses(rows),
        *[Text(f"left out: {name}, because {why}", style="yellow") for name, why in left_out.items()],
        pairs_table(machine.items()),
    ]


def _table(title: str, rows: Sequence[Row], lines: Mapping[str, Sequence[object]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("m,d_model,h,D_K", no_wrap=True)
    for row in rows:
        shape = row.shape
        table.add_column(
            f"{shape.items},{shape.d_model},{shape.heads},{shape.key_budget}", justify="right", no_wrap=True
        )
    for name, cells in lines.items():
        table.add_row(name, *map(str, cells))
    return table


def _growth(growth: Growth) -> list[RenderableType]:
    sizes = [shape.d_model * shape.key_budget for shape in growth.shapes]
    pairs = ", ".join(f"{size}: {time.median:.3g}" for size, time in zip(sizes, growth.microseconds, strict=True))
    return [
        Text(f"one thread, µs by d_model·D_K: {pairs}"),
        Text(f"a straight line fits these to within {growth.off_the_line:.1%}"),
    ]


def _losses(rows: Sequence[Row]) -> list[RenderableType]:
    """Contenders that do not arrive at the same loss do not do the same work."""
    astray = [
        f"{peer} on ({row.shape}): loss {versus.loss:.4g}, native {versus.native_loss:.4g}"
        for row in rows
        for peer, versus in row.peers.items()
        if not versus.agrees
    ]
    if astray:
        return [Text(f"not the same training: {line}", style="bold red") for line in astray]
    compared = sorted({name for row in rows for name, versus in row.peers.items() if versus.native_loss is not None})
    return [Text(f"{' and '.join(compared)} end at the native engine's loss on every shape")] if compared else []
