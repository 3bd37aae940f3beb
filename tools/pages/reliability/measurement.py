"""Run the attacks of tests/attack in their long dose, in parts, and count the outcomes.

A part is stored when it ends. Parts that are stored are not run again: delete docs/data/reliability.csv to run all.
`--workers 2` runs two parts at the same time; `--only NAME` runs the parts of one attack.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tools.pages.catalogue import Settings
from tools.pages.reliability.text import NAME, is_failure
from tools.pages.rows import DOCS, Row, machine_rows, read_rows, write_rows


@dataclass(frozen=True)
class Attack:
    """An attack in parts: the module of tests/attack, the cases of all parts and of one part, and its words.

    In the words {count} is the number of cases of a part, {first} the number of its first case, {part} the number of
    the part.
    """

    module: str
    cases: int
    size: int
    words: str

    def parts(self) -> Iterator[tuple[int, list[str]]]:
        """The number of each part, and its words."""
        for part, first in enumerate(range(0, self.cases, self.size)):
            count = min(self.size, self.cases - first)
            yield part, self.words.format(count=count, first=first, part=part).split()


ATTACKS = {
    "files": Attack("files", 100_000, 4_000, "{count} --first {first} --json"),
    "certificates": Attack("certificates", 150_000, 3_000, "{count} {first}"),
    "kills": Attack("kills", 1_000, 50, "{count} --seed {part}"),
    "dask": Attack("kills", 100, 10, "0 --dask {count} --seed {part}"),
    "stores": Attack("stores", 3_000, 500, "{count} --first {first}"),
    "numbers": Attack("numbers", 9_000, 1_000, "{count} --first {first} --torch"),
    "signals": Attack("interrupts", 500, 50, "{count} --seed {part}"),
    "fuzzing": Attack("fuzz", 9, 1, "180 --number {part}"),  # a part is a reader
}
PARTS = tuple(ATTACKS)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the parts share the cores


def measure(settings: Settings) -> None:
    """Run the parts that have no row, two or more at the same time."""
    rows = read_rows(NAME)
    stored = {(row["attack"], row["part"]) for row in rows}
    has_fuzzer = find_spec("atheris") is not None
    if not has_fuzzer:
        print("atheris is not installed: the readers are not fuzzed (pip install atheris)")
    missing = [
        (name, part, words)
        for name, attack in ATTACKS.items()
        if settings.only in (None, name) and (has_fuzzer or name != "fuzzing")
        for part, words in attack.parts()
        if (name, part) not in stored
    ]
    # all attacks advance at the same rate, so that a run that is ended early has some parts of each
    missing.sort(key=lambda one: one[1] * ATTACKS[one[0]].size / ATTACKS[one[0]].cases)
    with ThreadPoolExecutor(settings.workers) as pool:
        for ended in as_completed([pool.submit(run, *part) for part in missing]):
            made = ended.result()
            rows = sorted([*rows, *made], key=lambda row: (PARTS.index(row["attack"]), row["part"]))
            write_rows(NAME, rows)
            failed = sum(row["cases"] for row in made if is_failure(row["outcome"]))
            cases, one = sum(row["cases"] for row in made), made[0]
            print(f"{one['attack']} {one['part']}: {cases:,} cases, {failed} failed, {one['seconds']} s", flush=True)
    write_rows(f"{NAME}-machine", [*machine_rows(), {"fact": "cores", "value": os.cpu_count()}])


def run(name: str, part: int, words: Sequence[str]) -> list[Row]:
    """Run a part of an attack: a row for each outcome. The errors of the attack are shown."""
    root = DOCS.parent
    search = os.pathsep.join([str(root / "src"), str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", f"attack.{ATTACKS[name].module}", *words]
    begun = time.monotonic()
    with subprocess.Popen(
        command, cwd=root, env=os.environ | ONE_THREAD | {"PYTHONPATH": search}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # the usage includes the children of the attack
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu = round(time.monotonic() - begun), round(usage.ru_utime + usage.ru_stime)
    try:
        found: Mapping[str, Mapping[str, Any]] = json.loads(said[said.index("{") :])
    except ValueError:
        raise SystemExit(f"the attack {name} printed no counts, exit code {process.returncode}") from None
    return [
        {"attack": name, "part": part, "kind": kind, "outcome": outcome, "cases": cases, "seconds": seconds, "cpu": cpu}
        for kind, counts in found.items()
        for outcome, cases in sorted(counts.items())
        if cases
    ]
