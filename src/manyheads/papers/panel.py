"""Panel: one problem of the paper with all its head counts and key budgets, as one panel of a figure shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from manyheads.bounds import bits_per_weight
from manyheads.capacity import Point, Threshold, points, threshold
from manyheads.layer.rules import MAX, Rule
from manyheads.layer.rules import SOFTMAX as SOFTMAX_RULE
from manyheads.papers.effort import LARGEST, Scale
from manyheads.papers.rows import Rows
from manyheads.training import Protocol, Run, Task, step_limit
from manyheads.training.protocol import Objective

HEADS = (1, 2, 4, 8, 16, 32, 64)  # powers of two, as in the paper


def shares(low: float, high: float, count: int) -> tuple[float, ...]:
    """Multiples of the paper's x = m'·log2 m/d_model, evenly spaced on a logarithmic axis."""
    return tuple(np.geomspace(low, high, count).tolist())


# The paper does not state its grids. These windows enclose every threshold that it reports; neighbouring budgets are
# about a fifth apart. Where a run takes long, only the lower part of a window is run. It includes the prediction of the
# degrees of freedom, which is half of the paper's law there.
WINDOW = shares(0.35, 2.4, 12)
DIAGONAL_WINDOW = shares(0.3, 1.0, 7)
EXTREME_WINDOW = shares(0.6, 1.6, 6)
REGULAR_WINDOW = shares(0.2, 1.2, 12)
DENSE_WINDOW = shares(0.15, 0.6, 9)
SOFTMAX_WINDOW = shares(0.35, 4.0, 12)


@dataclass(frozen=True)
class Panel:
    """A problem, and the key budgets that are tried, as multiples of `law()`."""

    items: int
    d_model: int
    graph: str = "permutation"
    degree: int = 1
    rule: Rule = MAX
    objective: Objective = "edges"
    window: tuple[float, ...] = WINDOW
    paper_seeds: int = 10

    @property
    def compression(self) -> float:
        """λ = m/d_model."""
        return self.items / self.d_model

    @property
    def relations(self) -> int:
        """m', the number of relations."""
        return self.items * self.degree

    @property
    def task(self) -> Task:
        """The family of problems from which each seed draws one."""
        degree = f":{self.degree}" if self.graph == "regular" else ""
        return Task(f"{self.graph}:{self.items}{degree}", f"gaussian:{self.d_model}", objective=self.objective)

    def bits_per_weight(self, key_budget: int) -> float:
        """log2 of the number of such graphs, for each of the 2·d_model·D_K weights of W_Q and W_K."""
        return bits_per_weight(self.task.graph, weights=2 * self.d_model * key_budget).value

    @property
    def is_sketched(self) -> bool:
        """Whether a quick reproduction includes it: dense and compressed problems would take half of its time."""
        return self.relations <= (512 if self.rule is MAX else 128) and self.compression <= 16

    def law(self, log: str = "log2") -> float:
        """The paper's x: m'·log m/d_model."""
        return self.relations * (math.log2 if log == "log2" else math.log)(self.items) / self.d_model

    def __str__(self) -> str:
        degree = f", r = {self.degree}" if self.graph == "regular" else ""
        return f"m = {self.items}, $d_{{model}}$ = {self.d_model}{degree}"

    def shapes(self, scale: Scale) -> list[tuple[int, int]]:
        """Pairs (heads, key width): for each head count the widths nearest to the key budgets of the window."""
        window = shares(self.window[0], self.window[-1], len(self.window) // 2) if scale.quick else self.window
        budgets = [share * self.law() for share in window]
        return [
            (heads, width)
            for heads in HEADS
            for width in sorted({round(budget / heads) for budget in budgets})
            if width >= 1
        ]

    def seeds(self, scale: Scale) -> range:
        """The seeds of every point."""
        return scale.seeds_at(self.items, self.d_model, paper=self.paper_seeds)

    def run(self, heads: int, key_width: int, seed: int, scale: Scale) -> Run:
        """One run of this problem by the paper's protocol."""
        task, protocol = _training(self, scale)
        return Run(task, heads=heads, key_width=key_width, seed=seed, rule=self.rule, protocol=protocol)

    def runs(self, scale: Scale) -> list[Run]:
        """Every run of the panel; none if the problem is larger than the scale allows."""
        return list(_runs(self, scale))

    def points(self, rows: Rows, scale: Scale, score: str = "micro_f1") -> list[Point]:
        """The measured points (heads, key width); a point that lacks a seed is absent."""
        return rows.once(("points", self, scale, score), lambda: self._points(rows, scale, score))

    def threshold(self, rows: Rows, scale: Scale) -> Threshold:
        """D_K* and h* as App. A.2 defines them."""
        return rows.once(("threshold", self, scale), lambda: threshold(self.points(rows, scale)))

    def complete(self, rows: Rows, scale: Scale) -> bool:
        """Whether every run of the panel has a row."""
        return rows.once(("complete", self, scale), lambda: bool(self.runs(scale)) and rows.have_all(self.runs(scale)))

    def _points(self, rows: Rows, scale: Scale, score: str) -> list[Point]:
        found = [(run.heads, run.key_width, run.seed, value) for run, value in rows.scores(self.runs(scale), score)]
        return [point for point in points(found) if len(point.scores) == len(self.seeds(scale))]


@cache  # thousands of runs share them
def _training(panel: Panel, scale: Scale) -> tuple[Task, Protocol]:
    limit = step_limit(items=panel.items, d_model=panel.d_model, rule=panel.rule)
    return panel.task, Protocol(steps=scale.limit(limit))


@cache  # many exhibits ask for the same runs
def _runs(panel: Panel, scale: Scale) -> tuple[Run, ...]:
    if panel.items > scale.most_items or (scale.quick and not panel.is_sketched):
        return ()
    shapes, seeds = panel.shapes(scale), panel.seeds(scale)
    return tuple(panel.run(heads, width, seed, scale) for heads, width in shapes for seed in seeds)


def complete(panels: Sequence[Panel], rows: Rows, scale: Scale) -> list[Panel]:
    """Those panels of which every run has a row."""
    return [panel for panel in panels if panel.complete(rows, scale)]


PanelThresholds = list[tuple[Panel, Threshold]]


def found_thresholds(panels: Sequence[Panel], rows: Rows, scale: Scale) -> PanelThresholds:
    """The complete panels that have a threshold in their window, each with it."""
    found = [(panel, panel.threshold(rows, scale)) for panel in complete(panels, rows, scale)]
    return [(panel, one) for panel, one in found if one.key_budget is not None]


def threshold_points(panels: Sequence[Panel]) -> Callable[[Rows, Scale], list[dict[str, object]]]:
    """The function that makes records of the panels' thresholds, for a figure that shows a point for each problem."""

    def records(rows: Rows, scale: Scale) -> list[dict[str, object]]:
        return [_threshold_record(panel, one) for panel, one in found_thresholds(panels, rows, scale)]

    return records


def _threshold_record(panel: Panel, found: Threshold) -> dict[str, object]:
    sizes = {"items": panel.items, "d_model": panel.d_model, "graph": panel.graph, "degree": panel.degree}
    law = {"rule": str(panel.rule), "relations": panel.relations, "x": panel.law(), "compression": panel.compression}
    return sizes | law | found.facts | {"key_width": found.key_width}


def bits_caption(found: PanelThresholds) -> str:
    """The bits per weight at D_K*, in a sentence for a caption."""
    bits = [panel.bits_per_weight(one.key_budget or 1) for panel, one in found]
    return (
        f"Bits per weight at D_K*: {min(bits):.2f} to {max(bits):.2f}, {median(bits):.2f} in the median; certified "
        "layers of the same problems hold more ([bits per weight](bits-per-weight.md))."
    )


def panel_runs(panels: Sequence[Panel], scale: Scale) -> list[Run]:
    """The runs of all these panels."""
    return [run for panel in panels for run in panel.runs(scale)]


BASE = (
    *(Panel(items, d_model) for items in (64, 128) for d_model in (16, 32, 64)),
    Panel(256, 16, window=WINDOW[:11]),
    *(Panel(256, d_model) for d_model in (32, 64)),
    Panel(512, 16, window=WINDOW[:10]),
    *(Panel(512, d_model, window=WINDOW[:11]) for d_model in (32, 64)),
)


def base(items: int, d_model: int) -> Panel:
    """The panel of the base grid with these sizes."""
    return next(panel for panel in BASE if (panel.items, panel.d_model) == (items, d_model))


DIAGONAL = (
    *(panel for panel in BASE if panel.compression == 8),
    Panel(1024, 128, window=DIAGONAL_WINDOW),
    *(Panel(items, d_model, window=DIAGONAL_WINDOW[3:]) for items, d_model in LARGEST),
)
EXTREME = Panel(1024, 32, window=EXTREME_WINDOW[:5])
THRESHOLDS = (*BASE, *(panel for panel in DIAGONAL if panel not in BASE), EXTREME)

REGULAR = tuple(
    Panel(128, 32, graph="regular", degree=degree, window=window)
    for degree, window in (
        (1, WINDOW),
        (2, REGULAR_WINDOW),
        (4, REGULAR_WINDOW),
        (8, REGULAR_WINDOW[:10]),
        (16, DENSE_WINDOW),
        (32, DENSE_WINDOW[:7]),
    )
)
SOFTMAX = tuple(
    Panel(items, d_model, rule=SOFTMAX_RULE, window=window, paper_seeds=3)
    for items, d_model, window in (
        (64, 16, SOFTMAX_WINDOW[:10]),
        (64, 32, SOFTMAX_WINDOW[:10]),
        (128, 16, SOFTMAX_WINDOW),
        (128, 32, SOFTMAX_WINDOW[:10]),
        (256, 32, SOFTMAX_WINDOW[:10]),
        (256, 64, SOFTMAX_WINDOW[:10]),
    )
)
