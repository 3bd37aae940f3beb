"""Claim 18a: constructions I to IV recover the graph in every context, for a large enough constant (Sec. 4, App. B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from manyheads.drawing.style import BLUE, GREEN, GREY, VERMILLION, counting_axis, look, panels
from manyheads.papers.exhibits.builds import Build
from manyheads.papers.pictures import legend
from manyheads.papers.rows import Row, Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict, judged, missing

TITLE = "Constructions I to IV: how large is a large enough constant?"
CONSTANTS = (20.0, 40.0, 80.0, 160.0, 320.0)
PAPER_SEEDS = 5
# one problem a line, at C = 1 and seed 0: sizes at which the limit d_k → ∞ leaves a window, for blocks of d_model
PROBLEMS = (
    Build("I", 64, 64, 64, 1.0, 0),
    Build("I", 256, 256, 256, 1.0, 0),
    Build("I", 1024, 1024, 1024, 1.0, 0),
    Build("II", 512, 256, 256, 1.0, 0),
    Build("II", 512, 384, 384, 1.0, 0),
    Build("II", 1024, 512, 512, 1.0, 0),
    Build("III", 128, 2048, 64, 1.0, 0),
    Build("III", 256, 2048, 64, 1.0, 0),
    Build("IV", 512, 384, 384, 1.0, 0, degree=2, graph="regular"),
    Build("IV", 512, 384, 384, 1.0, 0, degree=2, graph="random"),
)
MEANS = {
    "I": "I: one-hot items, one head",
    "II": "II: Gaussian rows",
    "III": "III: sparse binary rows",
    "IV": "IV: any graph, Gaussian rows",
}
COLOURS = (BLUE, VERMILLION, GREEN)


@dataclass(frozen=True)
class Rung:
    """All seeds of one problem at one constant."""

    constant: float
    paper: int  # how many seeds certify with the paper's threshold
    best: int  # and with the best one
    seeds: int
    false: float  # the largest score of a false pair over the paper's threshold, in the mean
    true: float  # the smallest of a true one
    key_budget: int  # the largest over the seeds

    @classmethod
    def of(cls, runs: Sequence[Build], rows: Sequence[Row]) -> Rung:
        """What the seeds came to."""
        scores = [{name: float(value or 0) for name, value in row.scores.items()} for row in rows]
        mean = {name: float(np.mean([one[name] for one in scores])) for name in ("false", "true")}
        paper, best = (int(sum(one[name] for one in scores)) for name in ("paper", "best"))
        budget = runs[0].key_width * int(max(one["heads"] for one in scores))
        return cls(runs[0].constant, paper, best, len(runs), mean["false"], mean["true"], budget)


def runs(scale: Scale) -> list[Build]:
    """Every problem at every constant, with several seeds of graph, embedding and signatures."""
    return [
        run
        for problem in _problems(scale)
        for constant in _constants(scale)
        for run in _seeds(problem, constant, scale)
    ]


def draw(rows: Rows, scale: Scale) -> Figure:
    """A panel for each construction: the window of thresholds that it leaves as C grows."""
    ladders = _ladders(rows, scale)
    with look():
        figure, grid = panels(2, 2)
        for axes, (name, title) in zip(grid.flat, MEANS.items(), strict=True):
            shown = [(problem, ladder) for problem, ladder in ladders.items() if problem.construction == name]
            for colour, (problem, ladder) in zip(COLOURS, shown, strict=False):
                x = [rung.constant for rung in ladder]
                axes.plot(x, [rung.false for rung in ladder], color=colour, linestyle="--")
                axes.plot(x, [rung.true for rung in ladder], color=colour, label=_size(problem))
                done = [rung for rung in ladder if rung.paper == rung.seeds]
                for ends in ([rung.false for rung in done], [rung.true for rung in done]):
                    axes.plot([rung.constant for rung in done], ends, color=colour, marker="o", linestyle="none")
            axes.axhline(1, color=GREY, linestyle=":", linewidth=1.2)
            axes.set_xscale("log")
            counting_axis(axes.xaxis)
            axes.set_xticks(CONSTANTS)
            axes.set_ylim(bottom=0)
            axes.set_title(title)
            legend(axes, loc="lower left")
        for axes in grid[-1]:
            axes.set_xlabel("C = $d_k$/ln m")
        for axes in grid[:, 0]:
            axes.set_ylabel("score by the paper's threshold")
        key = (
            Line2D([], [], color="black", linestyle="-", label="smallest true score"),
            Line2D([], [], color="black", linestyle="--", label="largest false score"),
            Line2D([], [], color="black", linestyle="", marker="o", label="every seed certified"),
        )
        figure.legend(handles=key, loc="outside lower center", ncols=3)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The constant that each problem needs."""
    shown = "; ".join(_shown(problem, ladder) for problem, ladder in _ladders(rows, scale).items())
    return (
        "Solid: the smallest score of a relation, dashed: the largest of any other pair, over the paper's threshold; "
        "they have to lie on both sides of 1, and dots mark where every seed certifies over all pairs. The smallest C "
        f"of those tried from which on all certify, and its D_K: {shown}. The paper proves that there is such a C and "
        "leaves it open."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 18a."""
    says = "constructions I–IV (max) recover the graph in every context, with the stated budgets for a large enough C"
    ladders = _ladders(rows, scale)
    if len(ladders) < len(_problems(scale)) or {problem.construction for problem in ladders} < set(MEANS):
        return [missing("18a", says, f"{len(ladders)} of {len(PROBLEMS)} problems were built")]
    measured = "; ".join(_shown(problem, ladder) for problem, ladder in ladders.items())
    works = {problem.construction for problem, ladder in ladders.items() if _needed(ladder, "paper") is not None}
    why = (
        "yardstick: each construction certifies with the paper's threshold from some C on, at one size or more; below "
        "d_model of about 50·ln m only another threshold, or none, separates (docs/results/constructions.md)"
    )
    return [judged("18a", says, measured, works == set(MEANS), why)]


def _problems(scale: Scale) -> list[Build]:
    return [problem for problem in PROBLEMS if problem.items <= scale.most_items]


def _constants(scale: Scale) -> tuple[float, ...]:
    return CONSTANTS[1::2] if scale.quick else CONSTANTS


def _seeds(problem: Build, constant: float, scale: Scale) -> list[Build]:
    seeds = scale.seeds_at(problem.items, problem.d_model, paper=PAPER_SEEDS)
    return [replace(problem, constant=constant, seed=seed) for seed in seeds]


def _ladders(rows: Rows, scale: Scale) -> dict[Build, list[Rung]]:
    """The rungs of every problem that was built to the end."""
    ladders = {}
    for problem in _problems(scale):
        steps = [_seeds(problem, constant, scale) for constant in _constants(scale)]
        if all(run.id in rows for step in steps for run in step):
            ladders[problem] = [Rung.of(step, rows.of(step)) for step in steps]
    return ladders


def _needed(ladder: Sequence[Rung], threshold: str) -> Rung | None:
    """The first rung from which on all seeds certify; None where the last does not."""
    needed = None
    for rung in reversed(ladder):
        if getattr(rung, threshold) < rung.seeds:
            break
        needed = rung
    return needed


def _size(problem: Build) -> str:
    kind = f", {problem.graph}, m' = {problem.relations}" if problem.construction == "IV" else ""
    return f"({problem.items}, {problem.d_model}){kind}"


def _shown(problem: Build, ladder: Sequence[Rung]) -> str:
    paper, best = _needed(ladder, "paper"), _needed(ladder, "best")
    if paper is not None:
        found = f"C = {paper.constant:g}, D_K = {paper.key_budget:,}"
    elif best is not None:
        found = f"only with the best threshold, C = {best.constant:g}, D_K = {best.key_budget:,}"
    else:
        found = f"none up to C = {ladder[-1].constant:g}"
    return f"{problem.construction} {_size(problem)}: {found}"
