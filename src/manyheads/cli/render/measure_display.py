"""Watching a measurement: the curves filling in where somebody looks on, a line now and then in a log."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from manyheads.capacity import Bracket, Goal, MeasureProgress, Point

LINE_EVERY = 10.0
BLOCKS = " ▁▂▃▄▅▆▇█"


@contextmanager
def watching(goal: Goal) -> Iterator[Callable[[MeasureProgress], None]]:
    """A callback that shows, on stderr, where a measurement stands."""
    with (_live if sys.stderr.isatty() else _lines)(goal) as report:
        yield report


@contextmanager
def _live(goal: Goal) -> Iterator[Callable[[MeasureProgress], None]]:
    from rich.console import Console
    from rich.live import Live

    begun = time.monotonic()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=8) as live:
        yield lambda watch: live.update(picture(watch, goal, time.monotonic() - begun))


@contextmanager
def _lines(goal: Goal) -> Iterator[Callable[[MeasureProgress], None]]:
    begun = time.monotonic()
    due = begun + LINE_EVERY

    def report(watch: MeasureProgress) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + LINE_EVERY
            print(f"measure: {standing(watch, now - begun)}", file=sys.stderr, flush=True)

    yield report


def picture(watch: MeasureProgress, goal: Goal, seconds: float) -> RenderableType:
    """A bar for all, and a row a head count: its bracket, and every key budget tried, as tall as its score."""
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
    stack.add_row(Text(standing(watch, seconds)))
    stack.add_row(ProgressBar(total=watch.trained + watch.left, completed=watch.trained, width=60))
    stack.add_row(table)
    return stack


def standing(watch: MeasureProgress, seconds: float) -> str:
    """Where the measurement stands, in one line."""
    rate = watch.trained / seconds if seconds > 0 else 0.0
    left = f", {timedelta(seconds=round(watch.left / rate))} left" if rate else ""
    best = "nothing works yet" if watch.best is None else f"smallest D_K that works so far {watch.best}"
    return f"{watch.trained} runs done, about {watch.left} to go{left}; {best}"


def _bracket(bracket: Bracket) -> Text:
    """The last width that failed, the one being tried, the first that works."""
    from rich.text import Text

    if bracket.looking is None:
        if bracket.passed is not None:
            return Text(str(bracket.passed), style="green")
        return Text(f"> {bracket.failed}" if bracket.failed else "–", style="dim")  # hopeless, or not yet begun
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
