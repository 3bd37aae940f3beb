"""Table 2: how many steps each size was trained for."""

from __future__ import annotations

from matplotlib.figure import Figure

from manyheads.drawing.style import look, panels
from manyheads.papers.exhibits import fig3
from manyheads.papers.panel import THRESHOLDS
from manyheads.papers.rows import Rows
from manyheads.papers.scale import Scale
from manyheads.papers.verdict import Verdict
from manyheads.training import step_limit

TITLE = "Step limits, and the steps that were made"
runs = fig3.runs


def draw(rows: Rows, scale: Scale) -> Figure:
    """The limit of each problem, the paper's, and how many steps its runs made in the mean."""
    with look():
        figure, ((axes,),) = panels(1, 1)
        axes.axis("off")
        figure.set_size_inches(7.4, 5.4)
        cells = []
        for panel in THRESHOLDS:
            made = rows.of(panel.runs(scale))
            if not made:
                continue
            limit = step_limit(items=panel.items, d_model=panel.d_model)
            early = sum(row.status == "converged" for row in made) / len(made)
            mean = sum(row.steps for row in made) / len(made)
            sizes = f"({panel.items}, {panel.d_model})"
            cells.append([sizes, f"{limit:,}", f"{scale.limit(limit):,}", f"{mean:,.0f}", f"{early:.0%}"])
        headings = ["(m, $d_{model}$)", "paper's limit", "limit here", "mean steps", "stopped early"]
        if cells:
            table = axes.table(cells, colLabels=headings, loc="center", cellLoc="center")
            table.scale(1, 1.4)
        axes.set_title("(1024, 32) is absent from the paper's table: 80,000 taken")
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """How much of the limit was used."""
    made = [row for panel in THRESHOLDS for row in rows.of(panel.runs(scale))]
    if not made:
        return "Nothing was run."
    early = sum(row.status == "converged" for row in made) / len(made)
    million = sum(row.steps for row in made) / 1e6
    return (
        f"{len(made):,} runs made {million:,.0f} million steps; {early:.0%} stopped early, above 0.995. The limits are "
        f"the paper's own{', cut to the sketch' if scale.quick else ''}; how many steps its runs made it does not say."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """A table of settings claims nothing."""
    return []
