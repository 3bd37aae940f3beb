"""Claim 19: a construction costs O(m·d_model·log m) to build (App. B)."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from manyheads.capacity import Fit, fit_affine
from manyheads.drawing.style import BLUE, GREEN, GREY, VERMILLION, look, panels
from manyheads.papers.exhibits.clocks import BuildClock
from manyheads.papers.pictures import legend
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "What it costs to build a construction"
CONSTANT = 16.0  # C of d_k = ⌈C·ln m⌉: of the size that certifies
WIDTHS = {256: (VERMILLION, "D"), 512: (BLUE, "o"), 1024: (GREEN, "s")}
ITEMS = (1024, 2048, 4096, 8192, 16384)
ROUNDS, QUICK_ROUNDS = 5, 2
TOLERANCE = 1.1  # the exponent of the time in m·d·ln m


def runs(scale: Scale) -> list[BuildClock]:
    """Construction II at every size; a sketch leaves out the largest."""
    items, rounds = (ITEMS[:3], QUICK_ROUNDS) if scale.quick else (ITEMS, ROUNDS)
    return [BuildClock(m, d_model, CONSTANT, rounds) for d_model in WIDTHS for m in items]


def draw(rows: Rows, scale: Scale) -> Figure:
    """Seconds on the left, counted multiply-adds on the right, over m·d_model·ln m."""
    timed = _timed(rows, scale)
    with look():
        figure, ((clock, count),) = panels(1, 2)
        for axes, values in ((clock, 0), (count, 1)):
            for d_model, (colour, marker) in WIDTHS.items():
                line = [(_work(run), found[values]) for run, found in timed if run.d_model == d_model]
                if line:
                    axes.plot(*zip(*line, strict=True), color=colour, marker=marker, label=f"$d_{{model}}$ = {d_model}")
            axes.set_xscale("log")
            axes.set_yscale("log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("m · $d_{model}$ · ln m")
        if len(timed) > 2:
            fit, ends = (
                _fit(timed),
                np.array([min(_work(run) for run, _ in timed), max(_work(run) for run, _ in timed)]),
            )
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


def caption(rows: Rows, scale: Scale) -> str:
    """Exponent and count."""
    timed = _timed(rows, scale)
    if len(timed) < 3:
        return "Too few timings for a fit."
    return (
        f"Construction II with blocks of d_model and d_k = ⌈{CONSTANT:g}·ln m⌉, the quickest of "
        f"{timed[0][0].rounds} builds: {_shown(timed)}. The paper states O(m·d_model·log m), and no times. Each head "
        "multiplies its own block's rows only: with templates of all m rows in every head, as Algorithm 1 is written, "
        "the cost would grow with m²."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 19."""
    says = "cost of a construction: O(m·d_model·log m)"
    timed = _timed(rows, scale)
    if len(timed) < len(runs(scale)):
        return [missing("19", says, f"{len(timed)} of {len(runs(scale))} timings were made")]
    exact = max(found[1] / (2 * run.key_width * run.items * run.d_model) for run, found in timed) <= 1
    why = f"yardstick: at most 2·m·d_model·d_k multiply-adds, and an exponent of the time of at most {TOLERANCE:g}"
    return [judged("19", says, _shown(timed), exact and _fit(timed).slope <= TOLERANCE, why)]


def _timed(rows: Rows, scale: Scale) -> list[tuple[BuildClock, tuple[float, float]]]:
    """Seconds and multiply-adds of every build that was timed."""
    found = [(run, row.scores) for run in runs(scale) for row in rows.of([run])]
    return [(run, (float(scores["build_seconds"] or 0), float(scores["multiply_adds"] or 0))) for run, scores in found]


def _work(run: BuildClock) -> float:
    return run.items * run.d_model * math.log(run.items)


def _fit(timed: list[tuple[BuildClock, tuple[float, float]]]) -> Fit:
    x = np.log([_work(run) for run, _ in timed])
    return fit_affine(x, np.log([seconds for _, (seconds, _) in timed]))


def _shown(timed: list[tuple[BuildClock, tuple[float, float]]]) -> str:
    fit = _fit(timed)
    low, high = fit.slope_interval
    run, (seconds, counted) = max(timed, key=lambda one: _work(one[0]))
    return (
        f"time ∝ (m·d·ln m)^{fit.slope:.2f} (95 %: {low:.2f} to {high:.2f}, R² {fit.r_squared:.3f}); "
        f"m = {run.items}, d_model = {run.d_model}: {counted / 1e9:.2f}·10⁹ multiply-adds in {seconds:.2f} s"
    )
