"""The page and the picture of the capacity floor, from stored rows alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from rows import DATA, Row, table

from manyheads.bounds import bit_key_budget, freedom_split, paper_key_budget
from manyheads.capacity.regression import Fit, fit_through_origin
from manyheads.drawing.capacity_floor import draw_floor
from manyheads.drawing.style import save
from manyheads.papers import Scale, read_rows
from manyheads.papers.exhibits.fig8 import INFERRED
from manyheads.papers.panel import REGULAR, THRESHOLDS, complete

TARGET = 0.70


def summarise(rows: Sequence[Row]) -> list[Row]:
    """One line for each point: the floor over its seeds, and what it stands beside."""
    points: dict[tuple[str, int, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        points[row["family"], row["items"], row["d_model"], row["degree"]].append(row)
    measured = measured_thresholds(DATA / "paper.jsonl.gz")
    summary = []
    for (family, items, d_model, degree), own in points.items():
        found = [row for row in own if row["key_budget"] is not None]
        if not found:
            continue
        budgets = [row["key_budget"] for row in found]
        relations = items * degree
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
                "law": 0.46 * x
                if family == "regular"
                else paper_key_budget(items=items, relations=relations, d_model=d_model),
                "freedom": _freedom(items, relations, d_model),
                "bits": bit_key_budget(
                    items=items, relations=relations, d_model=d_model, bits=32, permutation=family != "regular"
                ),
                "x": x,
                "measured": measured.get((family == "regular", items, d_model, degree)),
            }
        )
    return summary


def measured_thresholds(path: Path) -> dict[tuple[bool, int, int, int], int | None]:
    """Our own D_K*, by the paper's protocol, of every panel of the reproduction that was run to the end."""
    if not path.exists():
        return {}
    rows, scale = read_rows(path), Scale()
    return {
        (panel.graph == "regular", panel.items, panel.d_model, panel.degree): panel.threshold(rows, scale).key_budget
        for panel in complete((*THRESHOLDS, *REGULAR), rows, scale)
    }


def _freedom(items: int, relations: int, d_model: int) -> int | None:
    """The smallest D_K that the degrees of freedom predict, over all head counts."""
    found = freedom_split(items=items, relations=relations, d_model=d_model)
    return found and found[0] * found[1]


def draw_and_write(rows: Sequence[Row], machine: Sequence[Row], docs: Path) -> None:
    """The picture and the page."""
    summary = summarise(rows)
    save(draw_floor(summary), docs / "figures" / "capacity-floor")
    (docs / "capacity-floor.md").write_text(page(summary, rows, machine, (docs / "capacity-floor.md.in").read_text()))


def page(summary: Sequence[Row], rows: Sequence[Row], machine: Sequence[Row], template: str) -> str:
    """The template, its tables and numbers filled in."""
    base = [point for point in summary if point["family"] == "base"]
    reached = [point for point in base if point["floor"] <= TARGET * point["paper"]]
    permutations = [point for point in summary if point["family"] in ("base", "diagonal")]
    regular = [point for point in summary if point["family"] == "regular"]
    ratios = [point["floor"] / point["paper"] for point in base]
    below = [point for point in summary if point["freedom"] and point["floor"] < point["freedom"]]
    seeds = sorted(point["seeds"] for point in summary)
    facts = {
        "base_table": _points(base, paper=True),
        "diagonal_table": _points([point for point in summary if point["family"] == "diagonal"], paper=False),
        "regular_table": _points(regular, paper=False),
        "reached": f"{len(reached)} of {len(base)}",
        "ratio_low": f"{min(ratios):.2f}",
        "ratio_high": f"{max(ratios):.2f}",
        "ratio_median": f"{median(ratios):.2f}",
        "permutation_fit": _said(_fit(permutations)),
        "regular_fit": _said(_fit(regular)) if len(regular) > 1 else "not enough points",
        "below": f"{len(below)} of {len(summary)}",
        "rows": len(rows),
        "seeds": " to ".join(map(str, sorted({seeds[0], seeds[-1]}))),
        "regular_power": f"{_power(regular):.2f}",
        "crowded_power": f"{_power([point for point in base if point['d_model'] == 16]):.2f}",
        "longest": f"{max(row['seconds'] for row in rows if row['family'] == 'base'):.0f}",
        "machine": "; ".join(f"{row['fact']} {row['value']}" for row in machine),
    }
    for name, value in facts.items():
        template = template.replace("{{" + name + "}}", str(value))
    return template


def _fit(points: Sequence[Row]) -> Fit:
    x, y = (np.array([float(point[name]) for point in points]) for name in ("x", "floor"))
    return fit_through_origin(x, y)


def _power(points: Sequence[Row]) -> float:
    """The exponent with which the floor grows with x, by least squares in the logarithms."""
    x, y = (np.log([float(point[name]) for point in points]) for name in ("x", "floor"))
    return float(np.polyfit(x, y, 1)[0])


def _said(fit: Fit) -> str:
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
    head += ["law of the paper", "degrees of freedom", "bit budget"]
    if any(point["measured"] for point in points):
        head.append("measured D_K*")
    lines = []
    for point in points:
        heads = point["heads"]
        line = [
            point["items"], point["d_model"], point["degree"], point["seeds"], f"{point['floor']:g}",
            f"{point['lowest']} … {point['highest']}", f"{heads[0]} … {heads[-1]}",
            *([point["paper"], f"{point['floor'] / point['paper']:.2f}"] if paper else []),
            f"{point['law']:.0f}", point["freedom"] or "none", point["bits"],
        ]  # fmt: skip
        if "measured D_K*" in head:
            line.append(point["measured"] or "")
        lines.append(line)
    return table(head, lines)
