"""Style: colours, axes and legends that every picture shares, and the writing of pictures to files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator
from numpy import ndarray

from manyheads.files.atomic_files import picture_files, write_together

# The palette of Okabe and Ito: people with every common kind of colour blindness can tell its colours apart.
BLACK, GREY = "#000000", "#7f7f7f"
BLUE, ORANGE, GREEN, VERMILLION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY = "#cc79a7", "#56b4e9"

# One palette for lines that are compared, in this order: neighbouring colours differ in hue and in brightness.
LINES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = "osD^vPX"

PANEL_WIDTH, PANEL_HEIGHT = 4.2, 3.3  # inches, of up to two panels beside each other
SMALL_WIDTH, SMALL_HEIGHT = (
    3.05,
    2.75,
)  # of three or more: the text stays legible where the whole picture is scaled down

_LOOK: dict[Any, Any] = {
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 10,
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
    """Draw with the settings of every picture; matplotlib's own settings return at the end."""
    with mpl.rc_context(_LOOK):
        yield


class NotebookFigure(Figure):
    """A figure that shows itself in a notebook, without pyplot."""

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        with look():
            self.savefig(png, format="png", metadata={"Software": None})
        return png.getvalue()


def panels(rows: int, columns: int, size: tuple[float, float] | None = None) -> tuple[Figure, ndarray]:
    """A figure and its array of axes, of shape (rows, columns), without pyplot and its global state.

    Args:
        rows: The number of rows.
        columns: The number of columns.
        size: The width and the height of the figure in inches; None: by the number of panels.

    Returns:
        The figure and the axes.
    """
    width, height = (PANEL_WIDTH, PANEL_HEIGHT) if columns < 3 else (SMALL_WIDTH, SMALL_HEIGHT)
    figure = NotebookFigure(figsize=size or (columns * width, rows * height), layout="constrained")
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False))


def save(figure: Figure, path_stem: Path, *, force: bool = True) -> tuple[Path, Path]:
    """Write a figure as STEM.png and STEM.svg, both or none of them.

    Args:
        figure: the picture.
        path_stem: the path without its ending; an ending .png, .svg or .pdf is removed.
        force: whether to replace existing files.

    Returns:
        The two files.

    Raises:
        InputError: a file exists and `force` is False, or it cannot be written.
    """
    write_together(pack_picture(figure, path_stem), force=force)
    return picture_files(path_stem)


def pack_picture(figure: Figure, path_stem: Path) -> dict[Path, bytes]:
    """The bytes of STEM.png and STEM.svg, for `write_together`. They hold no dates: equal pictures are equal files.

    Args:
        figure: the picture.
        path_stem: the path without its ending; an ending .png, .svg or .pdf is removed.

    Returns:
        The content of the two files.
    """
    png, svg = BytesIO(), BytesIO()
    with look(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a label in a script that the font does not have
        figure.savefig(png, format="png", metadata={"Software": None})
        figure.set_layout_engine("none")  # the SVG has the same layout; a second one costs half the time
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return {path: file.getvalue() for path, file in zip(picture_files(path_stem), (png, svg), strict=True)}


def counting_axis(axis: Axis) -> None:
    """Ticks of a logarithmic axis at 1, 2, 5, 10, 20, 50, …"""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def power_axis(axis: Axis, values: Sequence[int]) -> None:
    """Ticks of a logarithmic axis at these values only."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def legend(axes: Axes, *, loc: Literal["upper left", "lower left", "beside"]) -> None:
    """The legend of the axes, if they have labels."""
    if not axes.get_legend_handles_labels()[1]:
        return
    if loc == "beside":
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        axes.legend(loc=loc)


def shared_legend(figure: Figure, axes: Iterable[Axes], *, order: Callable[[str], float] | None = None) -> None:
    """One legend for several axes, each label once: right of up to two columns, below three or more.

    Args:
        figure: the picture.
        axes: whose labels are shown.
        order: sorts the labels; None keeps the order in which they were drawn.
    """
    drawn = list(axes)
    handles = {label: handle for one in drawn for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    labels = list(handles) if order is None else sorted(handles, key=order)
    grid = drawn[0].get_gridspec() if drawn else None
    below = grid is not None and grid.ncols > 2
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center" if below else "outside right center",
        ncols=min(len(labels), 4) if below else 1,
    )
