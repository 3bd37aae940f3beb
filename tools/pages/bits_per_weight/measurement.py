"""Find where one head holds a permutation, and small layers for real relations; other rows are those of other pages.

Parts: one-head; shared, layers whose heads share keys; and real, which needs `--data FOLDER` with the files of the page
on one head. Where the table one-head has rows, the page reads them instead of the part one-head. The table
bits-per-weight-neighbours is typed in from the papers that its rows name.
"""

from __future__ import annotations

import math
from pathlib import Path

from manyheads import exclude
from manyheads.bounds import freedom_needed
from manyheads.fitting import smallest
from manyheads.training import Task
from tools.pages.catalogue import Settings
from tools.pages.one_head.measurement import commit, wordnet_problem
from tools.pages.rows import Row, machine_rows, matching, read_rows, write_rows

PARTS = ("one-head", "shared", "real")
NAME = "bits-per-weight-one-head"
SIZES = (64, 128)
REAL_SIZES, REAL_WIDTH, REAL_SECONDS = (256, 512), 64, 90.0
SHARED = tuple((items, 16, key_heads) for items in (64, 128) for key_heads in (None, 2, 1))
SHARED_SEEDS, SHARED_SECONDS = 3, 60.0


def decide(items: int, d_model: int) -> Row:
    """Whether one head holds the permutation of seed 0, with a proof either way."""
    found = exclude(Task(f"permutation:{items}", f"gaussian:{d_model}").draw(0))
    sizes = {"family": "permutation", "items": items, "relations": items, "d_model": d_model, "seed": 0}
    return {**sizes, "verdict": found.verdict, "seconds": found.seconds}


def fit_real(data: Path) -> list[Row]:
    """The smallest layers that certify in limited time, for WordNet's hypernyms over SmolLM2's leading directions."""
    rows: list[Row] = []
    for items in REAL_SIZES:
        problem = wordnet_problem(data, items)(REAL_WIDTH, 0)
        found = smallest(problem, time_limit=REAL_SECONDS)
        if found.layer is None:
            continue
        rows.append(
            {
                "name": f"WordNet's hypernyms among {items} tokens, SmolLM2's rows",
                "items": items,
                "relations": problem.relations,
                "d_model": problem.d_model,
                "heads": found.layer.heads,
                "key_width": found.layer.key_width,
                "trials": len(found.trials),
                "seconds": found.seconds,
                "commit": commit(),
            }
        )
        print(rows[-1], flush=True)
    return rows


def fit_shared() -> None:
    """The layers of fewest weights that certify in limited time, with and without shared keys; stored one by one."""
    for seed in range(SHARED_SEEDS):
        for items, d_model, key_heads in SHARED:
            rows = read_rows("bits-per-weight-shared")
            key = {"items": items, "d_model": d_model, "shared": key_heads or 0, "seed": seed}
            if matching(rows, **key):
                continue
            problem = Task(f"permutation:{items}", f"gaussian:{d_model}").draw(seed)
            found = smallest(problem, time_limit=SHARED_SECONDS, key_heads=key_heads)
            if found.layer is None:
                continue
            layer = found.layer
            shape = {"heads": layer.heads, "key_heads": layer.key_heads, "key_width": layer.key_width}
            effort = {"trials": len(found.trials), "seconds": found.seconds, "commit": commit()}
            write_rows("bits-per-weight-shared", [*rows, key | shape | effort])
            print(key | shape | effort, flush=True)


def measure(settings: Settings) -> None:
    """Measure the parts that are asked for; the rows of real relations are kept if no folder is given."""
    if settings.only in (None, "one-head"):
        decide_transition()
    if settings.only in (None, "shared"):
        fit_shared()
    if settings.only in (None, "real") and settings.data is not None:
        write_rows("bits-per-weight-real", fit_real(settings.data))
    write_rows("bits-per-weight-machine", machine_rows())


def decide_transition() -> None:
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
