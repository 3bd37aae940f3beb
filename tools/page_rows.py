"""The paper for the browser's page: `python -m tools.page_rows` writes its claims, figures and runs in short.

The published rows (docs/data) are 0.8 MB compressed, and every run has 30 fields. The page needs few of them. A figure
is points; a point has the numbers of the runs that it is the mean of; all figures share one list of these groups.
The result is committed: making it takes a minute, and an installation may not have docs/data. `--check` compares.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from manyheads.bounds import bits_per_weight
from manyheads.papers import (
    BEYOND,
    CAPACITY,
    HEAD_COUNT,
    Scale,
    claim_exhibits,
    exhibit_named,
    exhibit_names,
    needed,
    verdicts,
)
from manyheads.papers.publication import FILES, exhibit_points, published
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import LIKELY_REASONS
from manyheads.sweep.store.table_export import run_columns

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data"
TARGET = ROOT / "src/manyheads/page/paper.json.gz"
FLOOR = "capacity_floor.csv"


@dataclass(frozen=True)
class Axes:
    """The fields of a figure's points that are its axes, its curves and its panels.

    Attributes:
        x: The field across.
        y: The field or score upwards.
        series: The field that tells curves apart.
        panels: The fields that tell panels apart.
        log: The axes with a logarithmic scale: "", "x", "y" or "xy".
        words: The names of the axes.
    """

    x: str
    y: str
    series: str
    panels: tuple[str, ...] = ()
    log: str = ""
    words: tuple[str, str] = ("", "")


_PROBLEM = ("items", "d_model", "graph", "degree", "rule")
_F1 = Axes("key_budget", "micro_f1", "heads", _PROBLEM, words=("key budget D_K", "test F1"))
_LAW = Axes("x", "key_budget", "d_model", words=("relations · log2 items / d_model", "D_K*"), log="xy")
_RETRIEVAL = Axes(
    "length",
    "nmse",
    "heads",
    ("task", "layers", "dimension", "mlp_width", "embedding_width"),
    "xy",
    ("length T", "normalised squared error"),
)
FIGURES: dict[str, Axes] = {
    "fig1": _F1,
    "fig2": Axes("compression", "heads", "d_model", log="xy", words=("items / d_model", "best head count h*")),
    "fig3": _LAW,
    "fig4": Axes("items", "key_budget", "d_model", log="xy", words=("items, 8 for each dimension", "D_K*")),
    "fig5": _F1,
    "fig6": Axes("key_budget", "mse", "heads", _PROBLEM, "y", ("key budget D_K", "squared error")),
    "fig7": Axes("key_budget", "accuracy", "heads", ("items", "d_model"), words=("key budget D_K", "test accuracy")),
    "fig8": Axes("items", "key_budget", "d_model", log="xy", words=("items", "D_K*")),
    "fig9": _F1,
    "fig10": Axes("compression", "heads", "d_model", log="xy", words=("items / d_model", "best head count h*")),
    "fig11": _F1,
    "fig12": Axes("x", "key_budget", "degree", log="xy", words=("relations · log2 items / d_model", "D_K*")),
    "fig13": Axes("degree", "heads", "items", log="xy", words=("degree", "best head count h*")),
    "table1": Axes("items", "key_width", "d_model", log="xy", words=("items", "key width d_k*")),
    "table2": Axes("key_budget", "steps", "heads", _PROBLEM, words=("key budget D_K", "steps")),
    "constructions": Axes(
        "constant", "false", "construction", ("items", "d_model", "degree"), "x",
        ("constant", "wrong pairs, in the mean"),
    ),
    "softmax_construction": Axes(
        "key_width", "wrong", "calibration", ("items", "d_model", "context"),
        words=("key width", "wrong contexts of 100"),
    ),
    "construction_cost": Axes("items", "build_seconds", "d_model", log="xy", words=("items", "seconds")),
    "no_compression": _F1,
    "bounds_gap": _F1,
    "one_or_many": Axes("heads", "key_width", "items", ("rule", "d_model"), "xy", ("heads", "smallest key width")),
    "single_head": _F1,
    "beyond_grid": _F1,
    "beyond_exact": Axes(
        "key_budget", "exact_errors", "heads", _PROBLEM, words=("key budget D_K", "wrong pairs of all")
    ),
    "beyond_freedom": _F1,
    "beyond_sensitivity": _F1,
    "retrieval_heads": _RETRIEVAL,
    "retrieval_variants": _RETRIEVAL,
    "retrieval_width": _RETRIEVAL,
    "retrieval_digits": _RETRIEVAL,
}  # fmt: skip


class Groups:
    """Groups of runs that differ in their seeds alone, each once."""

    def __init__(self) -> None:
        self.rows: list[list[object]] = []  # the score's name, then seed, score and id of each run
        self._places: dict[str, int] = {}

    def place(self, score: str, runs: Sequence[tuple[int, float, str]]) -> int:
        """The place of a group in the list."""
        known = f"{score} {' '.join(run[2] for run in runs)}"
        if known not in self._places:
            self._places[known] = len(self.rows)
            columns = [list(column) for column in zip(*runs, strict=True)]
            self.rows.append([score, columns[0], [rounded(value) for value in columns[1]], "".join(columns[2])])
        return self._places[known]


def rounded(value: float) -> float:
    """Four digits: more are not seen."""
    return float(f"{value:.4g}")


def page_data() -> dict[str, object]:
    """Everything that the page shows of the papers."""
    rows, scale, groups = published(), Scale(), Groups()
    names = [
        name
        for one in (CAPACITY, BEYOND, HEAD_COUNT)
        for hours in (False, True)
        for name in exhibit_names(one, hours=hours)
    ]
    where = claim_exhibits()
    claims = [
        [
            one.claim,
            one.says,
            one.measured,
            one.outcome,
            one.why,
            LIKELY_REASONS.get(one.claim, ""),
            where.get(one.claim, ""),
        ]
        for one in verdicts(names, rows, scale)
    ]
    figures = [figure(name, rows, scale, groups) for name in dict.fromkeys(names)]
    return {
        "source": source(),
        "claims": claims,
        "figures": [*figures, *floor_figures(rows, scale)],
        "groups": groups.rows,
    }


def figure(name: str, rows: Rows, scale: Scale, groups: Groups) -> dict[str, object]:
    """One exhibit: title, caption and points; an exhibit without axes here has no points."""
    one = exhibit_named(name)
    axes = FIGURES.get(name)
    shown: dict[str, object] = {"name": name, "title": one.title, "caption": one.caption(rows, scale), "points": []}
    if axes is None:
        return shown
    points = (
        threshold_points(name, axes, rows, scale)
        if one.points is not None
        else run_points(name, axes, rows, scale, groups)
    )
    return shown | {"words": axes.words, "log": axes.log, "series": axes.series, "points": points}


def threshold_points(name: str, axes: Axes, rows: Rows, scale: Scale) -> list[list[object]]:
    """The points of a figure of thresholds: panel, series, x, y, no group, and the point in words."""
    return [
        [
            "",
            str(point[axes.series]),
            rounded(_number(point[axes.x])),
            rounded(_number(point[axes.y])),
            None,
            threshold_words(point),
        ]
        for point in exhibit_points(name, rows, scale)
        if point[axes.y] is not None
    ]


def threshold_words(point: Mapping[str, object]) -> str:
    """A threshold in words."""
    sizes = f"{point['items']} items, degree {point['degree']}, d_model {point['d_model']}"
    found = f"D_K* {point['key_budget']} ({point['low']} to {point['high']})"
    heads = f"{point['heads']} heads ({point['heads_low']} to {point['heads_high']})"
    return f"{sizes}: {found}, {heads} of width {point['key_width']}"


def run_points(name: str, axes: Axes, rows: Rows, scale: Scale, groups: Groups) -> list[list[object]]:
    """The points of a figure of runs: panel, series, x, y, and the group of runs whose mean y is."""
    found: dict[tuple[object, ...], list[tuple[int, float, str]]] = {}
    for run in needed([name], scale, rows):
        if run.id not in rows:
            continue
        row = rows[run.id]
        columns = run_columns(run.fields) | {"steps": row.steps}
        value = columns[axes.y] if axes.y == "steps" else row.scores.get(axes.y)
        x = columns.get(axes.x, row.scores.get(axes.x))
        if value is None or x is None:
            continue
        panel = ", ".join(f"{key} {columns[key]}" for key in axes.panels if key in columns)
        place = (panel, str(columns.get(axes.series, "")), rounded(_number(x)))
        found.setdefault(place, []).append((int(str(run.fields.get("seed", 0))), _number(value), run.id))
    return [
        [*place, rounded(fmean(one[1] for one in runs)), groups.place(axes.y, runs)] for place, runs in found.items()
    ]


def floor_figures(rows: Rows, scale: Scale) -> list[dict[str, object]]:
    """The smallest certified key budgets beside the trained D_K*, and the bits per weight of both."""
    with (DATA / FLOOR).open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    seeds: dict[tuple[int, int, int], list[dict[str, str]]] = {}
    for row in found:
        seeds.setdefault((int(row["items"]), int(row["d_model"]), int(row["degree"])), []).append(row)
    layers: list[tuple[str, tuple[int, int, int], float, str]] = []
    for problem, runs in seeds.items():
        budget = median(int(row["key_budget"]) for row in runs)
        each = "; ".join(
            f"seed {row['seed']}: D_K {row['key_budget']}, {row['heads']} × {row['key_width']}" for row in runs
        )
        items, d_model, degree = problem
        sizes = f"{items} items, degree {degree}, d_model {d_model}"
        layers.append(("certified", problem, budget, f"{sizes}: certified at D_K {budget:g} in the median; {each}"))
    for point in [*exhibit_points("fig3", rows, scale), *exhibit_points("fig12", rows, scale)]:
        sizes_of = (int(_number(point[name])) for name in ("items", "d_model", "degree"))
        items, d_model, degree = sizes_of
        layers.append(("trained", (items, d_model, degree), _number(point["key_budget"]), threshold_words(point)))
    budgets: list[list[object]] = []
    bits: list[list[object]] = []
    for series, (items, d_model, degree), budget, words in layers:
        family = f"permutation:{items}" if degree == 1 else f"regular:{items}:{degree}"
        value = bits_per_weight(family, weights=max(1, round(2 * d_model * budget))).value
        x = items * degree * math.log2(items) / d_model
        budgets.append(["", series, rounded(x), budget, None, words])
        bits.append(
            ["", series, rounded(items / d_model), rounded(value), None, f"{words}; {value:.2f} bits per weight"]
        )
    floor = (
        "Certified: the smallest key budget at which the compact compiler found a layer that is proved over all pairs, "
        "an upper bound on the floor."
    )
    trained = "Trained: D_K* of the paper's protocol, at which training reaches a mean F1 of 0.99."
    weights = "log2 of the number of graphs of the kind over the weights of W_Q and W_K."
    same: dict[str, object] = {"log": "xy", "series": "layers"}
    return [
        {"name": "floor", "title": "The floor: certified and trained layers", "caption": f"{floor} {trained}",
         "words": (_LAW.words[0], "key budget D_K"), "points": budgets, **same},
        {"name": "bits", "title": "Bits per weight of certified and trained layers",
         "caption": f"{weights} {floor} {trained}", "words": ("items / d_model", "bits per weight"),
         "points": bits, **same},
    ]  # fmt: skip


def source() -> str:
    """The SHA-256 of the published rows that the data is made of."""
    digest = hashlib.sha256()
    for name in (*FILES, FLOOR):
        digest.update((DATA / name).read_bytes())
    return digest.hexdigest()


def _number(value: object) -> float:
    return float(str(value))


def main() -> int:
    """Write, or compare. Returns 1 if the committed data is another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed data, write nothing")
    only_check = parser.parse_args().check
    text = json.dumps(page_data(), separators=(",", ":"), ensure_ascii=False).encode()
    if only_check:
        same = gzip.decompress(TARGET.read_bytes()) == text
        print("the page's rows are those that docs/data gives" if same else "the page's rows are old: run `make page`")
        return 0 if same else 1
    TARGET.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes, {len(text):,} without compression")
    return 0


if __name__ == "__main__":
    sys.exit(main())
