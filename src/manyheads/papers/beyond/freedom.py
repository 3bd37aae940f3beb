"""Past the paper: the degrees-of-freedom law against every threshold that was measured, and where it fails."""

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
from manyheads.papers.beyond import exact as beyond_exact
from manyheads.papers.beyond import grid as beyond_grid
from manyheads.papers.panel import HEADS, REGULAR, THRESHOLDS, Panel
from manyheads.papers.pictures import found_thresholds
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.threshold_search import Hunt
from manyheads.papers.verdict import Verdict
from manyheads.training import Run
from manyheads.training.step_limits import DEFAULT

TITLE = "The degrees of freedom against every threshold"
NEAR = 1.25  # the law holds within this factor, either way
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4)
KINDS = {
    "permutations, the paper's kind of grid": (BLUE, "o"),
    "regular graphs, m = 128, $d_{model}$ = 32": (GREEN, "^"),
    "permutations, every h and $d_k$": (ORANGE, "*"),
    "exact recovery, trained to the limit": (VERMILLION, "D"),
}


@dataclass(frozen=True)
class Compared:
    """A measured threshold beside what the law says of the same head counts."""

    kind: str
    panel: Panel
    measured: int
    predicted: int
    steps: int

    @property
    def ratio(self) -> float:
        """Measured by predicted."""
        return self.measured / self.predicted

    @property
    def load(self) -> float:
        """The degrees of freedom that one head would need for everything, over those it has: m²·g*(m'/m²)/d²."""
        return (
            float(freedom_needed(items=self.panel.items, relations=self.panel.relations, heads=1))
            / self.panel.d_model**2
        )

    def __str__(self) -> str:
        degree = f", r = {self.panel.degree}" if self.panel.graph == "regular" else ""
        return f"({self.panel.items}, {self.panel.d_model}{degree})"


def panels_of(scale: Scale) -> list[Panel]:
    """Everything with a threshold on the paper's kind of grid; a sketch has the problems of `beyond_grid` alone."""
    return beyond_grid.problems(scale) if scale.quick else [*THRESHOLDS, *REGULAR]


def runs(scale: Scale) -> list[Run]:
    """All that Figures 3 and 12 rest on."""
    return [run for panel in panels_of(scale) for run in panel.runs(scale)]


def hunts(scale: Scale) -> list[Hunt]:
    """The searches of the other pictures past the paper."""
    return [*beyond_grid.hunts(scale), *beyond_exact.hunts(scale)]


def compared(rows: Rows, scale: Scale) -> list[Compared]:
    """Every threshold there is, each beside the law for its own head counts; none where the law has no answer."""
    made = []
    for kind, panel, found, heads in _measured(rows, scale):
        split = freedom_split(items=panel.items, relations=panel.relations, d_model=panel.d_model, heads=heads)
        if split is not None and found.key_budget is not None:
            steps = panel.run(1, 1, 0, scale).steps
            made.append(Compared(kind, panel, found.key_budget, split[0] * split[1], steps))
    return made


def _measured(rows: Rows, scale: Scale) -> Iterator[tuple[str, Panel, Threshold, tuple[int, ...]]]:
    permutations, regular, every, exact = KINDS
    for panel, found in found_thresholds(panels_of(scale), rows, scale):
        yield (regular if panel.graph == "regular" else permutations), panel, found, HEADS
    for panel, trail in beyond_grid.trails(rows, scale):
        yield every, panel, trail.threshold, beyond_grid.EVERY
    for one in beyond_exact.recoveries(rows, scale):
        if one.trained is not None:
            yield exact, one.panel, one.trained, HEADS


def draw(rows: Rows, scale: Scale) -> Figure:
    """Measured over predicted on the left; on the right their ratio, over how far one head is from holding all."""
    found = compared(rows, scale)
    with look():
        figure, ((against, ratios),) = panels(1, 2)
        figure.set_size_inches(10.4, 4.6)
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
                place = (one.load, one.ratio)
                ratios.annotate(str(one), place, xytext=(5, 4), textcoords="offset points", fontsize=8)
        ratios.axhline(1, color=GREY)
        ratios.axhspan(1 / NEAR, NEAR, color=GREY, alpha=0.15, linewidth=0)
        for axes in (against, ratios):
            axes.set_xscale("log")
            axes.set_yscale("log")
            counting_axis(axes.xaxis)
        counting_axis(against.yaxis)
        ratios.yaxis.set_major_locator(FixedLocator(TICKS))
        ratios.yaxis.set_major_formatter("{x:g}")
        ratios.yaxis.set_minor_locator(NullLocator())
        against.set_xlabel("$D_K$ by the degrees of freedom")
        against.set_ylabel("measured $D_K^*$")
        ratios.set_xlabel("load of a single head, $m^2 g^*(m'/m^2)\\,/\\,d_{model}^2$")
        ratios.set_ylabel("measured by predicted")
        against.set_title(f"grey: within a factor of {NEAR:g}")
        ratios.set_title(f"hollow: step limit above {DEFAULT:,}")
        figure.legend(*against.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _scatter(
    axes: Axes, chosen: list[Compared], x: list[float] | list[int], y: list[float] | list[int], kind: str
) -> None:
    colour, marker = KINDS[kind]
    faces = [colour if one.steps <= DEFAULT else "white" for one in chosen]
    size = 70 if marker == "*" else 30
    axes.scatter(x, y, s=size, c=faces, edgecolors=colour, marker=marker, linewidths=1.2, label=kind, zorder=3)


def _farthest(found: list[Compared], count: int = 3) -> list[Compared]:
    """Where the law is most wrong, outside of its factor, and one of each problem."""
    worst: dict[str, Compared] = {}
    for one in sorted(found, key=lambda one: abs(np.log(one.ratio))):
        if not 1 / NEAR <= one.ratio <= NEAR:
            worst[str(one)] = one
    return sorted(worst.values(), key=lambda one: -abs(np.log(one.ratio)))[:count]


def caption(rows: Rows, scale: Scale) -> str:
    """The ratio by kind, and where it is farthest from 1."""
    found = compared(rows, scale)
    if not found:
        return "No threshold was measured."
    parts = []
    for kind in KINDS:
        ratios = [one.ratio for one in found if one.kind == kind]
        if ratios:
            plain = kind.replace("$d_{model}$", "d_model").replace("$d_k$", "d_k")
            middle = statistics.median(ratios)
            parts.append(f"{plain}: {min(ratios):.2f} to {max(ratios):.2f}, median {middle:.2f} ({len(ratios)})")
    near = sum(1 / NEAR <= one.ratio <= NEAR for one in found)
    worst = ", ".join(f"{one} {one.measured} against {one.predicted} ({one.ratio:.2f})" for one in _farthest(found))
    shorter, longer = ([one.ratio for one in found if (one.steps > DEFAULT) is long] for long in (False, True))
    steps = (
        f" The median is {statistics.median(shorter):.2f} where training ends at {DEFAULT:,} steps and "
        f"{statistics.median(longer):.2f} where it may go on."
        if shorter and longer
        else ""
    )
    return (
        "The law counts 2·d·d_k − d_k² degrees of freedom in each head against m²·g*(m'/(h·m²)); it has no constant to "
        f"fit, and is an estimate, neither a lower nor an upper bound. Measured by predicted D_K: {'; '.join(parts)}. "
        f"{near} of {len(found)} are within a factor of {NEAR:g}{f'; farthest off: {worst}' if worst else ''}.{steps}"
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Nothing of the paper's: it goes past it."""
    return []
