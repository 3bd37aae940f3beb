"""The text of docs/results/capacity-floor.md, from stored rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median

import numpy as np

from manyheads.bounds import bit_key_budget, bits_per_weight, freedom_split
from manyheads.capacity.regression import Regression, regression_through_origin
from manyheads.papers import Scale, read_rows
from manyheads.papers.exhibits.base_grid import INFERRED
from manyheads.papers.panel import REGULAR, THRESHOLDS, complete
from manyheads.problem.graph_kinds import PERMUTATION_SLOPE, RELATION_SLOPE
from tools.pages.rows import DATA, Row, Tables, fill, machine_text, matching, table

TABLES = ("capacity_floor", "capacity_floor-machine")
PAPER_ROWS = DATA / "paper.jsonl.gz"
Problem = tuple[bool, int, int, int]  # regular or not, items, d_model, degree
GOAL = 0.70  # of the paper's D_K*


def summarise(rows: Sequence[Row], measured: Mapping[Problem, int | None] | None = None) -> list[Row]:
    """One row for each point: the floor over its seeds, and the values it is compared with.

    Args:
        rows: the table capacity_floor.
        measured: our own D_K* of each problem; by default those of the reproduction of the paper.
    """
    points: dict[tuple[str, int, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        points[row["family"], row["items"], row["d_model"], row["degree"]].append(row)
    measured = measured_thresholds() if measured is None else measured
    summary = []
    for (family, items, d_model, degree), own in points.items():
        found = [row for row in own if row["key_budget"] is not None]
        if not found:
            continue
        budgets = [row["key_budget"] for row in found]
        relations = items * degree
        trained = measured.get((family == "regular", items, d_model, degree))
        x = relations * math.log2(items) / d_model
        summary.append(
            {
                "family": family,
                "items": items,
                "d_model": d_model,
                "degree": degree,
                "relations": relations,
                "seeds": len(found),
                "floor": median(budgets),
                "lowest": min(budgets),
                "highest": max(budgets),
                "heads": sorted(row["heads"] for row in found),
                "paper": INFERRED.get((items, d_model)) if family == "base" else None,
                "law": (RELATION_SLOPE if family == "regular" else PERMUTATION_SLOPE) * x,
                "freedom": _freedom(items, relations, d_model),
                "bits": bit_key_budget(
                    items=items, relations=relations, d_model=d_model, bits=32, permutation=family != "regular"
                ),
                "x": x,
                "measured": trained,
                "floor_bits": _bits(items, d_model, degree, median(budgets)),
                "measured_bits": _bits(items, d_model, degree, trained) if trained else None,
            }
        )
    return summary


@cache
def measured_thresholds() -> dict[Problem, int | None]:
    """Our own D_K*, by the paper's protocol, of every complete panel of the reproduction."""
    if not PAPER_ROWS.exists():
        return {}
    rows, scale = read_rows(PAPER_ROWS), Scale()
    return {
        (panel.graph == "regular", panel.items, panel.d_model, panel.degree): panel.threshold(rows, scale).key_budget
        for panel in complete((*THRESHOLDS, *REGULAR), rows, scale)
    }


def _bits(items: int, d_model: int, degree: int, key_budget: float) -> float:
    """Bits per weight at a key budget; degree 1 counts as all permutations."""
    return bits_per_weight(f"regular:{items}:{degree}", weights=round(2 * d_model * key_budget)).value


def _freedom(items: int, relations: int, d_model: int) -> int | None:
    """The smallest D_K that the degrees of freedom predict, over all head counts."""
    found = freedom_split(items=items, relations=relations, d_model=d_model)
    return found and found[0] * found[1]


def page(tables: Tables) -> str:
    """The text of the page."""
    rows = tables["capacity_floor"]
    summary = summarise(rows)
    base, diagonal, regular = (matching(summary, family=name) for name in ("base", "diagonal", "regular"))
    reached = [point for point in base if point["floor"] <= GOAL * point["paper"]]
    ratios = [point["floor"] / point["paper"] for point in base]
    below = [point for point in summary if point["freedom"] and point["floor"] < point["freedom"]]
    seeds = sorted(point["seeds"] for point in summary)
    facts = {
        "base_table": _points(base, paper=True),
        "diagonal_table": _points(diagonal, paper=False),
        "regular_table": _points(regular, paper=False),
        "reached": f"{len(reached)} of {len(base)}",
        "ratio_low": f"{min(ratios):.2f}",
        "ratio_high": f"{max(ratios):.2f}",
        "ratio_median": f"{median(ratios):.2f}",
        "permutation_fit": _slope(_regression([*base, *diagonal])),
        "regular_fit": _slope(_regression(regular)) if len(regular) > 1 else "not enough points",
        "below": f"{len(below)} of {len(summary)}",
        "rows": len(rows),
        "seeds": " to ".join(map(str, sorted({seeds[0], seeds[-1]}))),
        "regular_power": f"{_power(regular):.2f}",
        "crowded_power": f"{_power(matching(base, d_model=16)):.2f}",
        "longest": f"{max(row['seconds'] for row in matching(rows, family='base')):.0f}",
        "goal": f"{GOAL:.2f}",
        "machine": machine_text(tables["capacity_floor-machine"]),
    }
    return fill(__file__, facts)


def _regression(points: Sequence[Row]) -> Regression:
    x, y = (np.array([float(point[name]) for point in points]) for name in ("x", "floor"))
    return regression_through_origin(x, y)


def _power(points: Sequence[Row]) -> float:
    """The exponent p of floor ∝ x^p, by least squares in the logarithms."""
    x, y = (np.log([float(point[name]) for point in points]) for name in ("x", "floor"))
    return float(np.polyfit(x, y, 1)[0])


def _slope(fit: Regression) -> str:
    low, high = fit.slope_interval
    return f"{fit.slope:.3f} (95 % interval {low:.3f} … {high:.3f}, R² {fit.r_squared:.3f}, {fit.points} points)"


def _points(points: Sequence[Row], *, paper: bool) -> str:
    if not points:
        return "No rows yet."
    head = [
        "m",
        "d_model",
        "r",
        "seeds",
        "floor: median",
        "lowest … highest",
        "heads",
        *(["paper D_K*", "floor / paper"] if paper else []),
    ]
    head += ["law of the paper", "degrees of freedom", "bit budget", "bits per weight, floor"]
    if any(point["measured"] for point in points):
        head += ["measured D_K*", "bits per weight, D_K*"]
    lines = []
    for point in points:
        heads = point["heads"]
        line = [
            point["items"], point["d_model"], point["degree"], point["seeds"], f"{point['floor']:g}",
            f"{point['lowest']} … {point['highest']}", f"{heads[0]} … {heads[-1]}",
            *([point["paper"], f"{point['floor'] / point['paper']:.2f}"] if paper else []),
            f"{point['law']:.0f}", point["freedom"] or "none", point["bits"], f"{point['floor_bits']:.2f}",
        ]  # fmt: skip
        if "measured D_K*" in head:
            line += [point["measured"] or "", f"{point['measured_bits']:.2f}" if point["measured"] else ""]
        lines.append(line)
    return table(head, lines)
