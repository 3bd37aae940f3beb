"""The picture of a capacity: score against key budget, one line a head count, thresholds marked."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.bounds import freedom_key_width, paper_key_budget
from manyheads.capacity import Capacity
from manyheads.draw.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, look, panels

LINES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = "osD^vPX"


def draw_capacity(capacity: Capacity) -> Figure:
    """The F1–D_K curve with 95 % intervals, the target, D_K* with its interval, and what the laws predicted."""
    like, target = capacity.like, capacity.goal.target
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(8.4, 4.6)
        for position, heads in enumerate(sorted({point.heads for point in capacity.curve})):
            _curve(axes, capacity, heads, LINES[position % len(LINES)], MARKERS[position % len(MARKERS)])
        axes.axhline(target, color=GREY, linestyle=":", linewidth=1.2)
        axes.annotate(f"{target:g}", (1.0, target), xycoords=("axes fraction", "data"), va="center", color=GREY)
        _threshold(axes, capacity)
        _laws(axes, capacity)
        axes.set_xscale("log", base=2)
        budgets = sorted({point.key_budget for point in capacity.curve})
        axes.set_xticks([2**n for n in range(12) if budgets[0] / 2 < 2**n < budgets[-1] * 2])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(budgets[0] / 1.15, budgets[-1] * 1.15)
        axes.set_ylim(top=1.03)
        axes.set_xlabel("key budget $D_K$ = heads · key width")
        axes.set_ylabel("seeds that recover every pair" if capacity.goal.exact else "mean test micro-F1")
        relation = like.graph if like.degree == 1 else f"{like.degree}-{like.graph}"
        axes.set_title(f"{like.items} items, $d_{{model}}$ = {like.d_model}, {relation} graph, rule {like.rule}")
        axes.legend(loc="lower right", ncols=2)
    return figure


def _curve(axes: Axes, capacity: Capacity, heads: int, colour: str, marker: str) -> None:
    points = [point for point in capacity.curve if point.heads == heads and point.scores]
    seeds = max(len(point.scores) for point in capacity.curve)
    budgets, means = [point.key_budget for point in points], [point.mean for point in points]
    label = f"{heads} head{'s' if heads > 1 else ''}"
    axes.plot(budgets, means, color=colour, marker=marker, label=label)
    # a point given up after its first seeds has no interval worth drawing
    whole = [point for point in points if len(point.scores) == seeds and seeds > 1]
    errors = [[p.mean - p.interval[0] for p in whole], [min(p.interval[1], 1.0) - p.mean for p in whole]]
    clipped = [[max(0.0, error) for error in side] for side in errors]
    axes.errorbar(
        [p.key_budget for p in whole], [p.mean for p in whole], yerr=clipped, fmt="none", ecolor=colour, capsize=2.5
    )


def _threshold(axes: Axes, capacity: Capacity) -> None:
    found = capacity.threshold
    if found.key_budget is None:
        return
    axes.axvspan(found.low or found.key_budget, found.high or found.key_budget, color=BLACK, alpha=0.07, linewidth=0)
    label = f"$D_K^*$ = {found.key_budget} ({found.low or '?'}–{found.high or '?'}), $h^*$ = {found.heads}"
    axes.axvline(found.key_budget, color=BLACK, linewidth=1.2, label=label)


def _laws(axes: Axes, capacity: Capacity) -> None:
    like = capacity.like
    relations = capacity.relations
    widths = {h: freedom_key_width(like.items, relations, like.d_model, h) for h in {p.heads for p in capacity.curve}}
    freedom = min((h * width for h, width in widths.items() if width is not None), default=None)
    if freedom is not None:
        axes.axvline(freedom, color=GREEN, linestyle="--", linewidth=1.2, label=f"degrees of freedom: {freedom}")
    paper = paper_key_budget(like.items, relations, like.d_model, degree=like.degree)
    axes.axvline(paper, color=ORANGE, linestyle="--", linewidth=1.2, label=f"the paper's law: {paper:.0f}")
