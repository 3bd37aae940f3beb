"""Progress of long work, on stderr: something that moves where somebody watches, now and then a line in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHOW_AFTER = 0.5  # seconds: what is done sooner shows nothing
LINE_EVERY = 10.0


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for `done` of `total` steps of the work inside the `with`."""
    if not sys.stderr.isatty():
        with _lines(what) as line:
            yield lambda done, total: line(f"{done} of {total} ({done / total:.0%})")
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task, begun = bar.add_task(what), time.monotonic()

    def report(done: int, total: int) -> None:
        if time.monotonic() - begun >= SHOW_AFTER:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def status(what: str) -> Iterator[Callable[[str], None]]:
    """A callback for what the work inside the `with` has come to, where nobody knows how much there is."""
    if not sys.stderr.isatty():
        with _lines(what) as line:
            yield line
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as spinner:
        yield lambda text: spinner.update(f"{what}: {text}")


@contextmanager
def _lines(what: str) -> Iterator[Callable[[str], None]]:
    due = time.monotonic() + LINE_EVERY

    def line(text: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_EVERY
            print(f"{what}: {text}", file=sys.stderr, flush=True)

    yield line
