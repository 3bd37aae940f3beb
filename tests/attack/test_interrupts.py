"""A short dose of signals at random moments; `python -m attack.interrupts 500` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from attack.interrupts import FAILURES, SOURCE, attack

COUNT = 4  # one of each command


def test_signals_at_random_moments() -> None:
    counts = attack(COUNT, ["compile", "plan", "results", "certify"], seed=1, span=0.8)
    total: Counter[str] = sum(counts.values(), Counter())
    assert not any(total[failure] for failure in FAILURES), counts
    assert sum(total.values()) == COUNT


def test_three_small_modules_come_before_the_handler() -> None:
    """Ctrl-C in their imports is a traceback: the time from the first line of the console script is to be short."""
    code = "import os, sys; before = set(sys.modules); import manyheads.__main__; print(*set(sys.modules) - before)"
    done = subprocess.run(  # -S: an editable install has a finder with imports of its own
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    imported = {name for name in done.stdout.split() if not name.startswith("_")}
    assert imported == {"manyheads", "manyheads.__main__", "manyheads.lazy"}


SLOW = """
import os, signal, sys, threading, time
threading.Timer({delay}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
time.sleep({length})
"""


def with_module(tmp_path: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`manyheads --version` where the import of tyro, the first large module, does something else before."""
    real = f"\nimport sys\nsys.path.remove({str(tmp_path)!r})\ndel sys.modules['tyro']\nimport tyro\n"
    (tmp_path / "tyro.py").write_text(text + real)
    search = os.pathsep.join([str(tmp_path), SOURCE])
    return subprocess.run(
        [sys.executable, "-m", "manyheads", "--version"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": search, **environment},
        timeout=60,
    )


def test_ctrl_c_in_an_import_waits_for_its_end(tmp_path: Path) -> None:
    """Compiled modules print an exception inside their import, and raise an ImportError."""
    wrapped = "try:\n    " + SLOW.format(delay=0.05, length=0.3).strip().replace("\n", "\n    ")
    caught = "except KeyboardInterrupt:\n    print('Traceback', file=sys.stderr)\n    raise ImportError from None\n"
    done = with_module(tmp_path, f"{wrapped}\n{caught}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_second_ctrl_c_ends_an_import(tmp_path: Path) -> None:
    twice = SLOW.format(delay=0.05, length=0) + SLOW.format(delay=0.2, length=30)
    done = with_module(tmp_path, twice)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    text = """
import builtins, os, signal, time
class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
def once(*words, real=print, **options):
    builtins.print = real
    late = Late()
    del late
    time.sleep(30)
builtins.print = once
"""
    done = with_module(tmp_path, text)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "manyheads: interrupted\n")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = "import signal; from manyheads.__main__ import main; main(); signal.raise_signal(2); print('went on')"
    line = f'trap "" INT; "$0" -c "{code}" --version'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    assert done.stdout.startswith("manyheads "), done.stderr
    assert done.stdout.endswith("went on\n")
