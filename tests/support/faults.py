"""Planted faults: each one is put into a copy of the package, and the tests named with it must fail.

`make faults` (a part of CI) plants them all. The list is faults.toml. A fault that no test finds means that a check has
been lost: put the check back, or plant the fault elsewhere if the code has changed. Run some by their numbers, e.g.
`faults.py 3 7`. The same tests also run once on a copy without a fault, where they must pass.

Only Python can be changed in this way. Faults of the compiled kernels (native/) are left out: each would need a build
of its own. Those kernels are compared with numpy and PyTorch in tests/native, tests/training and tests/fitting.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 600  # seconds after which tests count as hanging: far more than all tests of the list take

# Python runs this file at its start, in the process of the tests and in every process that they start. The finder of an
# editable install would import the right package instead of the copy, so it is removed.
SITE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
"""


@dataclass(frozen=True)
class Fault:
    """A change of one place in the source that makes the package wrong.

    Attributes:
        what: The mistake, in one sentence.
        file: The module, below src/manyheads.
        right: The text that stands there, exactly once.
        wrong: The text that is planted in its place.
        tests: The tests of which at least one must fail, as pytest names them.
    """

    what: str
    file: str
    right: str
    wrong: str
    tests: str

    def places(self) -> int:
        """How often the text to be replaced occurs in the module."""
        return (ROOT / "src" / "manyheads" / self.file).read_text().count(self.right)


FAULTS = tuple(
    Fault(**fault) for fault in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["fault"]
)


def is_found(fault: Fault) -> bool:
    """Whether the tests fail on a copy of the package with the fault in it."""
    if fault.places() != 1:
        raise ValueError(f"{fault.file} has {fault.places()} places with {fault.right!r}, not one")
    with tempfile.TemporaryDirectory() as folder:
        file = copy_package(folder) / fault.file
        file.write_text(file.read_text().replace(fault.right, fault.wrong))
        return not tests_pass(fault.tests.split(), folder)


def require_passing(faults: Sequence[Fault]) -> None:
    """Run the tests of these faults on a copy without a fault.

    Raises:
        ValueError: A test fails there too, so that its failure would show nothing.
    """
    tests = list(dict.fromkeys(test for fault in faults for test in fault.tests.split()))
    with tempfile.TemporaryDirectory() as folder:
        copy_package(folder)
        if not tests_pass(tests, folder):
            raise ValueError("a test of the list fails without any fault: run `make unit`")


def copy_package(folder: str) -> Path:
    """Copy the source and the compiled modules, which lie beside it or where an editable install has put them."""
    package = Path(folder) / "manyheads"
    shutil.copytree(ROOT / "src" / "manyheads", package, ignore=shutil.ignore_patterns("__pycache__"))
    for compiled in Path(str(import_module("manyheads._cpu").__file__)).parent.glob("_*.so"):
        if not (package / compiled.name).exists():
            shutil.copy(compiled, package)
    (Path(folder) / "sitecustomize.py").write_text(SITE)
    return package


def tests_pass(tests: Sequence[str], folder: str) -> bool:
    """Whether the tests pass with the package in this folder.

    Raises:
        ValueError: pytest could not run the tests: a name is wrong, or the package cannot be imported.
    """
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib"]
    environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip
    if done.returncode not in (0, 1) or "ERROR collecting" in done.stdout:
        said = done.stdout[-2000:] + done.stderr[-2000:]
        raise ValueError(f"{' '.join(tests)}: pytest exits with {done.returncode}\n{said}")
    return done.returncode == 0


def main(numbers: list[str]) -> int:
    """Plant the faults of these numbers, or all; 1 if one is not found."""
    chosen = [int(number) for number in numbers] or list(range(1, len(FAULTS) + 1))
    started = time.monotonic()

    def plant(number: int) -> bool:
        begun, fault = time.monotonic(), FAULTS[number - 1]
        caught = is_found(fault)
        mark = "found    " if caught else "NOT FOUND"
        print(f"{number:3} {mark} {time.monotonic() - begun:3.0f} s  {fault.file}: {fault.what}", flush=True)
        return caught

    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        control = pool.submit(require_passing, [FAULTS[number - 1] for number in chosen])
        found = list(pool.map(plant, chosen))
        control.result()
    print(f"{sum(found)} of {len(found)} planted faults are found, {time.monotonic() - started:.0f} s")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
