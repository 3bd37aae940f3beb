"""Progress of long work, on stderr: a bar or curves that move in a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

from manyheads.cli.render.answer import say, shown_console

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from manyheads.capacity import Bracket, Goal, MeasureProgress, Point

SHOW_AFTER = 0.5  # seconds: shorter work shows no bar
LINE_EVERY = 10.0  # seconds between two lines of a log
BLOCKS = " ▁▂▃▄▅▆▇█"


def say_notes(notes: Sequence[str], store: Path) -> None:
    """Print what a user should know about a store, a line each, on stderr."""
    for note in notes:
        say(f"manyheads: {store}: {note}")


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for `done` of `total` steps of the work inside the `with`.

    In a terminal the bar appears by itself, also before the first step is done.
    """
    if not sys.stderr.isatty():
        with _lines(what) as line:
            yield lambda done, total: line(f"{done} of {total} ({done / total:.0%})")
        return
    from rich.progress import Progress

    bar = Progress(console=shown_console(stderr=True), transient=True)
    task, begin = bar.add_task(what, total=None), Timer(SHOW_AFTER, bar.start)
    begin.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        begin.cancel()
        begin.join()
        bar.stop()


@contextmanager
def status(what: str) -> Iterator[Callable[[str], None]]:
    """A callback for a line about the work inside the `with`, if the amount of work is not known."""
    if not sys.stderr.isatty():
        with _lines(what) as line:
            yield line
        return
    with shown_console(stderr=True).status(what) as spinner:
        yield lambda text: spinner.update(f"{what}: {text}")


@contextmanager
def watching(goal: Goal) -> Iterator[Callable[[MeasureProgress], None]]:
    """A callback that shows the state of a measurement on stderr."""
    begun = time.monotonic()
    if not sys.stderr.isatty():
        with _lines("measure") as line:
            yield lambda watch: line(watch_line(watch, time.monotonic() - begun))
        return
    from rich.live import Live

    with Live(console=shown_console(stderr=True), transient=True, refresh_per_second=8) as live:
        yield lambda watch: live.update(watch_table(watch, goal, time.monotonic() - begun))


def watch_table(watch: MeasureProgress, goal: Goal, seconds: float) -> RenderableType:
    """A bar for all runs, and a row for each head count: its bracket, and a block for each key budget's score."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    low, high = _span(watch.points)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("heads", "width", f"score by D_K, {low} to {high}"):
        table.add_column(heading, justify="left" if heading.startswith("score") else "right", no_wrap=True)
    for heads, bracket in sorted(watch.brackets.items()):
        own = [point for point in watch.points if point.heads == heads and point.scores]
        table.add_row(str(heads), _bracket(bracket), _strip(own, goal, low, high))
    stack = Table.grid()
    stack.add_row(Text(watch_line(watch, seconds)))
    stack.add_row(ProgressBar(total=watch.trained + watch.left, completed=watch.trained, width=60))
    stack.add_row(table)
    return stack


def watch_line(watch: MeasureProgress, seconds: float) -> str:
    """The state of a measurement in one line."""
    rate = watch.trained / seconds if seconds > 0 else 0.0
    return watch.line(f", {timedelta(seconds=round(watch.left / rate))} left" if rate else "")


def _bracket(bracket: Bracket) -> Text:
    """The largest width that failed, the width that is tried now, the smallest width that works."""
    from rich.text import Text

    if bracket.looking is None:
        if bracket.passed is not None:
            return Text(str(bracket.passed), style="green")
        return Text(
            f"> {bracket.failed}" if bracket.failed else "–", style="dim"
        )  # no width can be the best, or the search has not begun
    first = "…" if bracket.passed is None else str(bracket.passed)
    return Text.assemble((f"{bracket.failed} < ", "dim"), (str(bracket.looking), "bold"), (f" ≤ {first}", "dim"))


def _span(points: Sequence[Point]) -> tuple[int, int]:
    budgets = [point.key_budget for point in points] or [1]
    return min(budgets), max(budgets)


def _strip(points: Sequence[Point], goal: Goal, low: int, high: int) -> Text:
    """The curve in one line: a cell for a few key budgets, green where they work."""
    from rich.text import Text

    cells = 48
    best: dict[int, float] = {}
    for point in points:
        cell = round((point.key_budget - low) / max(high - low, 1) * (cells - 1))
        best[cell] = max(best.get(cell, 0.0), point.mean)
    line = Text()
    for cell in range(cells):
        mean = best.get(cell)
        line.append("·" if mean is None else _block(mean), "dim" if mean is None else _colour(mean, goal))
    return line


def _block(mean: float) -> str:
    # the last hundredths decide, so errors count by their logarithm: 0.9 is two blocks, 0.99 four, 0.999 six
    return BLOCKS[max(1, min(8, round(-2 * math.log10(max(1 - mean, 1e-4)))))]


def _colour(mean: float, goal: Goal) -> str:
    return "green" if mean >= goal.target else "red"


@contextmanager
def _lines(what: str) -> Iterator[Callable[[str], None]]:
    due = time.monotonic() + LINE_EVERY

    def line(text: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY
            say(f"{what}: {text}")

    yield line


def strip(values: Sequence[float], *, cells: int = 30) -> str:
    """A curve between 0 and 1 in one line; a long curve shows the last value of each stretch.

    >>> strip([0.0, 0.49, 0.5, 1.0])
    '▁▄▅█'
    """
    cells = min(cells, len(values))
    last = [values[(cell + 1) * len(values) // cells - 1] for cell in range(cells)]
    return "".join(BLOCKS[1 + min(7, int(8 * value))] for value in last)
