"""Run the attacks of tests/attack in their long dose, and count the outcomes.

An attack whose rows are stored is run again only if `--only` names it: delete docs/data/reliability.csv to run all.
`--share 1/10` runs a tenth of the cases; the rows say how many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tools.pages.catalogue import Settings
from tools.pages.reliability.text import NAME, is_failure
from tools.pages.rows import DOCS, Row, machine_rows, read_rows, write_rows

# the module of tests/attack and its words: the numbers of cases
ATTACKS = {
    "files": ("files", "100000", "--json"),
    "stores": ("stores", "2000"),
    "numbers": ("numbers", "5000"),
    "signals": ("interrupts", "500"),
    "certificates": ("certificates", "100000"),
    "kills": ("kills", "1000", "--dask", "100"),
}
PARTS = tuple(ATTACKS)


def measure(settings: Settings) -> None:
    """Run the attacks that have no row, or only the one that the settings name."""
    rows, part = read_rows(NAME), int(settings.share.partition("/")[2])
    for attack, (module, *dose) in ATTACKS.items():
        words = [str(int(word) // part) if word.isdigit() else word for word in dose]
        if settings.only != attack and (settings.only or any(row["attack"] == attack for row in rows)):
            continue
        begun = time.monotonic()
        counts = outcomes(run(module, words))
        seconds = round(time.monotonic() - begun)
        rows = [row for row in rows if row["attack"] != attack]
        made: list[Row] = [
            {"attack": attack, "words": " ".join(words), "outcome": outcome, "cases": cases, "seconds": seconds}
            for outcome, cases in sorted(counts.items())
        ]
        rows += made
        failed = sum(row["cases"] for row in made if is_failure(row["outcome"]))
        print(f"{attack}: {sum(counts.values()):,} cases, {failed} failed, {seconds} s", flush=True)
        write_rows(NAME, sorted(rows, key=lambda row: PARTS.index(row["attack"])))
    write_rows(f"{NAME}-machine", [*machine_rows(), {"fact": "cores", "value": os.cpu_count()}])


def run(module: str, words: list[str]) -> Any:
    """The JSON that an attack prints last. Its errors are shown."""
    root = DOCS.parent
    search = os.pathsep.join([str(root / "src"), str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", f"attack.{module}", *words]
    ended = subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": search}, stdout=subprocess.PIPE, text=True
    )
    try:
        return json.loads(ended.stdout[ended.stdout.index("{") :])
    except ValueError:
        raise SystemExit(f"the attack {module} printed no counts, exit code {ended.returncode}") from None


def outcomes(found: Mapping[str, Any]) -> Counter[str]:
    """How often each outcome occurred, over all kinds of cases that an attack distinguishes."""
    if "failures" in found:  # kills: a list of sentences beside the counts
        return Counter(found["counts"]) + Counter({"failed": len(found["failures"])})
    if "all" in found:
        return Counter(found["all"])
    if all(isinstance(count, int) for count in found.values()):
        return Counter(found)
    total: Counter[str] = Counter()
    for counts in found.values():
        total.update(counts)
    return total
