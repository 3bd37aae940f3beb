"""A short dose of the attack on processes; `python -m attack.kills 1000 --dask 100` is the long one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_measurement_that_is_killed_again_and_again_has_the_same_answer_and_rows() -> None:
    pytest.importorskip("distributed")
    search = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "attack.kills", "12", "--dask", "1"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": search},
        timeout=300,
    )
    assert done.stdout, done.stderr
    counts = json.loads(done.stdout)["kills"]
    assert "failed" not in counts, done.stderr
    assert done.returncode == 0
    assert sum(counts.get(name, 0) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")) >= 11
    assert counts["dask scheduler"] == 1  # its end is one line
