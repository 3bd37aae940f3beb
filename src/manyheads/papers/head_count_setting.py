"""RetrievalSetting: one table of the head-count paper (arXiv 2510.06662), NMSE by head count and length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.drawing.style import GREY, LINES, legend, look, panels
from manyheads.papers.effort import Scale
from manyheads.papers.rows import Rows
from manyheads.retrieval.retrieval_run import RetrievalRun
from manyheads.tables import markdown_table

LENGTHS = (8, 16, 32, 64, 128)
HEADS = (1, 2, 3, 4, 5)
LONG = 32  # the longest sequence of a quick reproduction
SEEDS = 3
COLOURS = dict(zip(LENGTHS, LINES, strict=False))
HEAD_COLOURS = dict(zip(HEADS, LINES, strict=False))
MARKERS = dict(zip(LENGTHS, "osD^v", strict=True))

HeadsAndLength = tuple[int, int]


@dataclass(frozen=True)
class RetrievalSetting:
    """The head counts and lengths of a table, its fixed sizes, and the paper's numbers (means over its seeds)."""

    title: str
    dimension: int = 4
    layers: int = 1
    mlp_width: int = 32
    head_width: int | None = None  # n, the same for every head count
    embedding: int | None = None  # E; in place of head_width, n is E/h rounded up
    task: str = "maxima"
    lengths: tuple[int, ...] = LENGTHS
    heads: tuple[int, ...] = HEADS
    examples: tuple[int, int] = (8_000, 2_000)
    paper: Mapping[HeadsAndLength, float] = field(default_factory=dict, hash=False)

    def width(self, heads: int) -> int:
        """n, the width of a head; with a fixed E it is E/h rounded up."""
        return self.head_width if self.head_width is not None else -(-(self.embedding or 0) // heads)

    def seeds(self, scale: Scale) -> range:
        """The seeds of every point."""
        return range(scale.seeds or (2 if scale.quick else SEEDS))

    def run(self, heads: int, length: int, seed: int, scale: Scale) -> RetrievalRun:
        """The run with this head count, length and seed."""
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
        """The lengths of this scale."""
        return tuple(length for length in self.lengths if length <= LONG) if scale.quick else self.lengths

    def runs(self, scale: Scale) -> list[RetrievalRun]:
        """Every run, the longest first, so that no worker has a long run at the end."""
        return list(_runs(self, scale))

    def nmse(self, rows: Rows, scale: Scale) -> dict[HeadsAndLength, list[float]]:
        """The NMSE of every seed, at each point where all seeds have one; a diverged run has none."""
        found: dict[HeadsAndLength, list[float]] = {}
        for run, value in rows.scores(self.runs(scale), "nmse"):
            found.setdefault((run.heads, run.length), []).append(value)
        return {point: values for point, values in found.items() if len(values) == len(self.seeds(scale))}

    def complete(self, rows: Rows, scale: Scale) -> bool:
        """Whether every point has all of its seeds."""
        return len(self.nmse(rows, scale)) == len(self.heads) * len(self.measured_lengths(scale))


@cache  # tables, figures and claims ask for the same runs, and an id takes 0.1 ms
def _runs(setting: RetrievalSetting, scale: Scale) -> tuple[RetrievalRun, ...]:
    return tuple(
        setting.run(heads, length, seed, scale)
        for length in sorted(setting.measured_lengths(scale), reverse=True)
        for heads in setting.heads  # the seeds of a point are neighbours: they train in one call
        for seed in setting.seeds(scale)
    )


def table(setting: RetrievalSetting, rows: Rows, scale: Scale) -> str:
    """The table in Markdown: mean ± standard deviation of the seeds, the best seed, and the paper's mean if printed."""
    found, lengths = setting.nmse(rows, scale), setting.measured_lengths(scale)
    lines = []
    for heads in setting.heads:
        cells = [_cell(found.get((heads, length)), setting.paper.get((heads, length))) for length in lengths]
        lines.append((f"h = {heads} (n = {setting.width(heads)})", *cells))
    return markdown_table(("NMSE", *(f"T = {length}" for length in lengths)), lines)


def _cell(values: list[float] | None, paper: float | None) -> str:
    measured = "not run" if values is None else f"{fmean(values):.1e} ± {_spread(values):.0e} (best {min(values):.1e})"
    return measured if paper is None else f"{measured}; paper {paper:.1e}"


def _spread(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def over_heads(axes: Axes, setting: RetrievalSetting, rows: Rows, scale: Scale) -> None:
    """The best seed's NMSE against the head count, a line for each length, as in the paper's Figure 1a."""
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


def over_lengths(axes: Axes, setting: RetrievalSetting, rows: Rows, scale: Scale) -> None:
    """The mean NMSE against the length, a line for each head count; dashed: the paper's numbers."""
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
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(setting.measured_lengths(scale), [str(length) for length in setting.measured_lengths(scale)])
    axes.minorticks_off()
    axes.set_xlabel("tokens T")


def heads_and_lengths(setting: RetrievalSetting, rows: Rows, scale: Scale) -> Figure:
    """Two pictures of one table: the best seed against the head count, the mean against the length."""
    with look():
        figure, (line,) = panels(1, 2)
        over_heads(line[0], setting, rows, scale)
        line[0].set_ylabel("NMSE, the best seed")
        legend(line[0], loc="lower left")
        over_lengths(line[1], setting, rows, scale)
        line[1].set_ylabel("mean NMSE (dashed: the paper's)" if setting.paper else "mean NMSE")
        legend(line[1], loc="beside")
    return figure
