"""What people see of a bench: times, ratios and what they say about the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from manyheads.cli.commands.bench import Growth, Row
from manyheads.cli.render.certificate_table import pairs_table

EXPLAINED = (
    "Training only, the best of many short slices, but for native, evaluated: the mean of 20,000 steps with their 40 "
    "validation checks and the test. "
    "PyTorch: the eager loop as one would write it; tuned: with the quickest calls that were found. Drawing: "
    "contexts drawn in the loop, as native does; the other peers find them prepared. "
    "± is half the range over the rounds."
)


def shown(
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
        "of matmul peak": [row.of_peak or "" for row in rows],
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
