"""Planted faults: each one is put into a copy of the package, and the tests named with it must fail.

`make faults` (a part of CI) plants them one after another. A fault that no test finds means that a check has been lost:
put the check back, or plant the fault elsewhere if the code has changed. Run one by its number: `faults.py 3 7`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fault:
    """A change of one place in the source that makes the package wrong.

    Attributes:
        file: The module, below src/manyheads.
        right: The text that stands there, exactly once.
        wrong: What is planted in its place.
        tests: The tests of which at least one must fail, as pytest names them.
    """

    file: str
    right: str
    wrong: str
    tests: str


FAULTS: tuple[Fault, ...] = ()


def is_found(fault: Fault) -> bool:
    """Whether the tests fail on a copy of the package with the fault in it."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "manyheads"
        shutil.copytree(ROOT / "src" / "manyheads", package, ignore=shutil.ignore_patterns("__pycache__"))
        _copy_native(package)
        file = package / fault.file
        text = file.read_text()
        if text.count(fault.right) != 1:
            raise ValueError(f"{fault.file} has {text.count(fault.right)} places with {fault.right!r}, not one")
        file.write_text(text.replace(fault.right, fault.wrong))
        # the editable install's finder would hand out the right package: it is taken out before the tests are loaded
        run = (
            "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Redirecting' not in type(f).__name__]; "
            f"sys.path[:0] = [{folder!r}, {str(ROOT / 'tests')!r}]; import pytest; "
            "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', '-p', 'no:xdist', "
            "'-o', 'addopts=--import-mode=importlib', *sys.argv[1:]]))"
        )
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", run, *fault.tests.split()],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode not in (0, 1):  # neither passed nor failed: the tests could not be run at all
        said = done.stdout[-2000:] + done.stderr[-2000:]
        raise ValueError(f"{fault.tests}: pytest exits with {done.returncode}\n{said}")
    return done.returncode == 1


def _copy_native(package: Path) -> None:
    """The compiled module lies beside the source, or where the editable install has put it."""
    import manyheads._native as native

    here = Path(str(native.__file__)).parent
    for compiled in here.glob("_*.so"):
        if not (package / compiled.name).exists():
            shutil.copy(compiled, package)


def main(numbers: list[str]) -> int:
    """Plant the faults of these numbers, or all; 1 if one is not found."""
    chosen = [int(number) for number in numbers] or list(range(1, len(FAULTS) + 1))
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda number: is_found(FAULTS[number - 1]), chosen))
    for number, caught in zip(chosen, found, strict=True):
        fault = FAULTS[number - 1]
        planted = fault.wrong.strip().splitlines()[0][:70]
        print(f"{number:3} {'found    ' if caught else 'NOT FOUND'}  {fault.file}: {planted}")
    print(f"{sum(found)} of {len(found)} planted faults are found, {time.monotonic() - started:.0f} s")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
