"""`manyheads` and `python -m manyheads`: Ctrl-C and the streams are prepared before anything large is imported."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the imports of `typing` and `signal` take time, in which Ctrl-C would be a traceback
if TYPE_CHECKING:
    import signal
    from types import FrameType, TracebackType
else:
    import _signal as signal  # the compiled part of `signal`

INTERRUPTED = 130  # the exit code after Ctrl-C
IMPORTS = "<frozen importlib._bootstrap>"
AGAIN = 0.02  # seconds until a Ctrl-C that came too early is tried again

_interrupted = False
_finished = False


def main() -> int:
    """Run the command that the words of this process name.

    Returns:
        The exit code: 0 for yes, 1 for no, 2 for bad input, 130 after Ctrl-C.
    """
    global _finished
    code = INTERRUPTED
    try:
        sys.excepthook, sys.unraisablehook = _uncaught, _unraisable
        # A shell starts background work with SIGINT ignored: this stays.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        _open_streams()
        from manyheads.cli import main as run_command

        code = INTERRUPTED if _interrupted else run_command()
    except BaseException:
        if not _interrupted:
            raise
    _finished = True
    signal.setitimer(signal.ITIMER_REAL, 0)  # a Ctrl-C that waits has no work left to end
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not inside an import: there, compiled modules turn it into other errors."""
    global _interrupted
    if _finished or (_interrupted and number == signal.SIGINT and _imports(frame)):
        os._exit(INTERRUPTED)  # the answer is printed; or a second Ctrl-C in a long import
    _interrupted = True
    if _imports(frame):
        _later()
    else:
        raise KeyboardInterrupt


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTS:
            return True
        frame = frame.f_back
    return False


def _later() -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """No traceback after Ctrl-C, whatever the interruption was turned into."""
    if not _interrupted:
        sys.__excepthook__(kind, error, trace)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """A Ctrl-C inside a destructor would be lost: try it again."""
    if not issubclass(found.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(found)
    elif not _finished:
        _later()


def _open_streams() -> None:
    """Lead closed streams to the null device, so that no file gets the number of a stream."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
