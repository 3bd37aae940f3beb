"""What a picture shows, read from matplotlib's objects."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy import asarray


def legend_labels(axes: Axes) -> list[str]:
    """The labels of a legend, which must exist."""
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def coordinates(line: Line2D) -> tuple[list[float], list[float]]:
    """A line's x and y, number for number."""
    return asarray(line.get_xdata(), float).tolist(), asarray(line.get_ydata(), float).tolist()
