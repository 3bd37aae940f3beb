"""Progress in a terminal: a bar appears by itself, also where the first step takes long."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WORK = """
import time
from manyheads.cli.render.progress import progress
with progress("measure the rows") as report:
    time.sleep({begin})
    print("the first step is done", flush=True)
    report(1, 2)
"""


def on_a_terminal(begin: float) -> bytes:
    """What work shows on a terminal whose first step takes `begin` seconds."""
    terminal, end = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-c", WORK.format(begin=begin)], stderr=end, stdout=end, env=environment
    ) as process:
        os.close(end)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # Linux says so at the end
                break
            if not part:
                break
            shown += part
    os.close(terminal)
    assert process.returncode == 0
    return shown


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_a_bar_appears_before_the_first_step_is_done() -> None:
    shown = on_a_terminal(1.5)
    before, _, _ = shown.partition(b"the first step is done")
    assert b"measure the rows" in before
    assert shown.rstrip().endswith((b"\x1b[?25h", b"\x1b[2K"))  # the bar is gone, and the cursor is back


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_short_work_shows_no_bar() -> None:
    shown = on_a_terminal(0.0)
    assert b"measure the rows" not in shown
