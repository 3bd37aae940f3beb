"""Claims 19 and 20: the cost of building a construction (App. B), and of splitting a key budget into heads (App. C)."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from manyheads.capacity import Regression, affine_regression
from manyheads.drawing.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    counting_axis,
    legend,
    look,
    panels,
    power_axis,
)
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.clocks import BuildClock, SplitClock
from manyheads.papers.panel import HEADS
from manyheads.papers.rows import Rows
from manyheads.papers.verdict import Verdict, judged, missing

CONSTANT = 16.0  # C of d_k = ⌈C·ln m⌉, large enough for a certificate
WIDTHS = {256: (VERMILLION, "D"), 512: (BLUE, "o"), 1024: (GREEN, "s")}  # by d_model
ITEMS = (1024, 2048, 4096, 8192, 16384)
BUILD_ROUNDS, QUICK_BUILD_ROUNDS = 5, 2
TOLERANCE = 1.1  # the largest exponent of the time in m·d·ln m that agrees with claim 19
# (d_model, D_K, context): the paper's experiments, and a layer of the size that language models have
SPLIT_SIZES = ((64, 64, 16), (512, 512, 256))
SPLIT_ROUNDS, QUICK_SPLIT_ROUNDS = 15, 3
HARDLY = 1.5  # the largest ratio of the slowest to the quickest split that agrees with claim 20
LINES = {
    ("torch", "scores"): (VERMILLION, "o", "-"),
    ("torch", "training"): (VERMILLION, "s", "--"),
    ("kernel", "training"): (BLUE, "s", "--"),
}


# Claim 19


def build_runs(scale: Scale) -> list[BuildClock]:
    """Construction II at every size; a quick reproduction leaves out the largest sizes."""
    items, rounds = (ITEMS[:3], QUICK_BUILD_ROUNDS) if scale.quick else (ITEMS, BUILD_ROUNDS)
    return [BuildClock(m, d_model, CONSTANT, rounds) for d_model in WIDTHS for m in items]


def draw_build(rows: Rows, scale: Scale) -> Figure:
    """Seconds on the left, multiply-adds on the right, against m·d_model·ln m."""
    timed = _timed_builds(rows, scale)
    with look():
        figure, ((clock, count),) = panels(1, 2)
        for axes, values in ((clock, 0), (count, 1)):
            for d_model, (colour, marker) in WIDTHS.items():
                line = [(_work(run), found[values]) for run, found in timed if run.d_model == d_model]
                if line:
                    axes.plot(*zip(*line, strict=True), color=colour, marker=marker, label=f"$d_{{model}}$ = {d_model}")
            axes.set(xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("m · $d_{model}$ · ln m")
        if len(timed) > 2:
            work = [_work(run) for run, _ in timed]
            fit, ends = _fit(timed), np.array([min(work), max(work)])
            through = np.exp(fit.intercept) * ends**fit.slope
            clock.plot(ends, through, color=GREY, linestyle="--", linewidth=1.2, label=f"exponent {fit.slope:.2f}")
            count.plot(ends, 2 * CONSTANT * ends, color=GREY, linestyle="--", linewidth=1.2, label="2·C · m·d·ln m")
        clock.set_ylabel("seconds")
        count.set_ylabel("multiply-adds")
        clock.set_title("time")
        count.set_title("counted")
        legend(clock, loc="upper left")
        legend(count, loc="upper left")
    return figure


def caption_build(rows: Rows, scale: Scale) -> str:
    """The exponent of the time, and the time and multiply-adds of the largest build."""
    timed = _timed_builds(rows, scale)
    if len(timed) < 3:
        return "Too few timings for a fit."
    return (
        f"Construction II with blocks of d_model and d_k = ⌈{CONSTANT:g}·ln m⌉, the quickest of {timed[0][0].rounds} "
        f"builds: {_shown_builds(timed)}. The paper states O(m·d_model·log m), and no times. Each head multiplies its "
        "own block's rows only: with templates of all m rows in every head, as Algorithm 1 is written, the cost would "
        "grow with m²."
    )


def claims_build(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 19."""
    says = "cost of a construction: O(m·d_model·log m)"
    timed = _timed_builds(rows, scale)
    if len(timed) < len(build_runs(scale)):
        return [missing("19", says, f"{len(timed)} of {len(build_runs(scale))} timings were made")]
    exact = max(found[1] / (2 * run.key_width * run.items * run.d_model) for run, found in timed) <= 1
    why = f"yardstick: at most 2·m·d_model·d_k multiply-adds, and an exponent of the time of at most {TOLERANCE:g}"
    return [judged("19", says, _shown_builds(timed), exact and _fit(timed).slope <= TOLERANCE, why)]


def _timed_builds(rows: Rows, scale: Scale) -> list[tuple[BuildClock, tuple[float, float]]]:
    """Seconds and multiply-adds of every build that was timed."""
    found = [(run, row.scores) for run in build_runs(scale) for row in rows.of([run])]
    return [(run, (float(scores["build_seconds"] or 0), float(scores["multiply_adds"] or 0))) for run, scores in found]


def _work(run: BuildClock) -> float:
    return run.items * run.d_model * math.log(run.items)


def _fit(timed: list[tuple[BuildClock, tuple[float, float]]]) -> Regression:
    x = np.log([_work(run) for run, _ in timed])
    return affine_regression(x, np.log([seconds for _, (seconds, _) in timed]))


def _shown_builds(timed: list[tuple[BuildClock, tuple[float, float]]]) -> str:
    fit = _fit(timed)
    low, high = fit.slope_interval
    run, (seconds, counted) = max(timed, key=lambda one: _work(one[0]))
    return (
        f"time ∝ (m·d·ln m)^{fit.slope:.2f} (95 %: {low:.2f} to {high:.2f}, R² {fit.r_squared:.3f}); "
        f"m = {run.items}, d_model = {run.d_model}: {counted / 1e9:.2f}·10⁹ multiply-adds in {seconds:.2f} s"
    )


# Claim 20


def split_runs(scale: Scale) -> list[SplitClock]:
    """Torch with scores only and with a whole training step, and the kernel with a training step, at both sizes."""
    rounds = QUICK_SPLIT_ROUNDS if scale.quick else SPLIT_ROUNDS
    return [SplitClock(channel, work, *size, HEADS, rounds) for size in SPLIT_SIZES for channel, work in LINES]  # type: ignore[arg-type]


def draw_split(rows: Rows, scale: Scale) -> Figure:
    """Microseconds against the number of heads; the claim predicts level lines."""
    with look():
        figure, (line,) = panels(1, len(SPLIT_SIZES))
        for axes, size in zip(line, SPLIT_SIZES, strict=True):
            for run, times in _timed_splits(rows, scale):
                if (run.d_model, run.key_budget, run.context) != size:
                    continue
                colour, marker, style = LINES[run.channel, run.work]
                name = f"{run.channel}: {'scores only' if run.work == 'scores' else 'training step'}"
                axes.plot(list(times), list(times.values()), color=colour, marker=marker, linestyle=style, label=name)
            axes.set(xscale="log", yscale="log")
            power_axis(axes.xaxis, HEADS)
            counting_axis(axes.yaxis)
            axes.set_xlabel(f"heads h, each of width {size[1]}/h")
            axes.set_title(f"$d_{{model}}$ = {size[0]}, $D_K$ = {size[1]}, context {size[2]}")
        line[0].set_ylabel("µs a context, one core")
        handles, names = line[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure


def caption_split(rows: Rows, scale: Scale) -> str:
    """The time of the slowest split over that of the quickest."""
    shown = "; ".join(_shown_split(run, times) for run, times in _timed_splits(rows, scale))
    return (
        "The multiply-adds of projections and scores are the same for every split; the times are the quickest of "
        f"{QUICK_SPLIT_ROUNDS if scale.quick else SPLIT_ROUNDS} rounds on one core. Slowest by quickest split: "
        f"{shown}. The count does not include writing and joining the h·ℓ² scores, which grow with the number of "
        "heads. App. C expects level lines."
    )


def claims_split(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 20."""
    says = "at fixed D_K the split into heads hardly changes the cost of the query–key channel (h = 1 … 64)"
    timed = _timed_splits(rows, scale)
    if len(timed) < len(split_runs(scale)):
        return [missing("20", says, f"{len(timed)} of {len(split_runs(scale))} timings were made")]
    measured = "slowest by quickest split: " + "; ".join(_shown_split(run, times) for run, times in timed)
    holds = all(_ratio(times) <= HARDLY for _, times in timed)
    why = f"yardstick: {HARDLY:g} at most, everywhere; with narrow heads the h·ℓ² scores outweigh the multiply-adds"
    return [judged("20", says, measured, holds, why)]


def _timed_splits(rows: Rows, scale: Scale) -> list[tuple[SplitClock, dict[int, float]]]:
    """The timings that have a row: microseconds by head count."""
    found = [(run, row) for run in split_runs(scale) for row in rows.of([run])]
    return [(run, {heads: float(row.scores[str(heads)] or 0) for heads in run.splits}) for run, row in found]


def _ratio(times: dict[int, float]) -> float:
    return max(times.values()) / min(times.values())


def _shown_split(run: SplitClock, times: dict[int, float]) -> str:
    slowest = max(times, key=lambda heads: times[heads])
    work = "scores" if run.work == "scores" else "training step"
    return f"{run.channel}, {work}, d_model = {run.d_model}: {_ratio(times):.2f} (slowest at h = {slowest})"


CONSTRUCTION_COST = Exhibit(
    "What it costs to build a construction",
    build_runs,
    draw_build,
    caption_build,
    claims_build,
    work=frozenset({"trial"}),
)
SPLIT_COST = Exhibit(
    "One key budget, split into 1 to 64 heads: the time it takes",
    split_runs,
    draw_split,
    caption_split,
    claims_split,
    work=frozenset({"trial"}),
)
