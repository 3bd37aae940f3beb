"""Claim 21: without compression, m = d_model, one head suffices for a permutation."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from manyheads.capacity import Point, points
from manyheads.capacity.thresholds import TARGET
from manyheads.drawing.capacity import curve_panel, label_curves
from manyheads.drawing.style import look, panels, power_axis, shared_legend
from manyheads.papers.effort import Scale
from manyheads.papers.exhibit import Exhibit
from manyheads.papers.exhibits.constructions import Build
from manyheads.papers.panel import Panel
from manyheads.papers.rows import Rows
from manyheads.papers.trial import one_hot_task
from manyheads.papers.verdict import Verdict, judged, missing
from manyheads.sweep.store.record import Storable
from manyheads.training import Run

SIZES = (32, 64, 128)
EMBEDDINGS = ("Gaussian", "one-hot")
PANELS = tuple(Panel(size, size, paper_seeds=5) for size in SIZES)
MOST_HEADS = 8
CONSTANT = 80.0  # C of construction I's d_k = ⌈C·ln m⌉; the proof asks for 170
MORE = 1.5  # one head suffices if it needs at most this multiple of the key budget of several heads
Curves = dict[tuple[str, int], list[Point]]


def runs(scale: Scale) -> list[Storable]:
    """Gaussian rows and one-hot items at each size, and construction I, which has one head."""
    trained = [run for embedding in EMBEDDINGS for panel in _panels(scale) for run in _runs(panel, embedding, scale)]
    return [*trained, *_builds(scale)]


def draw(rows: Rows, scale: Scale) -> Figure:
    """A row of panels for each embedding; the number of items grows to the right."""
    found = _curves(rows, scale)
    with look():
        figure, grid = panels(len(EMBEDDINGS), len(_panels(scale)))
        for line, embedding in zip(grid, EMBEDDINGS, strict=True):
            for axes, panel in zip(line, _panels(scale), strict=True):
                size = panel.items
                curve_panel(axes, found.get((embedding, size), []))
                power_axis(axes.xaxis, (2, 3, 4, 5, 6, 8, 10, 12, 16))
                axes.set_title(f"{embedding}, m = $d_{{model}}$ = {size}")
        label_curves(grid, "mean test micro-F1")
        shared_legend(figure, grid.flat)
    return figure


def caption(rows: Rows, scale: Scale) -> str:
    """The smallest budgets of one head and of several."""
    found = _curves(rows, scale)
    return (
        f"Smallest D_K with a mean F1 of {TARGET:g}, {len(PANELS[0].seeds(scale))} seeds. "
        + "; ".join(_shown(embedding, size, line) for (embedding, size), line in found.items())
        + f". One head needs no more than {MORE:g} times the budget of several in "
        f"{sum(map(_suffices, found.values()))} of {len(found)} problems. The paper has no experiment here, but "
        f"{_certified(rows, scale)}."
    )


def claims(rows: Rows, scale: Scale) -> list[Verdict]:
    """Claim 21."""
    says = "without compression (m = d_model) one head suffices for a permutation"
    found = _curves(rows, scale)
    wanted = len(EMBEDDINGS) * len(_panels(scale))
    built = rows.of(_builds(scale))
    if len(found) < wanted or len(built) < len(_builds(scale)):
        return [missing("21", says, f"{len(found)} of {wanted} problems were run")]
    holds = all(_suffices(line) for line in found.values()) and all(row.scores["paper"] for row in built)
    shown = [_shown(embedding, size, line) for (embedding, size), line in found.items()]
    measured = "; ".join([*shown, _certified(rows, scale)])
    why = (
        f"yardstick: one head reaches {TARGET:g} with at most {MORE:g} times the key budget of 2 to {MOST_HEADS} "
        "heads, at every size, and construction I certifies"
    )
    return [judged("21", says, measured, holds, why)]


def _builds(scale: Scale) -> list[Build]:
    panels_here = [panel for panel in _panels(scale) if panel.items <= scale.most_items]
    return [
        Build("I", panel.items, panel.items, panel.items, CONSTANT, seed)
        for panel in panels_here
        for seed in panel.seeds(scale)
    ]


def _certified(rows: Rows, scale: Scale) -> str:
    built = rows.of(_builds(scale))
    certified = sum(int(row.scores["paper"] or 0) for row in built)
    return f"construction I, one head with d_k = ⌈{CONSTANT:g}·ln m⌉, certifies in {certified} of {len(built)} builds"


def _panels(scale: Scale) -> tuple[Panel, ...]:
    return PANELS[:2] if scale.quick else PANELS


def _runs(panel: Panel, embedding: str, scale: Scale) -> list[Run]:
    drawn = [run for run in panel.runs(scale) if run.heads <= MOST_HEADS]
    return drawn if embedding == "Gaussian" else [replace(run, task=one_hot_task(run.items)) for run in drawn]


def _curves(rows: Rows, scale: Scale) -> Curves:
    """The points of every problem whose runs all have a row."""
    found = {}
    for embedding in EMBEDDINGS:
        for panel in _panels(scale):
            wanted = _runs(panel, embedding, scale)
            scores = rows.scores(wanted, "micro_f1")
            if wanted and len(scores) == len(wanted):
                line = points((run.heads, run.key_width, run.seed, value) for run, value in scores)
                found[embedding, panel.items] = line
    return found


def _single(line: list[Point]) -> int | None:
    return min((point.key_budget for point in line if point.heads == 1 and point.mean >= TARGET), default=None)


def _several(line: list[Point]) -> int | None:
    return min((point.key_budget for point in line if point.heads > 1 and point.mean >= TARGET), default=None)


def _suffices(line: list[Point]) -> bool:
    single, several = _single(line), _several(line)
    return single is not None and (several is None or single <= MORE * several)


def _shown(embedding: str, size: int, line: list[Point]) -> str:
    single, several = (_single(line) or "none", _several(line) or "none")
    return f"{embedding}, m = {size}: {single} with one head, {several} with several"


NO_COMPRESSION = Exhibit(
    "No compression: as many dimensions as items",
    runs,
    draw,
    caption,
    claims,
    work=frozenset({"layer", "trial"}),
)
