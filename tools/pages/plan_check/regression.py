"""The constants of planning/prediction.py: a regression on the key widths at which training reached the target.

A measured threshold says that the width which training needs lies above the largest width that failed and not above
the smallest one that succeeded. So the regression maximises the likelihood of these intervals, with a normal error of
the logarithm. A small part of the rows (STRAY) may lie anywhere: single runs of training fail by chance.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from manyheads import Protocol, Run
from manyheads.bounds import freedom_needed
from manyheads.layer.rules import MAX
from manyheads.papers import BEYOND, CAPACITY, Scale, exhibit_named, needed
from manyheads.papers import read_rows as read_paper_rows
from manyheads.papers.exhibit import EXHIBITS
from manyheads.planning import prediction
from manyheads.training import step_limit
from tools.pages.plan_check.text import SEEDS, TARGET_F1
from tools.pages.rows import DATA, Row, read_rows

STRAY = 0.02  # share of the rows that the model does not explain
STRAY_DENSITY = 0.05  # their probability
FIRST_SPREAD = 0.1
RIDGE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The key width that training needs lies above `low` and not above `high`."""

    items: int
    d_model: int
    degree: int
    heads: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The degrees of freedom that each head needs, as a share of those of a full-rank head."""
        each = freedom_needed(items=self.items, relations=self.items * self.degree, heads=self.heads)
        return float(each) / self.d_model**2


def paper_thresholds() -> list[Row]:
    """The key widths of the paper's runs, for the problems whose sizes are calibrated: rows of plan-heads."""
    rows = read_paper_rows(DATA / "paper.jsonl.gz")
    names = [name for name in EXHIBITS if exhibit_named(name).collection in (CAPACITY, BEYOND)]
    scores: dict[tuple[int, int, int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in needed(names, Scale(), rows):
        if isinstance(run, Run) and run.id in rows and (degree := _degree(run)) is not None:
            f1 = rows[run.id].scores["micro_f1"]
            if f1 is not None:
                scores[run.items, run.d_model, degree, run.heads][run.key_width].append(float(f1))
    found = []
    for (items, d_model, degree, heads), by_width in sorted(scores.items()):
        means = {width: np.mean(f1) for width, f1 in by_width.items() if len(f1) >= len(SEEDS)}
        enough = min((width for width, mean in means.items() if mean >= TARGET_F1), default=None)
        if enough is not None:
            low = max((width for width in means if width < enough), default=0)
            sizes = {"items": items, "d_model": d_model, "degree": degree, "heads": heads}
            found.append(sizes | {"too_narrow": low, "key_width": enough, "source": "paper"})
    return found


def _degree(run: Run) -> int | None:
    """The degree of a run that could be a calibration run, else None."""
    kind, *numbers = str(run.task.graph).split(":")
    limit = step_limit(items=run.items, d_model=run.d_model, rule=run.rule)
    if (
        kind not in ("permutation", "regular")
        or str(run.task.embedding) != f"gaussian:{run.d_model}"
        or run.rule is not MAX
        or run.protocol != Protocol(steps=limit)
        or (run.task.context, run.task.target_rate) != (prediction.CONTEXT, 0.5)
    ):
        return None
    degree = int(numbers[1]) if kind == "regular" else 1
    sizes = {"items": run.items, "d_model": run.d_model, "degree": degree}
    return degree if all(low <= sizes[name] <= high for name, (low, high) in prediction.CALIBRATED.items()) else None


def thresholds(budgets: Sequence[Row], checks: Sequence[Row]) -> list[Threshold]:
    """What every stored row says: of single head counts, of D_K*, and of the recommended points of earlier checks."""
    found, known = [], set()
    for row in read_rows("plan-heads"):
        sizes = _sizes(row)
        known |= {tuple(sizes.values())} if row["source"] == "heads" else set()
        high = math.inf if row["key_width"] is None else float(row["key_width"])
        found.append(Threshold(**sizes, heads=row["heads"], low=float(row["too_narrow"]), high=high))
    for row in budgets:
        if row["measured"] is not None and row["complete"] and tuple(_sizes(row).values()) not in known:
            width = float(row["measured"] // row["measured_heads"])
            found.append(Threshold(**_sizes(row), heads=row["measured_heads"], low=width - 1, high=width))
    for row in checks:
        width = float(row["key_width"])
        low, high = (0.0, width) if row["f1"] >= TARGET_F1 else (width, math.inf)
        found.append(Threshold(**_sizes(row), heads=row["heads"], low=low, high=high))
    return [one for one in found if one.share < 1]


def _sizes(row: Row) -> dict[str, int]:
    return {name: row[name] for name in ("items", "d_model", "degree")}


def regression(rows: Sequence[Threshold]) -> dict[str, list[float]]:
    """The constants WEIGHTS and SPREAD. Rows of one problem share a weight of the square root of their number."""
    shares = np.clip([one.share for one in rows], *prediction.SHARES)
    features = np.concatenate(
        [
            prediction.features(items=one.items, d_model=one.d_model, degree=float(one.degree), shares=shares[[place]])
            for place, one in enumerate(rows)
        ]
    )
    steep = np.array([float(one.items > prediction.STEEP * one.d_model) for one in rows])
    law = np.log([one.d_model for one in rows]) + np.log(1 - np.sqrt(1 - shares))
    low = np.log([max(one.low, 1e-9) for one in rows]) - law
    high = np.log([one.high for one in rows]) - law
    number = Counter((one.items, one.d_model, one.degree) for one in rows)
    weight = np.array([number[one.items, one.d_model, one.degree] ** -0.5 for one in rows])
    scale = np.linalg.qr(features)[1] / math.sqrt(len(rows))  # features without correlation: descent needs few steps
    known = features @ np.linalg.inv(scale)

    def loss(given: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative logarithm of the likelihood, and its gradient."""
        slopes, spread = given[:-3], np.exp(given[-3] + given[-2] * shares + given[-1] * steep)
        centre = known @ slopes
        above, below = (high - centre) / spread, (low - centre) / spread
        chance = (1 - STRAY) * (norm.cdf(above) - norm.cdf(below)) + STRAY * STRAY_DENSITY
        each = (1 - STRAY) * weight / chance
        by_centre = each * (norm.pdf(above) - norm.pdf(below)) / spread
        ends = [norm.pdf(end) * np.where(np.isfinite(end), end, 0.0) for end in (above, below)]
        by_spread = each * (ends[0] - ends[1])
        spreads = [(by_spread * part).sum() for part in (1.0, shares, steep)]
        gradient = [*(known.T @ by_centre + 2 * RIDGE * slopes), *spreads]
        return float(-(weight * np.log(chance)).sum() + RIDGE * (slopes**2).sum()), np.array(gradient)

    middle = np.where(np.isfinite(high), high - 0.1, low + 0.1)
    first = np.append(np.linalg.lstsq(known, middle, rcond=None)[0], [math.log(FIRST_SPREAD), 0.0, 0.0])
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 1e-13}).x
    return {"WEIGHTS": np.linalg.solve(scale, best[:-3]).tolist(), "SPREAD": best[-3:].tolist()}
