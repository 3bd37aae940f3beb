"""The picture of a capacity: score against key budget, one line a head count, thresholds marked."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from manyheads.bounds import freedom_key_width, paper_key_budget
from manyheads.capacity import Capacity
from manyheads.drawing.curves import curve
from manyheads.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, look, panels

LINES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = "osD^vPX"


def draw_capacity(capacity: Capacity) -> Figure:
    """The F1–D_K curve with 95 % intervals, the target, D_K* with its range, and what the laws predicted."""
    like = capacity.like
    with look():
        figure, ((axes,),) = panels(1, 1)
        figure.set_size_inches(8.4, 4.4)
        for position, heads in enumerate(sorted({point.heads for point in capacity.curve})):
            _curve(axes, capacity, heads, LINES[position % len(LINES)], MARKERS[position % len(MARKERS)])
        if any(0 < len(point.scores) < capacity.seeds for point in capacity.curve):
            axes.plot(
                [], [], color=GREY, marker="o", markerfacecolor="white", linestyle="", label="the first seeds only"
            )
        axes.axhline(capacity.goal.target, color=GREY, linestyle=":", linewidth=1.2, label=f"goal: {capacity.goal}")
        _threshold(axes, capacity)
        _laws(axes, capacity)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(left=0)
        axes.set_ylim(top=1.02)
        axes.set_xlabel("key budget $D_K$ = heads · key width")
        axes.set_ylabel("share of seeds that recover every pair" if capacity.goal.exact else "mean test micro-F1")
        graph = f"{like.degree}-regular" if like.graph == "regular" else like.graph.partition(":")[0]
        title = f"{like.items} items, $d_{{model}}$ = {like.d_model}, {graph} graph, rule {like.rule}"
        axes.set_title(title, pad=18)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _curve(axes: Axes, capacity: Capacity, heads: int, colour: str, marker: str) -> None:
    points = [point for point in capacity.curve if point.heads == heads and point.scores]
    whole = [point for point in points if len(point.scores) == capacity.seeds]
    label = f"{heads} head{'s' if heads > 1 else ''}"
    curve(axes, whole, colour=colour, marker=marker, label=label)
    # a point given up after its first seeds has no interval worth drawing, and its mean is of other seeds
    for point in points:
        if point not in whole:
            axes.plot(point.key_budget, point.mean, color=colour, marker=marker, markerfacecolor="white", alpha=0.6)


def _threshold(axes: Axes, capacity: Capacity) -> None:
    found = capacity.threshold
    if found.key_budget is None:
        return
    low, high = found.low or found.key_budget, found.high or found.key_budget
    axes.axvspan(low, high, color=BLACK, alpha=0.08, linewidth=0, label=f"95 % range, {low} to {high}")
    label = f"$D_K^*$ = {found.key_budget} at {found.heads} heads"
    axes.axvline(found.key_budget, color=BLACK, linewidth=1.2, label=label)


def _laws(axes: Axes, capacity: Capacity) -> None:
    like, relations = capacity.like, capacity.relations
    widths = {
        h: freedom_key_width(items=like.items, relations=relations, d_model=like.d_model, heads=h)
        for h in {p.heads for p in capacity.curve}
    }
    freedom = min((heads * width for heads, width in widths.items() if width is not None), default=None)
    paper = float(paper_key_budget(items=like.items, relations=relations, d_model=like.d_model, degree=like.degree))
    for name, budget in (("degrees of freedom", freedom), ("the paper's law", paper)):
        if budget is not None:
            axes.axvline(budget, color=GREY, linestyle="--", linewidth=1)
            axes.annotate(
                f"{name}: {budget:.0f}",
                (budget, 1.0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=GREY,
                fontsize=8.5,
            )
