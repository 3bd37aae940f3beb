"""Claim 20: at a fixed key budget the split into heads hardly changes what the query–key channel costs (App. C)."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.drawing.style import BLUE, VERMILLION, counting_axis, look, panels
from manyheads.papers.exhibits.clocks import SplitClock
from manyheads.papers.panel import HEADS
from manyheads.papers.pictures import power_axis
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "One key budget, split into 1 to 64 heads: the time it takes"
# (d_model, D_K, context): the paper's experiments, and a layer of the size that language models have
SIZES = ((64, 64, 16), (512, 512, 256))
ROUNDS, QUICK_ROUNDS = 15, 3
HARDLY = 1.5  # the slowest split takes at most so many times the quickest
LINES = {
    ("torch", "scores"): (VERMILLION, "o", "-"),
    ("torch", "training"): (VERMILLION, "s", "--"),
    ("kernel", "training"): (BLUE, "s", "--"),
}


def runs(scale: Scale) -> list[SplitClock]:
    """Torch, the scores alone and a whole training step, and the kernel's training step, at both sizes."""
    rounds = QUICK_ROUNDS if scale.quick else ROUNDS
    return [SplitClock(channel, work, *size, HEADS, rounds) for size in SIZES for channel, work in LINES]  # type: ignore[arg-type]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Microseconds over the number of heads; level lines would be the claim."""
    with look():
        figure, (line,) = panels(1, len(SIZES))
        for axes, size in zip(line, SIZES, strict=True):
            for run, times in _timed(rows, scale):
                if (run.d_model, run.key_budget, run.context) != size:
                    continue
                colour, marker, style = LINES[run.channel, run.work]
                name = f"{run.channel}: {'scores only' if run.work == 'scores' else 'training step'}"
                axes.plot(list(times), list(times.values()), color=colour, marker=marker, linestyle=style, label=name)
            axes.set_xscale("log")
            axes.set_yscale("log")
            power_axis(axes.xaxis, HEADS)
            counting_axis(axes.yaxis)
            axes.set_xlabel(f"heads h, each of width {size[1]}/h")
            axes.set_title(f"$d_{{model}}$ = {size[0]}, $D_K$ = {size[1]}, context {size[2]}")
        line[0].set_ylabel("µs a context, one core")
        handles, names = line[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """How much the slowest split takes over the quickest."""
    shown = "; ".join(_shown(run, times) for run, times in _timed(rows, scale))
    return (
        "The multiply-adds of projections and scores are the same for every split; the times are the quickest of "
        f"{QUICK_ROUNDS if scale.quick else ROUNDS} rounds on one core. Slowest by quickest split: {shown}. What the "
        "count leaves out are the h·ℓ² scores that are written and joined, which grow with the number of heads. "
        "App. C expects level lines."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 20."""
    says = "at fixed D_K the split into heads hardly changes the cost of the query–key channel (h = 1 … 64)"
    timed = _timed(rows, scale)
    if len(timed) < len(runs(scale)):
        return [missing("20", says, f"{len(timed)} of {len(runs(scale))} timings were made")]
    measured = "slowest by quickest split: " + "; ".join(_shown(run, times) for run, times in timed)
    holds = all(_ratio(times) <= HARDLY for _, times in timed)
    why = f"yardstick: {HARDLY:g} at most, everywhere; with narrow heads the h·ℓ² scores outweigh the multiply-adds"
    return [judged("20", says, measured, holds, why)]


def _timed(rows: Rows, scale: Scale) -> list[tuple[SplitClock, dict[int, float]]]:
    """The timings that were made: microseconds by head count."""
    found = [(run, row) for run in runs(scale) for row in rows.of([run])]
    return [(run, {heads: float(row.scores[str(heads)] or 0) for heads in run.splits}) for run, row in found]


def _ratio(times: dict[int, float]) -> float:
    return max(times.values()) / min(times.values())


def _shown(run: SplitClock, times: dict[int, float]) -> str:
    slowest = max(times, key=lambda heads: times[heads])
    work = "scores" if run.work == "scores" else "training step"
    return f"{run.channel}, {work}, d_model = {run.d_model}: {_ratio(times):.2f} (slowest at h = {slowest})"
