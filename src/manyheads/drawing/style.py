"""Style: one look for every picture, and how a picture becomes files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy import ndarray

from manyheads.files.atomic_files import picture_files, write_whole

# The palette of Okabe and Ito: eight colours told apart with every common kind of colour blindness.
BLACK, GREY = "#000000", "#7f7f7f"
BLUE, ORANGE, GREEN, VERMILLION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY, YELLOW = "#cc79a7", "#56b4e9", "#f0e442"

PANEL_WIDTH, PANEL_HEIGHT = 4.2, 3.3  # inches

_LOOK: dict[Any, Any] = {
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "manyheads",  # the same rows give the same file
}


@contextmanager
def look() -> Iterator[None]:
    """The settings every picture is drawn in; matplotlib's own come back at the end."""
    with mpl.rc_context(_LOOK):
        yield


def panels(rows: int, columns: int) -> tuple[Figure, ndarray]:
    """A figure and its (rows, columns) axes, without pyplot and its global state."""
    figure = Figure(figsize=(columns * PANEL_WIDTH, rows * PANEL_HEIGHT), layout="constrained")
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False))


def save(figure: Figure, path_stem: Path) -> tuple[Path, Path]:
    """Write the figure as path_stem.png and path_stem.svg, without dates, so that equal pictures are equal files.

    Each is written whole or not at all, over what is there; an ending .png, .svg or .pdf of the stem is taken off.
    """
    files, png, svg = picture_files(path_stem), BytesIO(), BytesIO()
    with look():
        figure.savefig(png, format="png", metadata={"Software": None})
        figure.set_layout_engine("none")  # what was laid out for the one stands for the other, and takes half the time
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    for path, content in zip(files, (png, svg), strict=True):
        write_whole(path, content.getvalue(), force=True)
    return files


def counting_axis(axis: Axis) -> None:
    """Ticks of a logarithmic axis at the numbers people count in: 1, 2, 5, 10, 20, 50, …"""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
