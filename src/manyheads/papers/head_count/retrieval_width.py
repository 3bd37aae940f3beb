"""The second synthetic figure of the paper on head counts: NMSE against the width N of the MLPs."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from manyheads.drawing.style import look, panels
from manyheads.papers.head_count.retrieval_heads import SETTING
from manyheads.papers.head_count.retrieval_setting import HEAD_COLOURS, Setting
from manyheads.papers.pictures import legend
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict
from manyheads.retrieval.retrieval_run import RetrievalRun

TITLE = "Wider MLPs in place of heads"
LENGTH = 32
WIDTHS = (8, 16, 32, 64, 128)


def settings(scale: Scale) -> list[Setting]:
    """One length, and every width."""
    widths = WIDTHS[:3] if scale.quick else WIDTHS
    return [
        replace(SETTING, title=f"N = {width}, n = 8, D = 4", mlp_width=width, lengths=(LENGTH,), paper={})
        for width in widths
    ]


def runs(scale: Scale) -> list[RetrievalRun]:
    """Every width, the widest first."""
    return [run for setting in reversed(settings(scale)) for run in setting.runs(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """The best seed over the width, a line for each head count."""
    with look():
        figure, ((axes,),) = panels(1, 1)
        for heads, line in _lines(rows, scale).items():
            axes.plot(*zip(*line, strict=True), color=HEAD_COLOURS[heads], marker="o", label=f"h = {heads}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axes.minorticks_off()
        axes.set_xlabel("width N of the MLPs")
        axes.set_ylabel("NMSE, the best seed")
        axes.set_title(f"n = 8, D = 4, T = {LENGTH}")
        legend(axes, loc="beside")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """What width buys each head count."""
    told = [
        f"h = {heads}: {line[0][1]:.1e} at N = {line[0][0]}, {line[-1][1]:.1e} at N = {line[-1][0]}"
        for heads, line in _lines(rows, scale).items()
        if line
    ]
    return (
        f"T = {LENGTH}, the best of {len(SETTING.seeds(scale))} seeds. {'; '.join(told) or 'Not run'}. The paper draws "
        "this figure and prints no numbers for it."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """No numbers are published to compare with."""
    return []


def _lines(rows: Rows, scale: Scale) -> dict[int, list[tuple[int, float]]]:
    found = {setting.mlp_width: setting.nmse(rows, scale) for setting in settings(scale)}
    return {
        heads: line
        for heads in SETTING.heads
        if (line := [(width, min(by[heads, LENGTH])) for width, by in found.items() if (heads, LENGTH) in by])
    }
