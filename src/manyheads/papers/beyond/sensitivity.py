"""Beyond the paper: how much D_K* depends on the optimiser, and how much on the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.bounds import freedom_split
from manyheads.drawing.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    counting_axis,
    look,
    panels,
    power_axis,
)
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import BEYOND, Exhibit
from manyheads.papers.panel import HEADS, Panel
from manyheads.papers.rows import Rows
from manyheads.papers.threshold_search import ThresholdSearch, panel_search
from manyheads.training import Run

PROBLEMS = tuple(Panel(items, d_model, paper_seeds=5) for items, d_model in ((128, 32), (256, 32), (256, 16)))
QUICK_PROBLEMS = (Panel(64, 32), Panel(64, 16))
LENGTHS = (8, 16, 32, 64)
TARGET_RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2)
STEP_FACTORS = (0.25, 1.0, 4.0)  # of Table 2's limit
PAPER = (16, 0.5, 1e-3, 1.0)
MARKERS = "osD"
PROBLEM_COLOURS = (BLUE, ORANGE, GREEN)
RATE_COLOURS = dict(zip(LEARNING_RATES, (SKY, BLUE, PURPLE, VERMILLION), strict=True))


@dataclass(frozen=True)
class TrainingVariant:
    """A problem whose training differs from the paper's in one or two settings."""

    panel: Panel
    length: int = PAPER[0]
    target_rate: float = PAPER[1]
    learning_rate: float = PAPER[2]
    step_factor: float = PAPER[3]

    def run(self, scale: Scale) -> Run:
        """The training, with dummies for heads, key width and seed."""
        paper = self.panel.run(1, 1, 0, scale)
        steps = max(1, round(self.step_factor * paper.protocol.steps))
        return replace(
            paper,
            task=replace(paper.task, context=self.length, target_rate=self.target_rate),
            protocol=replace(paper.protocol, learning_rate=self.learning_rate, steps=steps),
        )

    def search(self, scale: Scale) -> ThresholdSearch:
        """The search for D_K* over every key width; head counts are powers of two."""
        return panel_search(self.panel, scale, heads=HEADS, like=self.run(scale))


def problems(scale: Scale) -> tuple[Panel, ...]:
    """Three problems of the base grid, m/d_model = 4, 8 and 16; a quick reproduction has smaller ones."""
    chosen = QUICK_PROBLEMS if scale.quick else PROBLEMS
    return tuple(panel for panel in chosen if panel.items <= scale.most_items)


def lengths(panel: Panel) -> list[TrainingVariant]:
    """Contexts of other lengths, in training and in the test."""
    return [TrainingVariant(panel, length=length) for length in LENGTHS]


def target_rates(panel: Panel) -> list[TrainingVariant]:
    """Contexts with fewer or with more targets."""
    return [TrainingVariant(panel, target_rate=rate) for rate in TARGET_RATES]


def optimisers(panel: Panel) -> list[TrainingVariant]:
    """Other learning rates, each with several step limits."""
    return [
        TrainingVariant(panel, learning_rate=rate, step_factor=factor)
        for rate in LEARNING_RATES
        for factor in STEP_FACTORS
    ]


def runs(scale: Scale) -> list[Run]:
    """None: all runs belong to searches."""
    return []


def searches(scale: Scale) -> list[ThresholdSearch]:
    """Every variant once; the paper's own training is in each of the three families."""
    every = [
        setting
        for panel in problems(scale)
        for family in (lengths, target_rates, optimisers)
        for setting in family(panel)
    ]
    return [setting.search(scale) for setting in dict.fromkeys(every)]


class VariantThresholds:
    """The thresholds of all variants whose search has ended; None if no budget in the window works."""

    def __init__(self, rows: Rows, scale: Scale) -> None:
        self.rows, self.scale = rows, scale
        self._known: dict[TrainingVariant, int | None] = {}
        for panel in problems(scale):
            for setting in {*lengths(panel), *target_rates(panel), *optimisers(panel)}:
                trail = setting.search(scale).follow(rows)
                if not trail.missing:
                    self._known[setting] = trail.threshold.key_budget

    def __contains__(self, setting: TrainingVariant) -> bool:
        return setting in self._known

    def budget(self, setting: TrainingVariant) -> int | None:
        """D_K* of a variant; None if it is unknown or if no budget works."""
        return self._known.get(setting)

    def best(self, panel: Panel) -> tuple[TrainingVariant, int] | None:
        """The learning rate and step limit with the smallest D_K*; of equal ones the paper's own."""
        found = [(setting, budget) for setting in optimisers(panel) if (budget := self.budget(setting)) is not None]
        return min(found, key=lambda pair: (pair[1], pair[0] != TrainingVariant(panel)), default=None)

    @cached_property
    def panels(self) -> list[Panel]:
        """The problems with a known D_K* under the paper's own training."""
        return [panel for panel in problems(self.scale) if self.budget(TrainingVariant(panel)) is not None]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Above: contexts, and D_K* with the best optimiser. Below: learning rates and step limits."""
    found = VariantThresholds(rows, scale)
    with look():
        figure, ((by_length, by_rate, left), below) = panels(2, 3)
        _family(by_length, found, [lengths(panel) for panel in found.panels], LENGTHS)
        by_length.set_xscale("log")
        power_axis(by_length.xaxis, LENGTHS)
        by_length.set(xlabel="length of a context ℓ (paper: 16)", ylabel="$D_K^*$ by the paper's setting")
        _family(by_rate, found, [target_rates(panel) for panel in found.panels], TARGET_RATES)
        by_rate.set_xlabel("rate of targets ρ (paper: 0.5)")
        _best_optimiser(left, found)
        for axes, panel in zip(below, problems(scale), strict=False):
            _optimiser(axes, found, panel)
        for axes in below[len(problems(scale)) :]:
            axes.set_visible(False)
        below[0].set_ylabel("$D_K^*$")
        handles, names = below[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure


def _family(
    axes: Axes,
    found: VariantThresholds,
    families: Sequence[Sequence[TrainingVariant]],
    values: Sequence[int] | Sequence[float],
) -> None:
    """D_K* of a family of variants over that of the paper's training, a line for each problem."""
    for place, (panel, family) in enumerate(zip(found.panels, families, strict=True)):
        paper = found.budget(TrainingVariant(panel)) or 1
        known = [(x, budget / paper) for x, one in zip(values, family, strict=True) if (budget := found.budget(one))]
        axes.plot(
            [x for x, _ in known], [y for _, y in known], color=PROBLEM_COLOURS[place], marker=MARKERS[place],
            label=f"({panel.items}, {panel.d_model})",
        )  # fmt: skip
    axes.axhline(1, color=GREY, linewidth=1, linestyle=":")
    axes.set_ylim(bottom=0)
    axes.set_title("(m, $d_{model}$)" if found.panels else "not run")
    axes.legend(*axes.get_legend_handles_labels())


def _best_optimiser(axes: Axes, found: VariantThresholds) -> None:
    """D_K* with the best optimiser over the paper's D_K*, and the prediction of the degrees of freedom."""
    for place, panel in enumerate(found.panels):
        paper, best = found.budget(TrainingVariant(panel)) or 1, found.best(panel)
        split = freedom_split(items=panel.items, relations=panel.relations, d_model=panel.d_model, heads=HEADS)
        if best is not None:
            axes.bar(place, best[1] / paper, width=0.55, color=PROBLEM_COLOURS[place], alpha=0.75)
            said = f"{best[1] / paper:.2f}\n{best[1]} of {paper}"
            axes.annotate(said, (place, best[1] / paper / 2), ha="center", va="center", fontsize=8.5)
        if split is not None:
            law = split[0] * split[1] / paper
            axes.plot([place - 0.38, place + 0.38], [law, law], color=GREY, linestyle="--")
    axes.axhline(1, color=GREY, linewidth=1, linestyle=":")
    axes.set_xticks(range(len(found.panels)), [f"({panel.items}, {panel.d_model})" for panel in found.panels])
    axes.set_ylim(0, 1.25)
    axes.grid(visible=False, axis="x")
    axes.set_title("best learning rate and step limit\n(dashes: degrees of freedom)", fontsize=10)


def _optimiser(axes: Axes, found: VariantThresholds, panel: Panel) -> None:
    """D_K* against the step limit, a line for each learning rate; a cross if no budget in the window works."""
    paper_steps = panel.run(1, 1, 0, found.scale).protocol.steps
    top = max((found.budget(one) or 0 for one in optimisers(panel)), default=0) * 1.15
    for rate, colour in RATE_COLOURS.items():
        chosen = [one for one in optimisers(panel) if one.learning_rate == rate and one in found]
        works = [(one.step_factor * paper_steps, budget) for one in chosen if (budget := found.budget(one))]
        name = f"learning rate {rate:g}" + (" (paper)" if rate == PAPER[2] else "")
        axes.plot([x for x, _ in works], [y for _, y in works], color=colour, marker="o", label=name)
        fails = [one.step_factor * paper_steps for one in chosen if found.budget(one) is None]
        axes.plot(fails, [top] * len(fails), color=colour, marker="x", linestyle="", markersize=7)
    split = freedom_split(items=panel.items, relations=panel.relations, d_model=panel.d_model, heads=HEADS)
    if split is not None:
        axes.axhline(split[0] * split[1], color=GREY, linestyle="--", linewidth=1.2, label="degrees of freedom")
    axes.set_xscale("log")
    axes.set_yscale("log")
    power_axis(axes.xaxis, [round(factor * paper_steps) for factor in STEP_FACTORS])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    counting_axis(axes.yaxis)
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.plot([], [], color=GREY, marker="x", linestyle="", label="no $D_K$ in the window works")
    axes.set_xlabel("step limit")
    axes.set_title(str(panel))


def caption(rows: Rows, scale: Scale) -> str:
    """The numbers of every panel."""
    found = VariantThresholds(rows, scale)
    if not found.panels:
        return "No search has ended."
    parts = [
        f"D_K* by the mean F1 ≥ 0.99 on contexts like those trained on, {len(found.panels[0].seeds(scale))} seeds, "
        "every key width, h a power of two."
    ]
    for panel in found.panels:
        paper, best = found.budget(TrainingVariant(panel)) or 1, found.best(panel)
        at = f"({panel.items}, {panel.d_model}): {paper} as in the paper"
        for name, family in (("ℓ", lengths(panel)), ("ρ", target_rates(panel))):
            values = LENGTHS if name == "ℓ" else TARGET_RATES
            told = [
                f"{_shown(found.budget(one))} at {value:g}"
                for value, one in zip(values, family, strict=True)
                if one in found and one != TrainingVariant(panel)
            ]
            at += f"; {name}: {', '.join(told)}"
        if best is not None:
            setting, budget = best
            steps = round(setting.step_factor * panel.run(1, 1, 0, scale).protocol.steps)
            at += (
                f"; best optimiser {budget} ({budget / paper:.2f}) with learning rate {setting.learning_rate:g} and "
                f"{steps:,} steps"
            )
        parts.append(at + ".")
    shares = [
        best[1] / (found.budget(TrainingVariant(panel)) or 1) for panel in found.panels if (best := found.best(panel))
    ]
    if shares:
        parts.append(
            f"Of D_K* as the paper trains, {1 - max(shares):.0%} to {1 - min(shares):.0%} depends on the optimiser, as "
            "far as these settings show; docs/results/capacity-floor.md has the key budgets of compiled layers, which "
            "are not trained."
        )
    return " ".join(parts)


def _shown(budget: int | None) -> str:
    return "none" if budget is None else str(budget)


BEYOND_SENSITIVITY = Exhibit(
    "How much of D_K* is the optimiser's doing", runs, draw, caption, searches=searches, collection=BEYOND
)
