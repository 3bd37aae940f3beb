"""Setting: one table of the paper on head counts (arXiv 2510.06662): NMSE over head counts and lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean, stdev
from typing import Protocol

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from manyheads.drawing.style import GREY, look, panels
from manyheads.papers.pictures import legend
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.retrieval.retrieval_run import RetrievalRun

LENGTHS = (8, 16, 32, 64, 128)
HEADS = (1, 2, 3, 4, 5)
LONG = 32
SEEDS = 3
COLOURS = {length: to_hex(mpl.colormaps["viridis"](place / len(LENGTHS))) for place, length in enumerate(LENGTHS)}
HEAD_COLOURS = {heads: to_hex(mpl.colormaps["plasma"](place / (len(HEADS) + 0.5))) for place, heads in enumerate(HEADS)}
MARKERS = dict(zip(LENGTHS, "osD^v", strict=True))

Point = tuple[int, int]  # heads, length


@dataclass(frozen=True)
class Setting:
    """What is varied over, what is fixed, and the numbers that the paper prints (means over its seeds)."""

    title: str
    dimension: int = 4
    layers: int = 1
    mlp_width: int = 32
    head_width: int | None = None  # n, the same for every head count; or
    embedding: int | None = None  # E, nearest to which n·h is
    task: str = "maxima"
    lengths: tuple[int, ...] = LENGTHS
    heads: tuple[int, ...] = HEADS
    examples: tuple[int, int] = (8_000, 2_000)
    paper: Mapping[Point, float] = field(default_factory=dict, hash=False)

    def width(self, heads: int) -> int:
        """n; where E is fixed and does not divide, the whole number above E/h, so that no head is narrower."""
        return self.head_width if self.head_width is not None else -(-(self.embedding or 0) // heads)

    def seeds(self, scale: Scale) -> range:
        """The seeds of every point."""
        return range(scale.seeds or (2 if scale.quick else SEEDS))

    def run(self, heads: int, length: int, seed: int, scale: Scale) -> RetrievalRun:
        """One run."""
        return RetrievalRun(
            self.dimension,
            length,
            heads,
            seed,
            head_width=self.width(heads),
            task=self.task,
            layers=self.layers,
            mlp_width=self.mlp_width,
            training_examples=self.examples[0],
            validation_examples=self.examples[1],
            steps=scale.limit(RetrievalRun.steps),
        )

    def measured_lengths(self, scale: Scale) -> tuple[int, ...]:
        """A sketch has no long sequences."""
        return tuple(length for length in self.lengths if length <= LONG) if scale.quick else self.lengths

    def runs(self, scale: Scale) -> list[RetrievalRun]:
        """Every run, the longest first, so that no worker is left with one at the end."""
        return list(_runs(self, scale))

    def nmse(self, rows: Rows, scale: Scale) -> dict[Point, list[float]]:
        """NMSE of every seed at each point that has all of them; a run that diverged leaves its point out."""
        found: dict[Point, list[float]] = {}
        for run, value in rows.scores(self.runs(scale), "nmse"):
            found.setdefault((run.heads, run.length), []).append(value)
        return {point: values for point, values in found.items() if len(values) == len(self.seeds(scale))}

    def complete(self, rows: Rows, scale: Scale) -> bool:
        """Whether every point has all of its seeds."""
        return len(self.nmse(rows, scale)) == len(self.heads) * len(self.measured_lengths(scale))


@cache  # tables, figures and claims ask for the same runs, and their ids take time
def _runs(setting: Setting, scale: Scale) -> tuple[RetrievalRun, ...]:
    return tuple(
        setting.run(heads, length, seed, scale)
        for length in sorted(setting.measured_lengths(scale), reverse=True)
        for heads in setting.heads  # seeds side by side: what trains in one call comes together
        for seed in setting.seeds(scale)
    )


class Tabled(Protocol):
    """An exhibit that has tables."""

    def settings(self, scale: Scale) -> list[Setting]:
        """One setting a table."""


def table(setting: Setting, rows: Rows, scale: Scale) -> str:
    """Markdown: mean ± standard deviation over the seeds, the best seed, and the paper's mean where it prints one."""
    found, lengths = setting.nmse(rows, scale), setting.measured_lengths(scale)
    lines = [
        "| NMSE | " + " | ".join(f"T = {length}" for length in lengths) + " |",
        "|---|" + "---|" * len(lengths),
    ]
    for heads in setting.heads:
        cells = [_cell(found.get((heads, length)), setting.paper.get((heads, length))) for length in lengths]
        lines.append(f"| h = {heads} (n = {setting.width(heads)}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: list[float] | None, paper: float | None) -> str:
    measured = "not run" if values is None else f"{fmean(values):.1e} ± {_spread(values):.0e} (best {min(values):.1e})"
    return measured if paper is None else f"{measured}; paper {paper:.1e}"


def _spread(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def over_heads(axes: Axes, setting: Setting, rows: Rows, scale: Scale) -> None:
    """The best seed's NMSE over the head count, a line for each length, as the paper's Figure 1a draws it."""
    found = setting.nmse(rows, scale)
    for length in setting.measured_lengths(scale):
        line = [(heads, min(found[heads, length])) for heads in setting.heads if (heads, length) in found]
        if line:
            axes.plot(*zip(*line, strict=True), color=COLOURS[length], marker=MARKERS[length], label=f"T = {length}")
    needed = setting.dimension / setting.layers
    axes.axvline(needed, color=GREY, linestyle=":", linewidth=1.2)
    name = f"h = D = {setting.dimension}" if setting.layers == 1 else f"{setting.layers}·h = D = {setting.dimension}"
    axes.annotate(
        name, (needed, 0.98), xycoords=axes.get_xaxis_transform(), xytext=(4, 0), textcoords="offset points", va="top",
        fontsize=9, color=GREY,
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(setting.heads)
    axes.set_xlabel("heads h")
    axes.set_title(setting.title)


def over_lengths(axes: Axes, setting: Setting, rows: Rows, scale: Scale) -> None:
    """The mean NMSE over the length, a line for each head count; dashed what the paper prints."""
    found = setting.nmse(rows, scale)
    for heads in setting.heads:
        colour = HEAD_COLOURS[heads]
        line = [(length, fmean(found[heads, length])) for length in setting.lengths if (heads, length) in found]
        if line:
            axes.plot(*zip(*line, strict=True), color=colour, marker="o", label=f"h = {heads}")
        printed = [
            (length, setting.paper[heads, length]) for length in setting.lengths if (heads, length) in setting.paper
        ]
        if printed:
            axes.plot(*zip(*printed, strict=True), color=colour, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(setting.measured_lengths(scale), [str(length) for length in setting.measured_lengths(scale)])
    axes.minorticks_off()
    axes.set_xlabel("tokens T")


def heads_and_lengths(setting: Setting, rows: Rows, scale: Scale) -> Figure:
    """One table twice: the best seed over the heads, the mean over the length."""
    with look():
        figure, (line,) = panels(1, 2)
        over_heads(line[0], setting, rows, scale)
        line[0].set_ylabel("NMSE, the best seed")
        legend(line[0], loc="lower left")
        over_lengths(line[1], setting, rows, scale)
        line[1].set_ylabel("mean NMSE (dashed: the paper's)" if setting.paper else "mean NMSE")
        legend(line[1], loc="beside")
    return figure
