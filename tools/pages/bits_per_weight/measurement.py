"""Find the smallest d_model at which one head holds a permutation; all other rows are those of other pages.

Where the table one-head has rows, the page reads them instead of these. The tables bits-per-weight-real and
bits-per-weight-neighbours are typed in from the page, or the paper, that their rows name.
"""

from __future__ import annotations

import math

from manyheads import exclude
from manyheads.bounds import freedom_needed
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.rows import Row, machine_rows, matching, read_rows, write_rows

PARTS = ("one-head",)
NAME = "bits-per-weight-one-head"
SIZES = (64, 128)


def decide(items: int, d_model: int) -> Row:
    """Whether one head holds the permutation of seed 0, with a proof either way."""
    found = exclude(Task(f"permutation:{items}", f"gaussian:{d_model}").draw(0))
    sizes = {"family": "permutation", "items": items, "relations": items, "d_model": d_model, "seed": 0}
    return {**sizes, "verdict": found.verdict, "seconds": found.seconds}


def measure(settings: Settings) -> None:
    """Decide from the law on upwards until a head holds, then downwards until none does."""
    rows = read_rows(NAME)
    for items in SIZES:
        if matching(rows, items=items):
            continue
        d_model = round(math.sqrt(float(freedom_needed(items=items, relations=items, heads=1))))
        here = [decide(items, d_model)]
        while here[-1]["verdict"] != "held":
            here.append(decide(items, here[-1]["d_model"] + 1))
        low = here[0]["d_model"]
        while not matching(here, verdict="excluded"):
            low -= 1
            here.append(decide(items, low))
        rows += sorted(here, key=lambda row: int(row["d_model"]))
        write_rows(NAME, rows)
        print(here, flush=True)
    write_rows("bits-per-weight-machine", machine_rows())
