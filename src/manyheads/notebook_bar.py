"""Bars in notebooks: a function of `manyheads` that can take long shows its progress in the output of its cell.

rich's own display in notebooks needs ipywidgets, and leaves nothing in a saved notebook. Here rich draws the bar as
HTML and as text into one output of the cell, which is replaced twice a second and stays in the notebook.

Outside of notebooks the functions are those of their rooms, unchanged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import wraps
from inspect import signature
from io import StringIO
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any

from manyheads.text import shown_text

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

    from manyheads.block import BlockCheck
    from manyheads.fitting import FitOptions, ShapeTrial
    from manyheads.training import Check, Run

SHOW_AFTER, EVERY = 1.0, 0.5  # seconds before a bar appears, and between two pictures of it
WIDTH = 110  # characters of a line
HTML = '<pre style="white-space: pre; overflow-x: auto; line-height: normal">{code}</pre>'


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class NotebookBar:
    """A bar in the output of the cell that runs. It appears when the work inside the `with` takes longer than a second.

    A thread of its own draws the bar: a callback only notes the state, and the bar moves while no callback is called.

    Args:
        what: The name of the work.
    """

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self.limit: float | None = None  # the time limit of the work in seconds: the bar is full at its end
        self._console = Console(
            file=StringIO(), record=True, width=WIDTH, color_system="truecolor", force_jupyter=False, _environ={}
        )
        columns = [TextColumn("{task.description}", markup=False), BarColumn(30), TaskProgressColumn()]
        text = TextColumn("{task.fields[text]}", markup=False)
        self._progress = Progress(*columns, TimeElapsedColumn(), text, console=self._console)
        self._task = self._progress.add_task(what, total=None, text="")
        self._begun, self._over = time.monotonic(), Event()
        self._handle: DisplayHandle | None = None
        # the thread writes into the cell in whose context it was made
        self._thread = Thread(target=copy_context().run, args=(self._watch,), daemon=True)

    def show(self, text: str = "", *, done: int | float | None = None, total: int | float | None = None) -> None:
        """Note the state of the work; the bar shows it within half a second."""
        self._progress.update(self._task, completed=done, total=total, text=shown_text(text))

    def __enter__(self) -> NotebookBar:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._handle is not None:
            self._draw(ended=error is None)

    def _watch(self) -> None:
        wait = SHOW_AFTER
        while not self._over.wait(wait):
            self._draw()
            wait = EVERY

    def _draw(self, *, ended: bool = False) -> None:
        from IPython.display import display

        if ended:
            self._progress.update(self._task, completed=1, total=1)
        elif self.limit is not None:
            seconds = time.monotonic() - self._begun
            self._progress.update(self._task, completed=min(seconds, self.limit), total=self.limit)
        self._console.print(self._progress)
        shown = {
            "text/plain": self._console.export_text(clear=False).rstrip(),
            "text/html": self._console.export_html(inline_styles=True, code_format=HTML),
        }
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


Given = dict[str, Any]  # the arguments of a call by their names, without those that have their defaults


def _watch_nothing(bar: NotebookBar, given: Given) -> None:
    """The bar shows the time: the function reports no progress."""


def _watch_parts(bar: NotebookBar, given: Given) -> None:
    given["progress"] = lambda done, total: bar.show(done=done, total=total)


def _watch_fit(bar: NotebookBar, given: Given) -> None:
    options = _options(given)
    if options is not None:
        bar.limit = options.time_limit
        given["options"] = replace(options, progress=lambda state: bar.show(str(state)))


def _watch_search(bar: NotebookBar, given: Given) -> None:
    from manyheads.fitting.shape_search import SECONDS

    options, trials = _options(given), 0
    best: int | None = None
    if options is None:
        return
    bar.limit = given.get("time_limit") or options.time_limit or (None if options.trials else SECONDS)

    def report(trial: ShapeTrial) -> None:
        nonlocal trials, best
        trials += 1
        if trial.certified and (best is None or trial.key_budget < best):
            best = trial.key_budget
        told = "nothing certified yet" if best is None else f"smallest key budget so far {best}"
        bar.show(f"{trials} trials, {told}", done=trials, total=None if bar.limit else options.trials)

    given["options"] = replace(options, report=report)


def _options(given: Mapping[str, Any]) -> FitOptions | None:
    """The options of a fit; None if they have a callback of the user, or if they are no options."""
    from manyheads.fitting import FitOptions

    options = given.get("options", FitOptions())
    if isinstance(options, FitOptions) and options.progress is None and options.report is None:
        return options
    return None


def _watch_measurement(bar: NotebookBar, given: Given) -> None:
    given["progress"] = lambda state: bar.show(state.line(), done=state.trained, total=state.trained + state.left)


def _watch_training(bar: NotebookBar, given: Given) -> None:
    def check(run: Run, state: Check) -> None:
        bar.show(f"step {state.step:,}, score {state.score:.3f}", done=state.step, total=run.protocol.steps)

    given["progress"] = check


def _watch_blocks(bar: NotebookBar, given: Given) -> None:
    def check(states: Sequence[BlockCheck]) -> None:
        if states:
            accuracies = ", ".join(f"{state.accuracy:.3f}" for state in states[:4])
            bar.show(f"{len(states)} blocks, step {states[0].step:,}, accuracy {accuracies}")

    given["progress"] = check


def _watch_exclusion(bar: NotebookBar, given: Given) -> None:
    bar.limit = given.get("time_limit")
    given["progress"] = lambda step, wrong, lacking: bar.show(
        f"step {step}: {wrong:,} pairs wrong, {lacking:,} signs lacking in the proof"
    )


# The public functions that can take longer than two seconds, and how a bar watches each of them.
WATCHED: Mapping[str, Callable[[NotebookBar, Given], None]] = {
    "fit": _watch_fit,
    "grow": _watch_fit,
    "smallest": _watch_search,
    "measure": _watch_measurement,
    "train": _watch_training,
    "train_blocks": _watch_blocks,
    "certify": _watch_parts,
    "exclude": _watch_exclusion,
    "check_exclusion": _watch_nothing,
    "audit": _watch_nothing,
    "plan": _watch_nothing,
    "paper": _watch_nothing,
    "published_rows": _watch_nothing,
    "draw": _watch_nothing,
    "read_graph": _watch_nothing,
    "read_embedding": _watch_nothing,
    "write_export": _watch_nothing,
}
_made: dict[str, Callable[..., object]] = {}  # by name: pickle needs the same object for a name each time


def with_bar(name: str, value: Any) -> Any:
    """The value of a public name, for a notebook.

    Args:
        name: A name of `manyheads`.
        value: The value in its room.

    Returns:
        A function that can take long: the function with a bar, which the caller's own callback replaces. Any other
        value: the value.
    """
    if name not in WATCHED or not in_notebook():
        return value
    if name not in _made:
        _made[name] = _watched(name, value)
    return _made[name]


def _watched(name: str, function: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            bound = signature(function).bind(*args, **kwargs)
        except TypeError:  # the function says what is wrong
            return function(*args, **kwargs)
        given: Given = bound.arguments
        if given.get("progress") is not None or (name in ("fit", "grow", "smallest") and _options(given) is None):
            return function(*args, **kwargs)
        with NotebookBar(name) as bar:
            WATCHED[name](bar, given)
            return function(*bound.args, **bound.kwargs)

    call.__module__, call.__qualname__ = "manyheads", name  # another process unpickles the function of the room
    return call
