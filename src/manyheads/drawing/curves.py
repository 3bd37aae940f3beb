"""Curves over the key budget: means with the intervals of their seeds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from manyheads.capacity import Point


def curve(axes: Axes, points: Sequence[Point], *, colour: str, marker: str, label: str, shares: bool = True) -> None:
    """A line through the means with 95 % intervals; those of shares are cut at 0 and 1, beyond which no share lies."""
    budgets, means = [point.key_budget for point in points], [point.mean for point in points]
    axes.plot(budgets, means, color=colour, marker=marker, label=label)
    several = [point for point in points if len(point.scores) > 1]  # one seed has no interval
    least, most = (0.0, 1.0) if shares else (float("-inf"), float("inf"))
    below = [point.mean - max(point.interval[0], least) for point in several]
    above = [max(0.0, min(point.interval[1], most) - point.mean) for point in several]
    budgets, means = [point.key_budget for point in several], [point.mean for point in several]
    axes.errorbar(budgets, means, yerr=[below, above], fmt="none", ecolor=colour, elinewidth=1.2, capsize=3)
