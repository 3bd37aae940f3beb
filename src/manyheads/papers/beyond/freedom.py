"""Beyond the paper: the degrees-of-freedom law compared with every measured threshold."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from manyheads.bounds import freedom_needed, freedom_split
from manyheads.capacity import Threshold
from manyheads.drawing.style import BLUE, GREEN, GREY, ORANGE, VERMILLION, counting_axis, look, panels
from manyheads.papers.beyond import exact, grid
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import BEYOND, Exhibit
from manyheads.papers.panel import HEADS, REGULAR, THRESHOLDS, Panel, found_thresholds, panel_runs
from manyheads.papers.rows import Rows
from manyheads.papers.threshold_search import ThresholdSearch
from manyheads.training import Run
from manyheads.training.protocol import DEFAULT_STEPS

NEAR = 1.25  # the law holds if measured and predicted agree within this factor
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4)
KINDS = {
    "permutations, the paper's kind of grid": (BLUE, "o"),
    "regular graphs, m = 128, $d_{model}$ = 32": (GREEN, "^"),
    "permutations, every h and $d_k$": (ORANGE, "*"),
    "exact recovery, trained to the limit": (VERMILLION, "D"),
}


@dataclass(frozen=True)
class LawComparison:
    """A measured threshold and the law's prediction for the same head counts."""

    kind: str
    panel: Panel
    measured: int
    predicted: int
    steps: int

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted

    @property
    def load(self) -> float:
        """The degrees of freedom that one head needs for all relations, over those it has: m²·g*(m'/m²)/d²."""
        panel = self.panel
        return float(freedom_needed(items=panel.items, relations=panel.relations, heads=1)) / panel.d_model**2

    def __str__(self) -> str:
        degree = f", r = {self.panel.degree}" if self.panel.graph == "regular" else ""
        return f"({self.panel.items}, {self.panel.d_model}{degree})"


def panels_of(scale: Scale) -> list[Panel]:
    """All problems with the paper's kind of grid; a quick reproduction has those of `beyond_grid` only."""
    return grid.problems(scale) if scale.quick else [*THRESHOLDS, *REGULAR]


def runs(scale: Scale) -> list[Run]:
    """The runs of Figures 3 and 12."""
    return panel_runs(panels_of(scale), scale)


def searches(scale: Scale) -> list[ThresholdSearch]:
    """The searches of `beyond_grid` and `beyond_exact`."""
    return [*grid.searches(scale), *exact.searches(scale)]


def compared(rows: Rows, scale: Scale) -> list[LawComparison]:
    """Every measured threshold with the law's prediction for its head counts, if the law has one."""
    made = []
    for kind, panel, found, heads in _measured(rows, scale):
        split = freedom_split(items=panel.items, relations=panel.relations, d_model=panel.d_model, heads=heads)
        if split is not None and found.key_budget is not None:
            steps = panel.run(1, 1, 0, scale).protocol.steps
            made.append(LawComparison(kind, panel, found.key_budget, split[0] * split[1], steps))
    return made


def _measured(rows: Rows, scale: Scale) -> Iterator[tuple[str, Panel, Threshold, tuple[int, ...]]]:
    permutations, regular, every_width, recovery = KINDS
    for panel, found in found_thresholds(panels_of(scale), rows, scale):
        yield (regular if panel.graph == "regular" else permutations), panel, found, HEADS
    for panel, trail in grid.trails(rows, scale):
        yield every_width, panel, trail.threshold, grid.EVERY
    for one in exact.recoveries(rows, scale):
        if one.trained is not None:
            yield recovery, one.panel, one.trained, HEADS


def draw(rows: Rows, scale: Scale) -> Figure:
    """Left: measured against predicted. Right: their ratio against the load of a single head."""
    found = compared(rows, scale)
    with look():
        figure, ((against, ratios),) = panels(1, 2, (10.4, 4.6))
        for kind in KINDS:
            chosen = [one for one in found if one.kind == kind]
            if chosen:
                _scatter(against, chosen, [one.predicted for one in chosen], [one.measured for one in chosen], kind)
                _scatter(ratios, chosen, [one.load for one in chosen], [one.ratio for one in chosen], kind)
        if found:
            ends = np.array([0.8 * min(one.predicted for one in found), 1.25 * max(one.predicted for one in found)])
            against.plot(ends, ends, color=GREY, label="the law")
            against.fill_between(ends, ends / NEAR, ends * NEAR, color=GREY, alpha=0.15, linewidth=0)
            for one in _farthest(found):
                ratios.annotate(str(one), (one.load, one.ratio), xytext=(5, 4), textcoords="offset points", fontsize=8)
        ratios.axhline(1, color=GREY)
        ratios.axhspan(1 / NEAR, NEAR, color=GREY, alpha=0.15, linewidth=0)
        for axes in (against, ratios):
            axes.set(xscale="log", yscale="log")
            counting_axis(axes.xaxis)
        counting_axis(against.yaxis)
        ratios.yaxis.set_major_locator(FixedLocator(TICKS))
        ratios.yaxis.set_major_formatter("{x:g}")
        ratios.yaxis.set_minor_locator(NullLocator())
        against.set(ylabel="measured $D_K^*$", title=f"grey: within a factor of {NEAR:g}")
        against.set_xlabel("$D_K$ by the degrees of freedom")
        ratios.set_xlabel("load of a single head, $m^2 g^*(m'/m^2)\\,/\\,d_{model}^2$")
        ratios.set(ylabel="measured by predicted", title=f"hollow: step limit above {DEFAULT_STEPS:,}")
        figure.legend(*against.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _scatter(
    axes: Axes, chosen: list[LawComparison], x: list[float] | list[int], y: list[float] | list[int], kind: str
) -> None:
    colour, marker = KINDS[kind]
    faces = [colour if one.steps <= DEFAULT_STEPS else "white" for one in chosen]
    size = 70 if marker == "*" else 30
    axes.scatter(x, y, s=size, c=faces, edgecolors=colour, marker=marker, linewidths=1.2, label=kind, zorder=3)


def _farthest(found: list[LawComparison], count: int = 3) -> list[LawComparison]:
    """The problems at which the law is most wrong, each once; none within the factor NEAR."""
    worst: dict[str, LawComparison] = {}
    for one in sorted(found, key=lambda one: abs(np.log(one.ratio))):
        if not 1 / NEAR <= one.ratio <= NEAR:
            worst[str(one)] = one
    return sorted(worst.values(), key=lambda one: -abs(np.log(one.ratio)))[:count]


def caption(rows: Rows, scale: Scale) -> str:
    """The ratio by kind, and the problems at which it is farthest from 1."""
    found = compared(rows, scale)
    if not found:
        return "No threshold was measured."
    parts = []
    for kind in KINDS:
        if ratios := [one.ratio for one in found if one.kind == kind]:
            plain = kind.replace("$d_{model}$", "d_model").replace("$d_k$", "d_k")
            middle = statistics.median(ratios)
            parts.append(f"{plain}: {min(ratios):.2f} to {max(ratios):.2f}, median {middle:.2f} ({len(ratios)})")
    near = sum(1 / NEAR <= one.ratio <= NEAR for one in found)
    worst = ", ".join(f"{one} {one.measured} against {one.predicted} ({one.ratio:.2f})" for one in _farthest(found))
    shorter, longer = ([one.ratio for one in found if (one.steps > DEFAULT_STEPS) is long] for long in (False, True))
    steps = (
        f" The median is {statistics.median(shorter):.2f} where training ends at {DEFAULT_STEPS:,} steps and "
        f"{statistics.median(longer):.2f} where it may take more."
        if shorter and longer
        else ""
    )
    return (
        "The law counts 2·d·d_k − d_k² degrees of freedom in each head against m²·g*(m'/(h·m²)); it has no constant to "
        f"fit, and is an estimate, neither a lower nor an upper bound. Measured by predicted D_K: {'; '.join(parts)}. "
        f"{near} of {len(found)} are within a factor of {NEAR:g}{f'; farthest off: {worst}' if worst else ''}.{steps}"
    )


BEYOND_FREEDOM = Exhibit(
    "The degrees of freedom against every threshold", runs, draw, caption, searches=searches, collection=BEYOND
)
