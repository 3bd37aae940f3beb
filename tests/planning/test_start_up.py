"""Plan and audit answer in under a second: they import no package that takes longer to import than to use."""

from __future__ import annotations

import os
import subprocess
import sys

SLOW = {"matplotlib", "scipy.sparse", "scipy.stats", "torch"}
PROGRAM = f"""
import sys
import manyheads
manyheads.plan(items=64, relations=64, d_model=16)
manyheads.audit("gpt2")
print(sorted({SLOW!r} & set(sys.modules)))
"""


def test_plan_and_audit_import_no_slow_package() -> None:
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=here, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
