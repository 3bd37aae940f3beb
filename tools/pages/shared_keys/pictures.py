"""Shared keys: the price of each way to share keys, and relations against weights, cached numbers and multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manyheads.bounds import Shape
from manyheads.drawing.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, counting_axis, look, panels
from manyheads.planning.sharing import CONTEXT_LENGTH
from tools.pages.rows import Row, Tables, matching
from tools.pages.shared_keys.measurement import NAME
from tools.pages.shared_keys.text import COSTS, OWN, prices, summarise

KINDS = {
    OWN: (BLUE, "o"),
    "2 heads a key head": (GREEN, "s"),
    "4 heads a key head": (ORANGE, "D"),
    "8 heads a key head": (VERMILLION, "^"),
    "latent of 2 d_k": (PURPLE, "v"),
    "latent of 4 d_k": (PURPLE, "P"),
}


def figures(tables: Tables) -> dict[str, Figure]:
    """The pictures of the page."""
    points = summarise(tables[NAME])
    return {"shared-keys-price": draw_prices(points), "shared-keys-frontier": draw_frontier(points)}


def draw_prices(points: Sequence[Row]) -> Figure:
    """For each way to share keys: weights and cached numbers over those of own keys, a dot for each problem."""
    with look():
        figure, ((weights, cached),) = panels(1, 2, (9.4, 3.9))
        names = [name for name in KINDS if name != OWN]
        top = 1.08 * max(1.4, *(price for values in prices(points, "weights").values() for price in values))
        for axis, name, title in (
            (weights, "weights", "weights needed, own keys = 1"),
            (cached, "cached", "numbers to cache, own keys = 1"),
        ):
            found = prices(points, name)
            for place, kind in enumerate(names):
                values = sorted(found.get(kind, []))
                if not values:
                    continue
                colour, marker = KINDS[kind]
                spread = [place + 0.3 * (number + 0.5) / len(values) - 0.15 for number in range(len(values))]
                axis.scatter(spread, values, color=colour, marker=marker, s=34, zorder=3)
                middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
                axis.hlines(middle, place - 0.22, place + 0.22, color=colour, linewidth=2.4)
                axis.annotate(
                    f"{middle:.2f}", (place + 0.26, middle), va="center", ha="left", fontsize=10, fontweight="bold",
                    color=colour, zorder=4,
                )  # fmt: skip
            axis.axhline(1.0, color=GREY, linestyle="--", linewidth=1.2)
            axis.set(
                title=title,
                ylim=(0, top),
                xlim=(-0.6, len(names) - 0.2),
            )
            axis.set_xticks(
                range(len(names)), [name.replace(" a key", "\na key").replace(" of", "\nof") for name in names]
            )
            axis.tick_params(axis="x", labelsize=8)
            axis.grid(visible=False, axis="x")
    return figure


def draw_frontier(points: Sequence[Row]) -> Figure:
    """Relations against each cost: of each problem and way to share keys, the layer that costs the least."""
    there = [point for point in matching(points, rule="max") if "layer" in point]
    with look():
        figure, (axes,) = panels(1, 3, (12.6, 4.4))
        for axis, (name, label) in zip(axes, FRONTIERS.items(), strict=True):
            _frontier(axis, there, COSTS[name], label)
        axes[0].set_ylabel("relations held, certified")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


FRONTIERS = {
    "weights": "weights of queries and keys",
    "cached": "numbers to cache for each token",
    "multiply_adds": f"multiply-adds a token, over {CONTEXT_LENGTH:,} tokens",
}


def _frontier(axis: Axes, points: Sequence[Row], cost: Callable[[Shape], int], label: str) -> None:
    kinds = list(KINDS)
    for number, kind in enumerate(kinds):
        least: dict[tuple[int, int, int], int] = {}
        for point in matching(points, sharing=kind):
            problem = point["items"], point["d_model"], point["relations"]
            least[problem] = min(least.get(problem, 2**62), cost(point["layer"]))
        colour, marker = KINDS[kind]
        # relations of one problem are equal for all kinds: the marks are set a little apart
        y = [relations * 1.035 ** (number - len(kinds) / 2) for *_, relations in least]
        axis.scatter(list(least.values()), y, color=colour, marker=marker, s=36, label=kind if y else None, zorder=3)
    axis.set(xscale="log", yscale="log", xlabel=label)
    counting_axis(axis.xaxis)
    counting_axis(axis.yaxis)
